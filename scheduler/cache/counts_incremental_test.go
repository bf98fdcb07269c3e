package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/test/support/fixture"
)

// randomHistory applies the same random changes to two caches, one with incremental
// counts and one that scans.
type randomHistory struct {
	*rand.Rand
	incremental, scanned *Cache
	nodes, pods          int
}

func (w *randomHistory) apply(change func(c *Cache)) { change(w.incremental); change(w.scanned) }

func (w *randomHistory) addLabels(b *fixture.PodBuilder) *fixture.PodBuilder {
	for _, key := range []string{"app", "tier"} {
		if v := w.IntN(4); v > 0 {
			b.Label(key, fmt.Sprint(v))
		}
	}
	return b
}

func (w *randomHistory) term() v1.PodAffinityTerm {
	key := []string{"zone", "rack", v1.LabelHostname}[w.IntN(3)]
	term := fixture.PodAffinityTerm(key, []string{"app", "tier", "colour"}[w.IntN(3)], fmt.Sprint(1+w.IntN(3)))
	switch w.IntN(4) {
	case 0:
		term.Namespaces = []string{"shop", "mail"}
	case 1:
		term.NamespaceSelector = fixture.LabelSelector("team", "x")
	case 2:
		term.NamespaceSelector = fixture.LabelSelector()
	}
	return term
}

func (w *randomHistory) pod() *v1.Pod {
	b := w.addLabels(fixture.Pod([]string{"shop/", "mail/"}[w.IntN(2)] + fmt.Sprint("p", w.IntN(w.pods))))
	for range w.IntN(3) {
		switch w.IntN(4) {
		case 0:
			b.RequirePodAffinity(w.term())
		case 1:
			b.RequirePodAntiAffinity(w.term())
		case 2:
			b.PreferPodAffinity(int32(1+w.IntN(9)), w.term())
		default:
			b.PreferPodAntiAffinity(int32(1+w.IntN(9)), w.term())
		}
	}
	if w.IntN(8) == 0 {
		b.Terminating()
	}
	if w.IntN(3) == 0 {
		b.NodeSelector("disk", "ssd")
	}
	return b.On(fmt.Sprint("n", w.IntN(w.nodes))).Obj()
}

func (w *randomHistory) node() *v1.Node {
	b := fixture.Node(fmt.Sprint("n", w.IntN(w.nodes)))
	for _, key := range []string{"zone", "rack", "disk"} {
		if v := w.IntN(4); v > 0 {
			b.Label(key, []string{"", "ssd", "c"}[v-1])
		}
	}
	if w.IntN(4) == 0 {
		b.Taint("gpu", "", v1.TaintEffectNoSchedule)
	}
	return b.Obj()
}

func (w *randomHistory) step() {
	switch n := w.IntN(10); {
	case n < 2:
		node := w.node()
		w.apply(func(c *Cache) { c.SetNode(node) })
	case n < 3:
		name := w.node().Name
		w.apply(func(c *Cache) { c.RemoveNodeByName(name) })
	case n < 8:
		pod := w.pod()
		w.apply(func(c *Cache) { c.SetPod(pod) })
	default:
		uid := w.pod().UID
		w.apply(func(c *Cache) { c.RemovePodByUID(uid) })
	}
}

func (w *randomHistory) query() counts.PodQuery {
	requirement := fixture.LabelSelector([]string{"app", "tier"}[w.IntN(2)], fmt.Sprint(1+w.IntN(3)))
	pods := &counts.PodSet{Selector: labels.SelectorFromSet(requirement.MatchLabels), Terminating: w.IntN(2) == 0}
	if w.IntN(3) > 0 {
		pods.Namespaces = sets.New([]string{"shop", "mail"}[w.IntN(2)])
	}
	q := counts.PodQuery{
		TopologyKey: []string{"zone", "rack", v1.LabelHostname}[w.IntN(3)],
		Pods:        pods, IncludeEmpty: true, IncludeUnlabelled: w.IntN(3) == 0,
	}
	if w.IntN(2) == 0 {
		q.Scope = counts.NewScope(w.pod(), []string{"zone"}[:w.IntN(2)], w.IntN(2) == 0, w.IntN(2) == 0)
	}
	return q
}

