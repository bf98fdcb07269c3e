package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// town is a random history told to two caches, one of which keeps counts.
type town struct {
	*rand.Rand
	kept, scanned *Cache
	nodes, pods   int
}

func (w *town) both(tell func(c *Cache)) { tell(w.kept); tell(w.scanned) }

func (w *town) label(b *fixture.PodBuilder) *fixture.PodBuilder {
	for _, key := range []string{"app", "tier"} {
		if v := w.IntN(4); v > 0 {
			b.Label(key, fmt.Sprint(v))
		}
	}
	return b
}

func (w *town) term() v1.PodAffinityTerm {
	key := []string{"zone", "rack", v1.LabelHostname}[w.IntN(3)]
	term := fixture.Near(key, []string{"app", "tier", "colour"}[w.IntN(3)], fmt.Sprint(1+w.IntN(3)))
	switch w.IntN(4) {
	case 0:
		term.Namespaces = []string{"shop", "mail"}
	case 1:
		term.NamespaceSelector = fixture.Labels("team", "x")
	case 2:
		term.NamespaceSelector = fixture.Labels()
	}
	return term
}

func (w *town) pod() *v1.Pod {
	b := w.label(fixture.Pod([]string{"shop/", "mail/"}[w.IntN(2)] + fmt.Sprint("p", w.IntN(w.pods))))
	for range w.IntN(3) {
		switch w.IntN(4) {
		case 0:
			b.RequirePods(w.term())
		case 1:
			b.RefusePods(w.term())
		case 2:
			b.PreferPods(int32(1+w.IntN(9)), w.term())
		default:
			b.AvoidPods(int32(1+w.IntN(9)), w.term())
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

func (w *town) node() *v1.Node {
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

func (w *town) step() {
	switch n := w.IntN(10); {
	case n < 2:
		node := w.node()
		w.both(func(c *Cache) { c.SetNode(node) })
	case n < 3:
		name := w.node().Name
		w.both(func(c *Cache) { c.RemoveNode(name) })
	case n < 8:
		pod := w.pod()
		w.both(func(c *Cache) { c.Confirm(pod) })
	default:
		uid := w.pod().UID
		w.both(func(c *Cache) { c.Remove(uid) })
	}
}

func (w *town) query() framework.PodQuery {
	requirement := fixture.Labels([]string{"app", "tier"}[w.IntN(2)], fmt.Sprint(1+w.IntN(3)))
	pods := &framework.PodSet{Selector: labels.SelectorFromSet(requirement.MatchLabels), Terminating: w.IntN(2) == 0}
	if w.IntN(3) > 0 {
		pods.Namespaces = sets.New([]string{"shop", "mail"}[w.IntN(2)])
	}
	q := framework.PodQuery{
		TopologyKey: []string{"zone", "rack", v1.LabelHostname}[w.IntN(3)],
		Pods:        pods, Vacant: true, Unlabelled: w.IntN(3) == 0,
	}
	if w.IntN(2) == 0 {
		q.Scope = framework.NewScope(w.pod(), []string{"zone"}[:w.IntN(2)], w.IntN(2) == 0, w.IntN(2) == 0)
	}
	return q
}

// told is all that a tally says.
type told struct {
	Of            map[string]int64
	Domains       int
	Least         int64
	Listed, Empty bool
}

func (w *town) told(tally *framework.Tally, of framework.PodQuery) told {
	t := told{Of: map[string]int64{}, Domains: tally.Domains(), Least: tally.Least(), Listed: tally.Listed(), Empty: tally.Zero()}
	for i := range w.nodes {
		for _, name := range []string{"", "ssd", "c", fmt.Sprint("n", i)} {
			t.Of[name] = tally.Of(name)
		}
	}
	return t
}

// weights are what term tallies say of the domains that are listed.
func (w *town) weights(t *framework.TermTallies) map[string]int64 {
	all := map[string]int64{}
	for key, tally := range t.By {
		for i := range w.nodes {
			for _, name := range []string{"", "ssd", "c", fmt.Sprint("n", i)} {
				if n := tally.Of(name); n != 0 {
					all[key+"="+name] = n
				}
			}
		}
	}
	return all
}

// Counts that move with the snapshot are what a look at all pods finds, those
// that were asked for long ago as well.
func TestKeptCountsAreWhatAScanFinds(t *testing.T) {
	for seed := range uint64(150) {
		w := &town{Rand: rand.New(rand.NewPCG(seed, 1)), kept: New(), scanned: NewScanning(), nodes: 6, pods: 25}
		type asked struct {
			query framework.PodQuery
			tally *framework.Tally
			nodes *framework.NodeNumbers
		}
		type askedTerms struct {
			query framework.TermQuery
			terms *framework.TermTallies
		}
		var pods []asked
		var terms []askedTerms
		for turn := range 60 {
			for range w.IntN(5) {
				w.step()
			}
			w.scanned.Refresh()
			kept, ok := w.kept.Refresh().Counts().(framework.KeptCounts)
			if !ok {
				t.Fatal("the counts of a new cache are not kept")
			}
			if w.IntN(3) == 0 {
				q := w.query()
				pods = append(pods, asked{q, kept.Pods(q)[0], kept.ByNode(q.Pods)})
				tq := framework.TermQuery{
					Pod: w.label(fixture.Pod([]string{"shop/", "mail/"}[w.IntN(2)] + "new")).Obj(), Namespace: map[string]string{"team": "x"},
					RequiredAffinity: w.Int64N(2), RequiredAntiAffinity: w.Int64N(2), PreferredAffinity: w.Int64N(2), PreferredAntiAffinity: -w.Int64N(2),
				}
				terms = append(terms, askedTerms{tq, kept.Terms(tq)})
			}
			for _, a := range pods {
				want := w.told(w.scanned.Snapshot().Counts().Pods(a.query)[0], a.query)
				if diff := cmp.Diff(want, w.told(a.tally, a.query)); diff != "" {
					t.Fatalf("seed %d, turn %d, %+v (-scanned +kept):\n%s", seed, turn, a.query, diff)
				}
				for i, node := range w.kept.Snapshot().Nodes() {
					slot := w.kept.Snapshot().Slots()[i]
					if got, want := int64(a.nodes.By[slot]), a.query.Pods.On(node); got != want {
						t.Fatalf("seed %d, turn %d: %d pods on %s, want %d", seed, turn, got, node.Node().Name, want)
					}
				}
			}
			for _, a := range terms {
				want := w.scanned.Snapshot().Counts().Terms(a.query)
				if !a.terms.Update() {
					t.Fatalf("seed %d, turn %d: the terms are not kept", seed, turn)
				}
				if diff := cmp.Diff(w.weights(want), w.weights(a.terms)); diff != "" || want.Listed() != a.terms.Listed() {
					t.Fatalf("seed %d, turn %d, %+v: listed %v, want %v (-scanned +kept):\n%s", seed, turn, a.query, a.terms.Listed(), want.Listed(), diff)
				}
			}
		}
	}
}
