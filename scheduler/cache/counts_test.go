package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// harbour has two nodes in zone a, one in an empty zone b, and one in none.
func scanFixture() framework.Counts {
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

// domains reads a tally that lists no others.
func tallyCounts(tally *framework.DomainSums, names ...string) map[string]int64 {
	numbers := map[string]int64{}
	for _, name := range names {
		numbers[name] = tally.Get(name)
	}
	if tally.ListedDomains() != len(names) {
		numbers["domains"] = int64(tally.ListedDomains())
	}
	return numbers
}

func TestPodsAreCountedByDomain(t *testing.T) {
	web := &framework.PodSet{Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
	ssd := framework.NewScope(fixture.Pod("a").NodeSelector("disk", "ssd").Obj(), nil, true, false)
	for sentence, c := range map[string]struct {
		query framework.PodQuery
		want  map[string]int64
	}{
		"domains with pods are listed, nodes without the label are in none": {
			query: framework.PodQuery{TopologyKey: "zone", Pods: web}, want: map[string]int64{"a": 2},
		},
		"vacant domains are listed on demand": {
			query: framework.PodQuery{TopologyKey: "zone", Pods: web, IncludeEmpty: true}, want: map[string]int64{"a": 2, "b": 0},
		},
		"nodes without the label are a domain on demand": {
			query: framework.PodQuery{TopologyKey: "zone", Pods: web, IncludeUnlabelled: true}, want: map[string]int64{"a": 2, "": 1},
		},
		"nodes out of scope do not count": {
			query: framework.PodQuery{TopologyKey: "zone", Pods: web, IncludeEmpty: true, Scope: ssd}, want: map[string]int64{"a": 1},
		},
		"only the domains that are asked about are listed": {
			query: framework.PodQuery{TopologyKey: "zone", Pods: web, IncludeEmpty: true, Within: sets.New("b")}, want: map[string]int64{"b": 0},
		},
		"each host is a domain": {
			query: framework.PodQuery{TopologyKey: v1.LabelHostname, Pods: web}, want: map[string]int64{"a1": 1, "a2": 1, "stray": 1},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			other := framework.PodQuery{TopologyKey: "zone", Pods: &framework.PodSet{Selector: labels.Nothing()}}
			tallies := scanFixture().Pods(other, c.query, other)
			var names []string
			for name := range c.want {
				names = append(names, name)
			}
			if diff := cmp.Diff(c.want, tallyCounts(tallies[1], names...)); diff != "" {
				t.Errorf("numbers (-want +got):\n%s", diff)
			}
			if !tallies[0].AllZero() || !tallies[2].AllZero() {
				t.Error("the queries beside it counted something, want nothing")
			}
		})
	}
}

func TestMatchingTermsAreWeighted(t *testing.T) {
	web := fixture.Pod("new").Label("app", "web").Obj()
	for sentence, c := range map[string]struct {
		query framework.TermQuery
		want  map[string]map[string]int64
	}{
		"required anti-affinity alone": {
			query: framework.TermQuery{Pod: web, RequiredAntiAffinity: 1}, want: map[string]map[string]int64{"zone": {"a": 1}},
		},
		"a domain is listed though its weights cancel out": {
			query: framework.TermQuery{Pod: web, PreferredAffinity: 1, PreferredAntiAffinity: -1},
			want:  map[string]map[string]int64{"zone": {"a": 0}},
		},
		"required affinity counts what the query says": {
			query: framework.TermQuery{Pod: web, RequiredAffinity: 5}, want: map[string]map[string]int64{"zone": {"a": 5}},
		},
		"a pod that no term matches": {
			query: framework.TermQuery{Pod: fixture.Pod("new").Obj(), RequiredAffinity: 5, RequiredAntiAffinity: 1},
			want:  map[string]map[string]int64{},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := map[string]map[string]int64{}
			for key, tally := range scanFixture().Terms(c.query).ByTopologyKey {
				got[key] = tallyCounts(tally, "a")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
		})
	}
}
