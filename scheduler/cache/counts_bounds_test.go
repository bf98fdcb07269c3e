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
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/test/support/fixture"
)

// zonedCache returns a cache with nodes in three zones.
func zonedCache(nodes int) *Cache {
	c := New()
	for i := range nodes {
		c.SetNode(fixture.Node(fmt.Sprint("n", i)).Label("zone", fmt.Sprint(i%3)).Label("job", fmt.Sprint(i)).Obj())
	}
	return c
}

// spreadQuery queries the pods with a label app, on the nodes that a nodeSelector
// for the label job selects.
func spreadQuery(key, app, job string) counts.PodQuery {
	q := counts.PodQuery{TopologyKey: key, IncludeEmpty: true, Pods: &counts.PodSet{
		Namespaces: sets.New("default"), Selector: labels.SelectorFromSet(labels.Set{"app": app}),
	}}
	if job != "" {
		q.Scope = counts.NewScope(fixture.Pod("p").NodeSelector("job", job).Obj(), nil, true, false)
	}
	return q
}

// isCurrent reports whether sums of incremental counts are still updated.
func isCurrent(sums *counts.DomainSums) bool { return sums.Terms()[0].Current() }

// countTopologies returns the number of topologyCounts, of the set that has most and
// of all sets.
func (k *incrementalCounts) countTopologies() (most, all int) {
	for _, set := range k.podSets {
		most, all = max(most, len(set.byTopology)), all+len(set.byTopology)
	}
	return most, all
}

func TestRetainedCountsAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ apps, jobs int }{
		"many node selectors under one set of pods": {1, 4000},
		"many sets of pods":                         {300, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			cached := zonedCache(30)
			cached.SetPod(fixture.Pod("web").Label("app", "0").On("n1").Obj())
			snapshot := cached.UpdateSnapshot()
			used := snapshot.incremental.Pods(spreadQuery("zone", "0", ""))[0]
			for i := range c.jobs {
				snapshot.incremental.Pods(spreadQuery("zone", fmt.Sprint(i%c.apps), fmt.Sprint(i)))
				if i%20 == 0 && !isCurrent(used) {
					t.Fatalf("after %d others, counts in use are dropped", i)
				}
				most, all := snapshot.incremental.countTopologies()
				if most > maxTopologiesPerSet || all > maxTopologies || all != snapshot.incremental.topologyTotal {
					t.Fatalf("%d topologies, recorded as %d, and %d of one set; want at most %d and %d", all, snapshot.incremental.topologyTotal, most, maxTopologies, maxTopologiesPerSet)
				}
			}
			// A query makes dropped counts again, and they are updated again.
			again := spreadQuery("zone", "0", "1")
			sums := snapshot.incremental.Pods(again)[0]
			cached.SetPod(fixture.Pod("web2").Label("app", "0").On("n1").Obj())
			cached.UpdateSnapshot()
			if got := sums.Get("1"); got != 2 || !isCurrent(sums) {
				t.Errorf("%d pods in zone 1, current: %v; want 2 in updated counts", got, isCurrent(sums))
			}
			if got := used.Get("1"); got != 2 {
				t.Errorf("%d pods in zone 1 in the retained counts, want 2", got)
			}
		})
	}
}

// Large clusters retain fewer sets and topologies, so that memory is bounded.
func TestLargeClustersRetainFewerCounts(t *testing.T) {
	k := newSnapshot(podgroups.NewStore()).incremental
	for _, c := range []struct{ nodes, sets, topologies int }{{1000, 4096, 2048}, {100_000, 335, 103}, {10_000_000, 64, 64}} {
		k.columns.Nodes = make([]*framework.NodeInfo, c.nodes)
		if podSets, topologies := k.limit(maxPodSets, podSetBytesPerNode), k.limit(maxTopologies, topologyBytesPerNode); podSets != c.sets || topologies != c.topologies {
			t.Errorf("%d nodes: %d sets and %d topologies, want %d and %d", c.nodes, podSets, topologies, c.sets, c.topologies)
		}
	}
}

// topologyKey returns the i-th of many topology keys. Nodes have it as a label only
// where a test says so.
func topologyKey(i int) string { return fmt.Sprint("zoen-", i) }

