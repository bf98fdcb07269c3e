package cache

import (
	"testing"

	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestAnAssignedPodIsNotNominated(t *testing.T) {
	waiting := fixture.Pod("shop/web").Requests("cpu", "1").NominatedNodeName("n1")
	info, err := framework.NewPodInfo(waiting.Obj())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Cache) error{
		"one that is assumed":   func(c *Cache) error { return c.AssumePod(info, "n1") },
		"one that is confirmed": func(c *Cache) error { c.SetPod(info.WithNode("n1").GetPod()); return nil },
	}
	for name, place := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			if err := place(c); err != nil {
				t.Fatal(err)
			}
			c.AddNominatedPod(klog.Background(), info, nil)
			c.UpdateNominatedPod(klog.Background(), waiting.Obj(), info)
			if n := c.Nominations(); n != 0 {
				t.Errorf("%d nominations, want 0: the pod counts on n1 already", n)
			}
			c.RemovePodByUID(waiting.Obj().UID)
			c.AddNominatedPod(klog.Background(), info, nil)
			if n := c.Nominations(); n != 1 {
				t.Errorf("%d nominations once it has no node, want 1", n)
			}
		})
	}
}

func TestATerminatingPodIsNotNominated(t *testing.T) {
	waiting := fixture.Pod("shop/web").NominatedNodeName("n1")
	before, _ := framework.NewPodInfo(waiting.Obj())
	after, _ := framework.NewPodInfo(waiting.Terminating().Obj())
	for name, told := range map[string]func(*Cache){
		"when it is told of anew": func(c *Cache) { c.AddNominatedPod(klog.Background(), after, nil) },
		"when it is updated":      func(c *Cache) { c.UpdateNominatedPod(klog.Background(), before.GetPod(), after) },
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			c.AddNominatedPod(klog.Background(), before, nil)
			if n := c.Nominations(); n != 1 {
				t.Fatalf("%d nominations before, want 1", n)
			}
			if told(c); c.Nominations() != 0 {
				t.Error("it will never take the room that is kept for it")
			}
		})
	}
}
