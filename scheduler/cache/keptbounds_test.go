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
func zonedCache(nodes int) *Cache {
	c := New()
	for i := range nodes {
		c.SetNode(fixture.Node(fmt.Sprint("n", i)).Label("zone", fmt.Sprint(i%3)).Label("job", fmt.Sprint(i)).Obj())
	}
	return c
}

// spread asks for the pods with a label app, on the nodes that a nodeSelector job
// selects.
func spreadQuery(key, app, job string) framework.PodQuery {
	q := framework.PodQuery{TopologyKey: key, IncludeEmpty: true, Pods: &framework.PodSet{
		Namespaces: sets.New("default"), Selector: labels.SelectorFromSet(labels.Set{"app": app}),
	}}
	if job != "" {
		q.Scope = framework.NewScope(fixture.Pod("p").NodeSelector("job", job).Obj(), nil, true, false)
	}
	return q
}

// current reports whether a tally of kept counts still moves with the snapshot.
func isCurrent(tally *framework.DomainSums) bool { return tally.Terms()[0].Current() }

// numbersIn counts the numbers that are kept.
func (k *incrementalCounts) countTopologies() (most, all int) {
	for _, set := range k.podSets {
		most, all = max(most, len(set.byTopology)), all+len(set.byTopology)
	}
	return most, all
}

func TestRetainedCountsAreBounded(t *testing.T) {
	for sentence, c := range map[string]struct{ apps, jobs int }{
		"many node selectors under one set of pods": {1, 4000},
		"many sets of pods":                         {300, 4000},
	} {
		t.Run(sentence, func(t *testing.T) {
			cached := zonedCache(30)
			cached.SetPod(fixture.Pod("web").Label("app", "0").On("n1").Obj())
			snapshot := cached.UpdateSnapshot()
			used := snapshot.incremental.Pods(spreadQuery("zone", "0", ""))[0]
			for i := range c.jobs {
				snapshot.incremental.Pods(spreadQuery("zone", fmt.Sprint(i%c.apps), fmt.Sprint(i)))
				if i%20 == 0 && !isCurrent(used) {
					t.Fatalf("after %d others, the numbers are dropped that are used all the while", i)
				}
				most, all := snapshot.incremental.countTopologies()
				if most > maxTopologiesPerSet || all > maxTopologies || all != snapshot.incremental.topologyTotal {
					t.Fatalf("%d numbers, noted as %d, and %d of one set; want at most %d and %d", all, snapshot.incremental.topologyTotal, most, maxTopologies, maxTopologiesPerSet)
				}
			}
			// What was dropped is counted again, and moves again.
			again := spreadQuery("zone", "0", "1")
			tally := snapshot.incremental.Pods(again)[0]
			cached.SetPod(fixture.Pod("web2").Label("app", "0").On("n1").Obj())
			cached.UpdateSnapshot()
			if got := tally.Get("1"); got != 2 || !isCurrent(tally) {
				t.Errorf("%d pods in zone 1, current: %v; want 2 that move with the snapshot", got, isCurrent(tally))
			}
			if got := used.Get("1"); got != 2 {
				t.Errorf("%d pods in zone 1 by the numbers that were kept, want 2", got)
			}
		})
	}
}

// Large clusters have fewer numbers and sets, so that all take a bounded memory.
func TestLargeClustersRetainFewerCounts(t *testing.T) {
	k := newSnapshot().incremental
	for _, c := range []struct{ nodes, sets, numbers int }{{1000, 4096, 2048}, {100_000, 335, 103}, {10_000_000, 64, 64}} {
		k.columns.Nodes = make([]*framework.NodeInfo, c.nodes)
		if sets, numbers := k.limit(maxPodSets, podSetBytesPerNode), k.limit(maxTopologies, topologyBytesPerNode); sets != c.sets || numbers != c.numbers {
			t.Errorf("%d nodes: %d sets and %d numbers, want %d and %d", c.nodes, sets, numbers, c.sets, c.numbers)
		}
	}
}

// typo is a topology key that no node carries.
func topologyKey(i int) string { return fmt.Sprint("zoen-", i) }