// sumsView holds all that can be read from sums.
type sumsView struct {
	Of            map[string]int64
	Domains       int
	Least         int64
	Listed, Empty bool
}

func (w *randomHistory) sumsView(sums *counts.DomainSums, of counts.PodQuery) sumsView {
	t := sumsView{Of: map[string]int64{}, Domains: sums.ListedDomains(), Least: sums.Min(), Listed: sums.HasListed(), Empty: sums.AllZero()}
	for i := range w.nodes {
		for _, name := range []string{"", "ssd", "c", fmt.Sprint("n", i)} {
			t.Of[name] = sums.Get(name)
		}
	}
	return t
}

// weights returns the weight of each domain that term results list.
func (w *randomHistory) weights(t *counts.TermSums) map[string]int64 {
	all := map[string]int64{}
	for key, sums := range t.ByTopologyKey {
		for i := range w.nodes {
			for _, name := range []string{"", "ssd", "c", fmt.Sprint("n", i)} {
				if n := sums.Get(name); n != 0 {
					all[key+"="+name] = n
				}
			}
		}
	}
	return all
}

// Incremental counts equal those of a scan, also long after they were queried.
func TestIncrementalCountsEqualAScan(t *testing.T) {
	histories := 150
	if testing.Short() {
		histories = 30
	}
	for seed := range uint64(histories) {
		w := &randomHistory{Rand: rand.New(rand.NewPCG(seed, 1)), incremental: New(), scanned: NewWithScanCounts(), nodes: 6, pods: 25}
		type asked struct {
			query counts.PodQuery
			sums  *counts.DomainSums
			nodes *counts.NodeCounts
		}
		type askedTerms struct {
			query counts.TermQuery
			terms *counts.TermSums
		}
		var pods []asked
		var terms []askedTerms
		for step := range 60 {
			for range w.IntN(5) {
				w.step()
			}
			w.scanned.UpdateSnapshot()
			incremental, ok := w.incremental.UpdateSnapshot().Counts().(counts.Incremental)
			if !ok {
				t.Fatal("a new cache has no incremental counts")
			}
			if w.IntN(3) == 0 {
				q := w.query()
				pods = append(pods, asked{q, incremental.Pods(q)[0], incremental.ByNode(q.Pods)})
				tq := counts.TermQuery{
					Pod: w.addLabels(fixture.Pod([]string{"shop/", "mail/"}[w.IntN(2)] + "new")).Obj(), Namespace: map[string]string{"team": "x"},
					RequiredAffinity: w.Int64N(2), RequiredAntiAffinity: w.Int64N(2), PreferredAffinity: w.Int64N(2), PreferredAntiAffinity: -w.Int64N(2),
				}
				terms = append(terms, askedTerms{tq, incremental.Terms(tq)})
			}
			for _, a := range pods {
				want := w.sumsView(w.scanned.Snapshot().Counts().Pods(a.query)[0], a.query)
				if diff := cmp.Diff(want, w.sumsView(a.sums, a.query)); diff != "" {
					t.Fatalf("seed %d, step %d, %+v (-scanned +incremental):\n%s", seed, step, a.query, diff)
				}
				for i, node := range w.incremental.Snapshot().Nodes() {
					slot := w.incremental.Snapshot().Slots()[i]
					if got, want := int64(a.nodes.BySlot[slot]), a.query.Pods.CountOnNode(node); got != want {
						t.Fatalf("seed %d, step %d: %d pods on %s, want %d", seed, step, got, node.Node().Name, want)
					}
				}
			}
			for _, a := range terms {
				want := w.scanned.Snapshot().Counts().Terms(a.query)
				if !a.terms.Update() {
					t.Fatalf("seed %d, step %d: the terms are not updated", seed, step)
				}
				if diff := cmp.Diff(w.weights(want), w.weights(a.terms)); diff != "" || want.HasListed() != a.terms.HasListed() {
					t.Fatalf("seed %d, step %d, %+v: listed %v, want %v (-scanned +incremental):\n%s", seed, step, a.query, a.terms.HasListed(), want.HasListed(), diff)
				}
			}
		}
	}
}
