package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func newPodInfo(b *fixture.PodBuilder) *framework.PodInfo {
	info, _ := framework.NewPodInfo(b.Obj())
	return info
}

// updatedNodeNames updates the snapshot and returns the names of its nodes.
func updatedNodeNames(c *Cache) []string { return nodeNames(c.UpdateSnapshot().Nodes()) }

var cacheTests = map[string]func(t *testing.T, c *Cache){
	"nothing changes before UpdateSnapshot": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Obj())
		s := c.UpdateSnapshot()
		before := s.Node("n").GetGeneration()
		if err := c.AssumePod(newPodInfo(fixture.Pod("a")), "n"); err != nil {
			t.Fatal(err)
		}
		if n := s.Node("n"); len(n.GetPods()) != 0 || n.GetGeneration() != before {
			t.Error("the assumed pod is visible before the next UpdateSnapshot")
		}
		if c.UpdateSnapshot() != s || c.Snapshot() != s {
			t.Error("UpdateSnapshot returns another value")
		}
		if len(s.Node("n").GetPods()) != 1 {
			t.Error("the assumed pod is not visible after UpdateSnapshot")
		}
	},
	"zones take turns, and a new zone comes last": func(t *testing.T, c *Cache) {
		for _, n := range []string{"a1", "a2", "a3", "b1", "c1", "c2"} {
			c.SetNode(fixture.Node(n).Zone(n[:1]).Obj())
		}
		wantNames(t, updatedNodeNames(c), "a1", "b1", "c1", "a2", "c2", "a3")
	},
	"a changed zone does not change the order until nodes are added or removed": func(t *testing.T, c *Cache) {
		for _, n := range []string{"a1", "a2", "b1"} {
			c.SetNode(fixture.Node(n).Zone(n[:1]).Obj())
		}
		wantNames(t, updatedNodeNames(c), "a1", "b1", "a2")
		c.SetNode(fixture.Node("a1").Zone("b").Obj())
		wantNames(t, updatedNodeNames(c), "a1", "b1", "a2")
		c.SetNode(fixture.Node("c1").Zone("c").Obj())
		wantNames(t, updatedNodeNames(c), "a2", "b1", "c1", "a1")
	},
	"a node that is removed and added between two updates keeps its position until the next rebuild": func(t *testing.T, c *Cache) {
		for _, n := range []string{"a", "b", "c"} {
			c.SetNode(fixture.Node(n).Obj())
		}
		wantNames(t, updatedNodeNames(c), "a", "b", "c")
		c.RemoveNodeByName("a")
		c.SetNode(fixture.Node("a").Obj())
		wantNames(t, updatedNodeNames(c), "a", "b", "c")
		c.RemoveNodeByName("b")
		wantNames(t, updatedNodeNames(c), "c", "a")
	},
	"the pods of a removed node count again when the node is added again": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Obj())
		c.SetPod(fixture.Pod("a").On("n").Obj())
		c.UpdateSnapshot()
		c.RemoveNodeByName("n")
		if s := c.UpdateSnapshot(); s.Len() != 0 || s.Node("n") != nil {
			t.Error("a removed node is listed")
		}
		if _, err := c.Snapshot().NodeInfos().Get("n"); err == nil {
			t.Error("a removed node is found")
		}
		c.SetNode(fixture.Node("n").Obj())
		if pods := c.UpdateSnapshot().Node("n").GetPods(); len(pods) != 1 {
			t.Errorf("%d pods on the node that was added again, want 1", len(pods))
		}
	},
	"a pod added before its node counts once the node is added": func(t *testing.T, c *Cache) {
		c.SetPod(fixture.Pod("a").On("n").Obj())
		if c.UpdateSnapshot().Len() != 0 {
			t.Error("a node that was never set is listed")
		}
		c.SetNode(fixture.Node("n").Obj())
		if pods := c.UpdateSnapshot().Node("n").GetPods(); len(pods) != 1 {
			t.Errorf("%d pods, want 1", len(pods))
		}
	},
	"a pod bound to another node than assumed moves to that node": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Obj())
		c.SetNode(fixture.Node("m").Obj())
		if err := c.AssumePod(newPodInfo(fixture.Pod("a")), "n"); err != nil {
			t.Fatal(err)
		}
		c.SetPod(fixture.Pod("a").On("m").Obj())
		s := c.UpdateSnapshot()
		if len(s.Node("n").GetPods()) != 0 || len(s.Node("m").GetPods()) != 1 {
			t.Error("the pod is not on m alone")
		}
		if c.ForgetPod("default/a") {
			t.Error("ForgetPod removed a pod that SetPod stored")
		}
	},
	"an image's number of nodes is updated when the node changes": func(t *testing.T, c *Cache) {
		c.SetNode(fixture.Node("n").Image(5, "i").Obj())
		c.UpdateSnapshot()
		c.SetNode(fixture.Node("m").Image(7, "i").Obj())
		s := c.UpdateSnapshot()
		wantImage(t, s, "n", 5, 1) // as of the last change of n
		wantImage(t, s, "m", 5, 2) // the first size that was reported
		c.SetPod(fixture.Pod("a").On("n").Obj())
		c.UpdateSnapshot()
		wantImage(t, s, "n", 5, 2)
	},
	"a pod with a malformed affinity term counts": func(t *testing.T, c *Cache) {
		term := fixture.PodAffinityTerm("zone", "a", "b")
		term.LabelSelector.MatchLabels = map[string]string{"not a key!": "x"}
		c.SetNode(fixture.Node("n").Obj())
		c.SetPod(fixture.Pod("a").On("n").RequirePodAffinity(term).Obj())
		if pods := c.UpdateSnapshot().Node("n").GetPods(); len(pods) != 1 {
			t.Errorf("%d pods, want 1", len(pods))
		}
	},
}