func TestAnUnusedTopologyKeyIsEvicted(t *testing.T) {
	for sentence, use := range map[string]func(c *Cache){
		"pods with terms that are gone": func(c *Cache) {
			for i := range 64 {
				pod := fixture.Pod(fmt.Sprint("p", i)).RequirePodAntiAffinity(fixture.PodAffinityTerm(topologyKey(i), "app", "web")).On("n1").Obj()
				c.SetPod(pod)
				c.UpdateSnapshot()
				c.RemovePodByUID(pod.UID)
			}
		},
		"pods with terms that are there": func(c *Cache) {
			for i := range 64 {
				c.SetPod(fixture.Pod(fmt.Sprint("p", i)).PreferPodAntiAffinity(1, fixture.PodAffinityTerm(topologyKey(i), "app", "web")).On("n1").Obj())
			}
		},
		"pods with constraints": func(c *Cache) {
			for i := range 64 {
				c.UpdateSnapshot().incremental.Pods(spreadQuery(topologyKey(i), "web", ""))
			}
		},
		"pods with terms that are gone, of keys that nodes carry": func(c *Cache) {
			for i := range 64 {
				c.SetNode(fixture.Node(fmt.Sprint("m", i)).Label(topologyKey(i), "x").Obj())
				c.UpdateSnapshot()
				pod := fixture.Pod(fmt.Sprint("p", i)).RequirePodAntiAffinity(fixture.PodAffinityTerm(topologyKey(i), "app", "web")).On("n1").Obj()
				c.SetPod(pod)
				c.UpdateSnapshot()
				c.RemovePodByUID(pod.UID)
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := zonedCache(3)
			use(c)
			snapshot := c.UpdateSnapshot()
			if snapshot.Columns().Domains("zone", false) == nil {
				t.Fatal("the key zone gets no place")
			}
			tally := snapshot.incremental.Pods(spreadQuery("zone", "web", ""))[0]
			terms := snapshot.incremental.Terms(framework.TermQuery{Pod: fixture.Pod("new").Label("app", "web").Obj(), RequiredAntiAffinity: 1})
			c.SetPod(fixture.Pod("web").Label("app", "web").RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "web")).On("n1").Obj())
			c.UpdateSnapshot()
			if got := tally.Get("1"); got != 1 || !isCurrent(tally) {
				t.Errorf("%d pods in zone 1, current: %v; want 1 that moves with the snapshot", got, isCurrent(tally))
			}
			if !terms.Update() || !terms.HasListed() {
				t.Error("a term of the key zone is not counted as the snapshot moves")
			}
		})
	}
}

// One who may create pods can name any number of topology keys, but cannot label
// nodes.
func TestKeysThatNoNodeCarriesEvictNoOthers(t *testing.T) {
	c := zonedCache(3)
	snapshot := c.UpdateSnapshot()
	zone, job := snapshot.incremental.Pods(spreadQuery("zone", "web", ""))[0], snapshot.incremental.Pods(spreadQuery("job", "web", ""))[0]
	domains := snapshot.Columns().Domains("zone", false)
	for i := range 1000 {
		snapshot.incremental.Pods(spreadQuery(topologyKey(i), "web", ""))
		c.SetPod(fixture.Pod(fmt.Sprint("p", i)).PreferPodAntiAffinity(1, fixture.PodAffinityTerm(topologyKey(i), "app", "web")).On("n1").Obj())
		c.UpdateSnapshot()
	}
	if !isCurrent(zone) || !isCurrent(job) || !domains.Current() {
		t.Errorf("zone is current: %v, its domains %v; job %v; want all, beside 1000 keys that no node carries", isCurrent(zone), domains.Current(), isCurrent(job))
	}
}

// Of the keys that nodes carry, the one that was used least recently gives way.
func TestAKeyInUseIsNotEvicted(t *testing.T) {
	c := New()
	node := fixture.Node("n1").Label("zone", "a")
	for i := range 200 {
		node.Label(topologyKey(i), "x")
	}
	c.SetNode(node.Obj())
	snapshot := c.UpdateSnapshot()
	used, idle := snapshot.incremental.Pods(spreadQuery("zone", "web", ""))[0], snapshot.incremental.Pods(spreadQuery(topologyKey(0), "web", ""))[0]
	for i := range 200 {
		snapshot.incremental.Pods(spreadQuery(topologyKey(i), "db", ""))
		if i%30 == 0 && !isCurrent(used) {
			t.Fatalf("the key zone lost its place to %d others, though it is used", i)
		}
	}
	if isCurrent(idle) {
		t.Error("a key that was not used while 200 others were has its place still")
	}
}

