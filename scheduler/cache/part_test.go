package cache

import (
	"testing"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// What was shown stands still, and the copy is the same and moves on.
func TestReplacedNodeInfosDoNotChange(t *testing.T) {
	c := New()
	c.SetNode(fixture.Node("n").Obj())
	s := c.UpdateSnapshot()
	shown, listed := s.Node("n"), s.Nodes()
	c.ReplaceNodeInfos()
	if s.Node("n") == shown || s.Nodes()[0] == listed[0] || s.Columns().Nodes[s.Slots()[0]] != s.Node("n") || s.Nodes()[0] != s.Node("n") {
		t.Error("the node that was shown is still shown")
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
		t.Errorf("%d pods on the node that was shown, %d on the one that is", len(shown.GetPods()), len(s.Node("n").GetPods()))
	}
}

// What a plugin asks for stands still from its first call on that is out; while
// none is, nothing is copied.
func TestPinnedSnapshotDoesNotChangeForAbandonedCalls(t *testing.T) {
	c := New()
	c.SetNode(fixture.Node("n").Obj())
	s, lent := c.UpdateSnapshot(), c.PinnedSnapshot()
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
		owed       int32
		pod        string
		then, live int
	}{{0, "a", 1, 1}, {1, "b", 1, 2}, {0, "c", 2, 3}, {-1, "d", 4, 4}} {
		lent.AddAbandonedCalls(c.owed)
		listed, err := lent.NodeInfos().List()
		if err != nil {
			t.Fatal(err)
		}
		one, err := lent.NodeInfos().Get("n")
		if err != nil || one != listed[0] {
			t.Fatalf("%v, or another node", err)
		}
		assume(c.pod)
		if then, live := len(one.GetPods()), len(s.Node("n").GetPods()); then != c.then || live != c.live {
			t.Errorf("pod %s: %d pods on the node that was lent, %d on the one that is, want %d and %d", c.pod, then, live, c.then, c.live)
		}
	}
}