func TestTheMemoryOfManyChangesIsNotKept(t *testing.T) {
	for nodes, kept := range map[int]bool{8: true, 2 * maxSpare: false} {
		c := New()
		for i := range nodes {
			c.SetNode(fixture.Node(fmt.Sprint("n", i)).Obj())
		}
		s := c.UpdateSnapshot()
		if deltas, touched := cap(c.spareDeltas), cap(s.touched); deltas > 0 != kept || touched > 0 != kept {
			t.Errorf("after %d new nodes: memory for %d changes and %d nodes is kept; want any: %t", nodes, deltas, touched, kept)
		}
		c.SetNode(fixture.Node("another").Obj())
		if got := c.UpdateSnapshot().Len(); got != nodes+1 {
			t.Errorf("%d nodes, want %d", got, nodes+1)
		}
	}
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func wantImage(t *testing.T, s *Snapshot, node string, size int64, nodes int) {
	t.Helper()
	if i := s.Node(node).GetImageStates()["i"]; i.Size != size || i.NumNodes != nodes {
		t.Errorf("%s: size %d on %d nodes, want %d on %d", node, i.Size, i.NumNodes, size, nodes)
	}
}

func TestCache(t *testing.T) {
	for name, test := range cacheTests {
		t.Run(name, func(t *testing.T) { test(t, New()) })
	}
}

func TestConcurrentWritersAndOneReader(t *testing.T) {
	c := New()
	var writers sync.WaitGroup
	for n := range uint64(4) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(n, 0))
			for range 500 {
				node := fmt.Sprint("n", rng.IntN(5))
				pod := fixture.Pod(fmt.Sprint("p", n, "-", rng.IntN(5)))
				switch rng.IntN(5) {
				case 0:
					c.SetNode(fixture.Node(node).Image(1, "i").Obj())
				case 1:
					c.RemoveNodeByName(node)
				case 2:
					c.SetPod(pod.On(node).Obj())
				case 3:
					_ = c.AssumePod(newPodInfo(pod), node) // an error when the pod has a node
				default:
					c.RemovePodByUID(pod.Obj().UID)
				}
			}
		})
	}
	stop := make(chan struct{})
	go func() { writers.Wait(); close(stop) }()
	for reading := true; reading; {
		select {
		case <-stop:
			reading = false
		default:
		}
		c.UpdateSnapshot()
	}
	pods, total := 0, 0
	pods, _ = c.Sizes()
	for _, n := range c.Snapshot().nodes {
		total += len(n.GetPods())
	}
	if pods != total {
		t.Errorf("%d pods in the cache, %d on nodes", pods, total)
	}
}
