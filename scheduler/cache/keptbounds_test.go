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

// zones returns a cache of nodes in three zones.
func zones(nodes int) *Cache {
	c := New()
	for i := range nodes {
		c.SetNode(fixture.Node(fmt.Sprint("n", i)).Label("zone", fmt.Sprint(i%3)).Label("job", fmt.Sprint(i)).Obj())
	}
	return c
}

// spread asks for the pods with a label app, on the nodes that a nodeSelector job
// selects.
func spread(key, app, job string) framework.PodQuery {
	q := framework.PodQuery{TopologyKey: key, Vacant: true, Pods: &framework.PodSet{
		Namespaces: sets.New("default"), Selector: labels.SelectorFromSet(labels.Set{"app": app}),
	}}
	if job != "" {
		q.Scope = framework.NewScope(fixture.Pod("p").NodeSelector("job", job).Obj(), nil, true, false)
	}
	return q
}

// current reports whether a tally of kept counts still moves with the snapshot.
func current(tally *framework.Tally) bool { return tally.Counted()[0].Current() }

// numbersIn counts the numbers that are kept.
func (k *kept) numbersIn() (most, all int) {
	for _, set := range k.sets {
		most, all = max(most, len(set.numbers)), all+len(set.numbers)
	}
	return most, all
}

func TestNumbersThatAreKeptAreBounded(t *testing.T) {
	for sentence, c := range map[string]struct{ apps, jobs int }{
		"many node selectors under one set of pods": {1, 4000},
		"many sets of pods":                         {300, 4000},
	} {
		t.Run(sentence, func(t *testing.T) {
			cached := zones(30)
			cached.Confirm(fixture.Pod("web").Label("app", "0").On("n1").Obj())
			snapshot := cached.Refresh()
			used := snapshot.kept.Pods(spread("zone", "0", ""))[0]
			for i := range c.jobs {
				snapshot.kept.Pods(spread("zone", fmt.Sprint(i%c.apps), fmt.Sprint(i)))
				if i%20 == 0 && !current(used) {
					t.Fatalf("after %d others, the numbers are dropped that are used all the while", i)
				}
				most, all := snapshot.kept.numbersIn()
				if most > maxNumbersOfSet || all > maxNumbers || all != snapshot.kept.numbers {
					t.Fatalf("%d numbers, noted as %d, and %d of one set; want at most %d and %d", all, snapshot.kept.numbers, most, maxNumbers, maxNumbersOfSet)
				}
			}
			// What was dropped is counted again, and moves again.
			again := spread("zone", "0", "1")
			tally := snapshot.kept.Pods(again)[0]
			cached.Confirm(fixture.Pod("web2").Label("app", "0").On("n1").Obj())
			cached.Refresh()
			if got := tally.Of("1"); got != 2 || !current(tally) {
				t.Errorf("%d pods in zone 1, current: %v; want 2 that move with the snapshot", got, current(tally))
			}
			if got := used.Of("1"); got != 2 {
				t.Errorf("%d pods in zone 1 by the numbers that were kept, want 2", got)
			}
		})
	}
}

// Large clusters have fewer numbers and sets, so that all take a bounded memory.
func TestCountsOfLargeClustersAreFewer(t *testing.T) {
	k := newSnapshot().kept
	for _, c := range []struct{ nodes, sets, numbers int }{{1000, 4096, 2048}, {100_000, 335, 103}, {10_000_000, 64, 64}} {
		k.columns.Nodes = make([]*framework.NodeInfo, c.nodes)
		if sets, numbers := k.bound(maxSets, setBytes), k.bound(maxNumbers, numberBytes); sets != c.sets || numbers != c.numbers {
			t.Errorf("%d nodes: %d sets and %d numbers, want %d and %d", c.nodes, sets, numbers, c.sets, c.numbers)
		}
	}
}

// typo is a topology key that no node carries.
func typo(i int) string { return fmt.Sprint("zoen-", i) }

