package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/test/support/fixture"
)

// scanFixture returns the counts of a cluster with two nodes in zone a, one in zone
// b without pods, and one without a zone.
func scanFixture() counts.Counts {
	near := fixture.PodAffinityTerm("zone", "app", "web")
	c := NewWithScanCounts()
	c.SetNode(fixture.Node("a1").Label("zone", "a").Obj())
	c.SetNode(fixture.Node("a2").Label("zone", "a").Label("disk", "ssd").Obj())
	c.SetNode(fixture.Node("b1").Label("zone", "b").Obj())
	c.SetNode(fixture.Node("stray").Obj())
	c.SetPod(fixture.Pod("web1").Label("app", "web").On("a1").Obj())
	c.SetPod(fixture.Pod("web2").Label("app", "web").On("a2").Obj())
	c.SetPod(fixture.Pod("web3").Label("app", "web").On("stray").Obj())
	c.SetPod(fixture.Pod("db").Label("app", "db").RequirePodAntiAffinity(near).PreferPodAffinity(7, near).On("a1").Obj())
	c.SetPod(fixture.Pod("log").PreferPodAntiAffinity(7, near).RequirePodAffinity(near).On("a2").Obj())
	c.SetPod(fixture.Pod("lost").Label("app", "web").RequirePodAntiAffinity(near).On("no-such-node").Obj())
	return c.UpdateSnapshot().Counts()
}

// domainCounts returns the count of each named domain. A further listed domain shows
// as the key "domains".
func domainCounts(sums *counts.DomainSums, names ...string) map[string]int64 {
	byDomain := map[string]int64{}
	for _, name := range names {
		byDomain[name] = sums.Get(name)
	}
	if sums.ListedDomains() != len(names) {
		byDomain["domains"] = int64(sums.ListedDomains())
	}
	return byDomain
}

func TestPodsAreCountedByDomain(t *testing.T) {
	web := &counts.PodSet{Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
	ssd := counts.NewScope(fixture.Pod("a").NodeSelector("disk", "ssd").Obj(), nil, true, false)
	for name, c := range map[string]struct {
		query counts.PodQuery
		want  map[string]int64
	}{
		"domains with pods are listed, nodes without the label are in none": {
			query: counts.PodQuery{TopologyKey: "zone", Pods: web}, want: map[string]int64{"a": 2},
		},
		"domains without pods are listed on demand": {
			query: counts.PodQuery{TopologyKey: "zone", Pods: web, IncludeEmpty: true}, want: map[string]int64{"a": 2, "b": 0},
		},
		"nodes without the label are a domain on demand": {
			query: counts.PodQuery{TopologyKey: "zone", Pods: web, IncludeUnlabelled: true}, want: map[string]int64{"a": 2, "": 1},
		},
		"nodes out of scope do not count": {
			query: counts.PodQuery{TopologyKey: "zone", Pods: web, IncludeEmpty: true, Scope: ssd}, want: map[string]int64{"a": 1},
		},
		"only the queried domains are listed": {
			query: counts.PodQuery{TopologyKey: "zone", Pods: web, IncludeEmpty: true, Within: sets.New("b")}, want: map[string]int64{"b": 0},
		},
		"each hostname is a domain": {
			query: counts.PodQuery{TopologyKey: v1.LabelHostname, Pods: web}, want: map[string]int64{"a1": 1, "a2": 1, "stray": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := counts.PodQuery{TopologyKey: "zone", Pods: &counts.PodSet{Selector: labels.Nothing()}}
			results := scanFixture().Pods(other, c.query, other)
			var names []string
			for domain := range c.want {
				names = append(names, domain)
			}
			if diff := cmp.Diff(c.want, domainCounts(results[1], names...)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if !results[0].AllZero() || !results[2].AllZero() {
				t.Error("the other queries of the call counted pods, want none")
			}
		})
	}
}

func TestMatchingTermsAreWeighted(t *testing.T) {
	web := fixture.Pod("new").Label("app", "web").Obj()
	for name, c := range map[string]struct {
		query counts.TermQuery
		want  map[string]map[string]int64
	}{
		"required anti-affinity alone": {
			query: counts.TermQuery{Pod: web, RequiredAntiAffinity: 1}, want: map[string]map[string]int64{"zone": {"a": 1}},
		},
		"a domain whose weights add up to 0 is listed": {
			query: counts.TermQuery{Pod: web, PreferredAffinity: 1, PreferredAntiAffinity: -1},
			want:  map[string]map[string]int64{"zone": {"a": 0}},
		},
		"required affinity has the weight of the query": {
			query: counts.TermQuery{Pod: web, RequiredAffinity: 5}, want: map[string]map[string]int64{"zone": {"a": 5}},
		},
		"a pod that no term matches": {
			query: counts.TermQuery{Pod: fixture.Pod("new").Obj(), RequiredAffinity: 5, RequiredAntiAffinity: 1},
			want:  map[string]map[string]int64{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]map[string]int64{}
			for key, sums := range scanFixture().Terms(c.query).ByTopologyKey {
				got[key] = domainCounts(sums, "a")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
		})
	}
}