func TestAnUnusedTopologyKeyIsEvicted(t *testing.T) {
	for name, use := range map[string]func(c *Cache){
		"pods with terms were removed": func(c *Cache) {
			for i := range 64 {
				pod := fixture.Pod(fmt.Sprint("p", i)).RequirePodAntiAffinity(fixture.PodAffinityTerm(topologyKey(i), "app", "web")).On("n1").Obj()
				c.SetPod(pod)
				c.UpdateSnapshot()
				c.RemovePodByUID(pod.UID)
			}
		},
		"pods with terms exist": func(c *Cache) {
			for i := range 64 {
				c.SetPod(fixture.Pod(fmt.Sprint("p", i)).PreferPodAntiAffinity(1, fixture.PodAffinityTerm(topologyKey(i), "app", "web")).On("n1").Obj())
			}
		},
		"pods with topology spread constraints": func(c *Cache) {
			for i := range 64 {
				c.UpdateSnapshot().incremental.Pods(spreadQuery(topologyKey(i), "web", ""))
			}
		},
		"pods with terms of keys that nodes have were removed": func(c *Cache) {
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
		t.Run(name, func(t *testing.T) {
			c := zonedCache(3)
			use(c)
			snapshot := c.UpdateSnapshot()
			if snapshot.Columns().Domains("zone", false) == nil {
				t.Fatal("the key zone has no domains")
			}
			sums := snapshot.incremental.Pods(spreadQuery("zone", "web", ""))[0]
			terms := snapshot.incremental.Terms(counts.TermQuery{Pod: fixture.Pod("new").Label("app", "web").Obj(), RequiredAntiAffinity: 1})
			c.SetPod(fixture.Pod("web").Label("app", "web").RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "web")).On("n1").Obj())
			c.UpdateSnapshot()
			if got := sums.Get("1"); got != 1 || !isCurrent(sums) {
				t.Errorf("%d pods in zone 1, current: %v; want 1 in updated counts", got, isCurrent(sums))
			}
			if !terms.Update() || !terms.HasListed() {
				t.Error("a term of the key zone is not counted after an update of the snapshot")
			}
		})
	}
}

// A user who may create pods can name any number of topology keys, but cannot label
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
		t.Errorf("zone is current: %v, its domains %v; job %v; want all, beside 1000 keys that no node has", isCurrent(zone), domains.Current(), isCurrent(job))
	}
}

// Of the keys that nodes have, the least recently used one is evicted.
func TestAKeyInUseIsNotEvicted(t *testing.T) {
	c := New()
	node := fixture.Node("n1").Label("zone", "a")
	for i := range 200 {
		node.Label(topologyKey(i), "x")
	}
	c.SetNode(node.Obj())
	snapshot := c.UpdateSnapshot()
	used, unused := snapshot.incremental.Pods(spreadQuery("zone", "web", ""))[0], snapshot.incremental.Pods(spreadQuery(topologyKey(0), "web", ""))[0]
	for i := range 200 {
		snapshot.incremental.Pods(spreadQuery(topologyKey(i), "db", ""))
		if i%30 == 0 && !isCurrent(used) {
			t.Fatalf("the key zone was evicted after %d others, though it is in use", i)
		}
	}
	if isCurrent(unused) {
		t.Error("a key was not evicted although 200 others were used since")
	}
}

// A term counts as soon as a node has its topology key.
func TestTermsCountOnceANodeHasTheirKey(t *testing.T) {
	c := zonedCache(2)
	c.SetPod(fixture.Pod("old").RequirePodAntiAffinity(fixture.PodAffinityTerm("rack", "app", "web")).On("n1").Obj())
	snapshot := c.UpdateSnapshot()
	query := counts.TermQuery{Pod: fixture.Pod("new").Label("app", "web").Obj(), RequiredAntiAffinity: 1}
	terms := snapshot.incremental.Terms(query)
	if terms.HasListed() {
		t.Fatal("a term counts although no node has its key")
	}
	c.SetNode(fixture.Node("n1").Label("rack", "r1").Obj())
	c.UpdateSnapshot()
	if !terms.Update() || !terms.HasListed() || terms.ByTopologyKey["rack"].Get("r1") != 1 {
		t.Errorf("%+v, want one term in rack r1", terms.ByTopologyKey["rack"])
	}
}

// manyKeysHistory returns a random history with more topology keys than the columns
// retain, and a function that labels with them.
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
			query counts.PodQuery
			sums  *counts.DomainSums
		}
		var before []asked
		for step := range 60 {
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
			incremental := w.incremental.UpdateSnapshot().incremental
			scan := w.scanned.Snapshot().Counts()
			for range 6 {
				q := w.query()
				q.TopologyKey = topologyKey(w.IntN(110))
				sums := incremental.Pods(q)[0]
				before = append(before, asked{q, sums})
				if diff := cmp.Diff(w.sumsView(scan.Pods(q)[0], q), w.sumsView(sums, q)); diff != "" {
					t.Fatalf("seed %d, step %d, %+v (-scanned +incremental):\n%s", seed, step, q, diff)
				}
			}
			for _, a := range before {
				if !isCurrent(a.sums) {
					continue
				}
				if diff := cmp.Diff(w.sumsView(scan.Pods(a.query)[0], a.query), w.sumsView(a.sums, a.query)); diff != "" {
					t.Fatalf("seed %d, step %d, queried before: %+v (-scanned +incremental):\n%s", seed, step, a.query, diff)
				}
			}
			q := counts.TermQuery{Pod: w.addLabels(fixture.Pod("shop/new")).Obj(), RequiredAntiAffinity: 1, PreferredAntiAffinity: -1}
			want, got := scan.Terms(q), incremental.Terms(q)
			if diff := cmp.Diff(w.weights(want), w.weights(got)); diff != "" || want.HasListed() != got.HasListed() {
				t.Fatalf("seed %d, step %d: listed %v, want %v (-scanned +incremental):\n%s", seed, step, got.HasListed(), want.HasListed(), diff)
			}
		}
	}
}