func TestATopologyKeyThatNothingUsesGivesWay(t *testing.T) {
	for sentence, use := range map[string]func(c *Cache){
		"pods with terms that are gone": func(c *Cache) {
			for i := range 64 {
				pod := fixture.Pod(fmt.Sprint("p", i)).RefusePods(fixture.Near(typo(i), "app", "web")).On("n1").Obj()
				c.Confirm(pod)
				c.Refresh()
				c.Remove(pod.UID)
			}
		},
		"pods with terms that are there": func(c *Cache) {
			for i := range 64 {
				c.Confirm(fixture.Pod(fmt.Sprint("p", i)).AvoidPods(1, fixture.Near(typo(i), "app", "web")).On("n1").Obj())
			}
		},
		"pods with constraints": func(c *Cache) {
			for i := range 64 {
				c.Refresh().kept.Pods(spread(typo(i), "web", ""))
			}
		},
		"pods with terms that are gone, of keys that nodes carry": func(c *Cache) {
			for i := range 64 {
				c.SetNode(fixture.Node(fmt.Sprint("m", i)).Label(typo(i), "x").Obj())
				c.Refresh()
				pod := fixture.Pod(fmt.Sprint("p", i)).RefusePods(fixture.Near(typo(i), "app", "web")).On("n1").Obj()
				c.Confirm(pod)
				c.Refresh()
				c.Remove(pod.UID)
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := zones(3)
			use(c)
			snapshot := c.Refresh()
			if snapshot.Columns().Domains("zone", false) == nil {
				t.Fatal("the key zone gets no place")
			}
			tally := snapshot.kept.Pods(spread("zone", "web", ""))[0]
			terms := snapshot.kept.Terms(framework.TermQuery{Pod: fixture.Pod("new").Label("app", "web").Obj(), RequiredAntiAffinity: 1})
			c.Confirm(fixture.Pod("web").Label("app", "web").RefusePods(fixture.Near("zone", "app", "web")).On("n1").Obj())
			c.Refresh()
			if got := tally.Of("1"); got != 1 || !current(tally) {
				t.Errorf("%d pods in zone 1, current: %v; want 1 that moves with the snapshot", got, current(tally))
			}
			if !terms.Update() || !terms.Listed() {
				t.Error("a term of the key zone is not counted as the snapshot moves")
			}
		})
	}
}

// One who may create pods can name any number of topology keys, but cannot label
// nodes.
func TestKeysThatNoNodeCarriesTakeNoPlaceOfOthers(t *testing.T) {
	c := zones(3)
	snapshot := c.Refresh()
	zone, job := snapshot.kept.Pods(spread("zone", "web", ""))[0], snapshot.kept.Pods(spread("job", "web", ""))[0]
	domains := snapshot.Columns().Domains("zone", false)
	for i := range 1000 {
		snapshot.kept.Pods(spread(typo(i), "web", ""))
		c.Confirm(fixture.Pod(fmt.Sprint("p", i)).AvoidPods(1, fixture.Near(typo(i), "app", "web")).On("n1").Obj())
		c.Refresh()
	}
	if !current(zone) || !current(job) || !domains.Current() {
		t.Errorf("zone is current: %v, its domains %v; job %v; want all, beside 1000 keys that no node carries", current(zone), domains.Current(), current(job))
	}
}

// Of the keys that nodes carry, the one that was used least recently gives way.
func TestAKeyThatIsUsedKeepsItsPlace(t *testing.T) {
	c := New()
	node := fixture.Node("n1").Label("zone", "a")
	for i := range 200 {
		node.Label(typo(i), "x")
	}
	c.SetNode(node.Obj())
	snapshot := c.Refresh()
	used, idle := snapshot.kept.Pods(spread("zone", "web", ""))[0], snapshot.kept.Pods(spread(typo(0), "web", ""))[0]
	for i := range 200 {
		snapshot.kept.Pods(spread(typo(i), "db", ""))
		if i%30 == 0 && !current(used) {
			t.Fatalf("the key zone lost its place to %d others, though it is used", i)
		}
	}
	if current(idle) {
		t.Error("a key that was not used while 200 others were has its place still")
	}
}