// A topology key that no node carried counts as soon as one does.
func TestTermsCountOnceANodeHasTheirKey(t *testing.T) {
	c := zonedCache(2)
	c.SetPod(fixture.Pod("old").RequirePodAntiAffinity(fixture.PodAffinityTerm("rack", "app", "web")).On("n1").Obj())
	snapshot := c.UpdateSnapshot()
	query := framework.TermQuery{Pod: fixture.Pod("new").Label("app", "web").Obj(), RequiredAntiAffinity: 1}
	terms := snapshot.incremental.Terms(query)
	if terms.HasListed() {
		t.Fatal("a term counts whose key no node carries")
	}
	c.SetNode(fixture.Node("n1").Label("rack", "r1").Obj())
	c.UpdateSnapshot()
	if !terms.Update() || !terms.HasListed() || terms.ByTopologyKey["rack"].Get("r1") != 1 {
		t.Errorf("%+v, want one term in rack r1", terms.ByTopologyKey["rack"])
	}
}

// crowded is a random history with more topology keys than have a place.
func manyKeysHistory(seed uint64) (*randomHistory, func(b func(key, value string))) {
	w := &randomHistory{Rand: rand.New(rand.NewPCG(seed, 7)), incremental: New(), scanned: NewWithScanCounts(), nodes: 5, pods: 60}
	return w, func(label func(key, value string)) {
		for i := range 100 {
			if w.IntN(3) > 0 {
				label(topologyKey(i), []string{"", "ssd", "c"}[w.IntN(3)])
			}
		}
	}
}

func TestCountsBeyondTheKeyLimitEqualAScan(t *testing.T) {
	for seed := range uint64(8) {
		w, label := manyKeysHistory(seed)
		term := func() v1.PodAffinityTerm {
			return fixture.PodAffinityTerm(topologyKey(w.IntN(110)), "app", fmt.Sprint(1+w.IntN(2)))
		}
		type asked struct {
			query framework.PodQuery
			tally *framework.DomainSums
		}
		var before []asked
		for turn := range 60 {
			switch w.IntN(4) {
			case 0:
				b := fixture.Node(fmt.Sprint("n", w.IntN(w.nodes)))
				label(func(key, value string) { b.Label(key, value) })
				node := b.Obj()
				w.apply(func(c *Cache) { c.SetNode(node) })
			case 1:
				name := fmt.Sprint("n", w.IntN(w.nodes))
				w.apply(func(c *Cache) { c.RemoveNodeByName(name) })
			}
			for range w.IntN(8) {
				b := w.addLabels(fixture.Pod(fmt.Sprint("shop/p", w.IntN(w.pods))))
				for range w.IntN(4) {
					b.RequirePodAntiAffinity(term()).PreferPodAntiAffinity(3, term())
				}
				pod := b.On(fmt.Sprint("n", w.IntN(w.nodes))).Obj()
				if w.IntN(3) == 0 {
					w.apply(func(c *Cache) { c.RemovePodByUID(pod.UID) })
				} else {
					w.apply(func(c *Cache) { c.SetPod(pod) })
				}
			}
			w.scanned.UpdateSnapshot()
			kept := w.incremental.UpdateSnapshot().incremental
			scan := w.scanned.Snapshot().Counts()
			for range 6 {
				q := w.query()
				q.TopologyKey = topologyKey(w.IntN(110))
				tally := kept.Pods(q)[0]
				before = append(before, asked{q, tally})
				if diff := cmp.Diff(w.tallyView(scan.Pods(q)[0], q), w.tallyView(tally, q)); diff != "" {
					t.Fatalf("seed %d, turn %d, %+v (-scanned +kept):\n%s", seed, turn, q, diff)
				}
			}
			for _, a := range before {
				if !isCurrent(a.tally) {
					continue
				}
				if diff := cmp.Diff(w.tallyView(scan.Pods(a.query)[0], a.query), w.tallyView(a.tally, a.query)); diff != "" {
					t.Fatalf("seed %d, turn %d, asked before: %+v (-scanned +kept):\n%s", seed, turn, a.query, diff)
				}
			}
			q := framework.TermQuery{Pod: w.addLabels(fixture.Pod("shop/new")).Obj(), RequiredAntiAffinity: 1, PreferredAntiAffinity: -1}
			want, got := scan.Terms(q), kept.Terms(q)
			if diff := cmp.Diff(w.weights(want), w.weights(got)); diff != "" || want.HasListed() != got.HasListed() {
				t.Fatalf("seed %d, turn %d: listed %v, want %v (-scanned +kept):\n%s", seed, turn, got.HasListed(), want.HasListed(), diff)
			}
		}
	}
}
