package cache

import (
	"testing"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// The old NodeInfos do not change any more, and the clones are equal and updated.
func TestReplacedNodeInfosDoNotChange(t *testing.T) {
	c := New()
	c.SetNode(fixture.Node("n").Obj())
	s := c.UpdateSnapshot()
	shown, listed := s.Node("n"), s.Nodes()
	c.ReplaceNodeInfos()
	if s.Node("n") == shown || s.Nodes()[0] == listed[0] || s.Columns().Nodes[s.Slots()[0]] != s.Node("n") || s.Nodes()[0] != s.Node("n") {
		t.Error("the snapshot still returns the old NodeInfo")
	}
	info, err := framework.NewPodInfo(fixture.Pod("a").Obj())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AssumePod(info, "n"); err != nil {
		t.Fatal(err)
	}
	c.UpdateSnapshot()
	if len(shown.GetPods()) != 0 || len(s.Node("n").GetPods()) != 1 || len(s.Nodes()[0].GetPods()) != 1 {
		t.Errorf("%d pods on the old NodeInfo, %d on the new one", len(shown.GetPods()), len(s.Node("n").GetPods()))
	}
}

// What a plugin has read does not change once one of its calls is abandoned; while
// none is, nothing is cloned.
func TestPinnedSnapshotDoesNotChangeForAbandonedCalls(t *testing.T) {
	c := New()
	c.SetNode(fixture.Node("n").Obj())
	s, pinned := c.UpdateSnapshot(), c.PinnedSnapshot()
	assume := func(key string) {
		info, err := framework.NewPodInfo(fixture.Pod(key).Obj())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AssumePod(info, "n"); err != nil {
			t.Fatal(err)
		}
		c.UpdateSnapshot()
	}
	for _, c := range []struct {
		calls      int32
		pod        string
		then, live int
	}{{0, "a", 1, 1}, {1, "b", 1, 2}, {0, "c", 2, 3}, {-1, "d", 4, 4}} {
		pinned.AddAbandonedCalls(c.calls)
		listed, err := pinned.NodeInfos().List()
		if err != nil {
			t.Fatal(err)
		}
		one, err := pinned.NodeInfos().Get("n")
		if err != nil || one != listed[0] {
			t.Fatalf("%v, or another node", err)
		}
		assume(c.pod)
		if then, live := len(one.GetPods()), len(s.Node("n").GetPods()); then != c.then || live != c.live {
			t.Errorf("pod %s: %d pods on the NodeInfo that was read, %d on the current one, want %d and %d", c.pod, then, live, c.then, c.live)
		}
	}
}