// A topology key that no node carried counts as soon as one does.
func TestTermsCountOnceANodeCarriesTheirKey(t *testing.T) {
	c := zones(2)
	c.Confirm(fixture.Pod("old").RefusePods(fixture.Near("rack", "app", "web")).On("n1").Obj())
	snapshot := c.Refresh()
	query := framework.TermQuery{Pod: fixture.Pod("new").Label("app", "web").Obj(), RequiredAntiAffinity: 1}
	terms := snapshot.kept.Terms(query)
	if terms.Listed() {
		t.Fatal("a term counts whose key no node carries")
	}
	c.SetNode(fixture.Node("n1").Label("rack", "r1").Obj())
	c.Refresh()
	if !terms.Update() || !terms.Listed() || terms.By["rack"].Of("r1") != 1 {
		t.Errorf("%+v, want one term in rack r1", terms.By["rack"])
	}
}

// crowded is a random history with more topology keys than have a place.
func crowded(seed uint64) (*town, func(b func(key, value string))) {
	w := &town{Rand: rand.New(rand.NewPCG(seed, 7)), kept: New(), scanned: NewScanning(), nodes: 5, pods: 60}
	return w, func(label func(key, value string)) {
		for i := range 100 {
			if w.IntN(3) > 0 {
				label(typo(i), []string{"", "ssd", "c"}[w.IntN(3)])
			}
		}
	}
}

func TestCountsOfMoreKeysThanHaveAPlaceAreWhatAScanFinds(t *testing.T) {
	for seed := range uint64(8) {
		w, label := crowded(seed)
		term := func() v1.PodAffinityTerm { return fixture.Near(typo(w.IntN(110)), "app", fmt.Sprint(1+w.IntN(2))) }
		type asked struct {
			query framework.PodQuery
			tally *framework.Tally
		}
		var before []asked
		for turn := range 60 {
			switch w.IntN(4) {
			case 0:
				b := fixture.Node(fmt.Sprint("n", w.IntN(w.nodes)))
				label(func(key, value string) { b.Label(key, value) })
				node := b.Obj()
				w.both(func(c *Cache) { c.SetNode(node) })
			case 1:
				name := fmt.Sprint("n", w.IntN(w.nodes))
				w.both(func(c *Cache) { c.RemoveNode(name) })
			}
			for range w.IntN(8) {
				b := w.label(fixture.Pod(fmt.Sprint("shop/p", w.IntN(w.pods))))
				for range w.IntN(4) {
					b.RefusePods(term()).AvoidPods(3, term())
				}
				pod := b.On(fmt.Sprint("n", w.IntN(w.nodes))).Obj()
				if w.IntN(3) == 0 {
					w.both(func(c *Cache) { c.Remove(pod.UID) })
				} else {
					w.both(func(c *Cache) { c.Confirm(pod) })
				}
			}
			w.scanned.Refresh()
			kept := w.kept.Refresh().kept
			scan := w.scanned.Snapshot().Counts()
			for range 6 {
				q := w.query()
				q.TopologyKey = typo(w.IntN(110))
				tally := kept.Pods(q)[0]
				before = append(before, asked{q, tally})
				if diff := cmp.Diff(w.told(scan.Pods(q)[0], q), w.told(tally, q)); diff != "" {
					t.Fatalf("seed %d, turn %d, %+v (-scanned +kept):\n%s", seed, turn, q, diff)
				}
			}
			for _, a := range before {
				if !current(a.tally) {
					continue
				}
				if diff := cmp.Diff(w.told(scan.Pods(a.query)[0], a.query), w.told(a.tally, a.query)); diff != "" {
					t.Fatalf("seed %d, turn %d, asked before: %+v (-scanned +kept):\n%s", seed, turn, a.query, diff)
				}
			}
			q := framework.TermQuery{Pod: w.label(fixture.Pod("shop/new")).Obj(), RequiredAntiAffinity: 1, PreferredAntiAffinity: -1}
			want, got := scan.Terms(q), kept.Terms(q)
			if diff := cmp.Diff(w.weights(want), w.weights(got)); diff != "" || want.Listed() != got.Listed() {
				t.Fatalf("seed %d, turn %d: listed %v, want %v (-scanned +kept):\n%s", seed, turn, got.Listed(), want.Listed(), diff)
			}
		}
	}
}
