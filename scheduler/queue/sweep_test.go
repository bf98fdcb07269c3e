package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

func TestPopEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.Add(w.ctx, pod("a"))
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if a := w.Pop(ctx); a != nil {
		t.Errorf("popped %s, want nothing once the context has ended", a.Pod.Name)
	}
}

func TestOnlyHoldsForPodsInFlightToo(t *testing.T) {
	w := newWorld(t)
	w.Add(w.ctx, pod("a"))
	a := w.pop("a")
	w.Event(w.ctx, podDelete, a.Pod, nil, func(p *v1.Pod) bool { return p.UID != a.Pod.UID })
	a.Refused(w.ctx, sets.New("Fit"), nil)
	w.wantAt(Unschedulable, "a")
}

func TestFlushComesOncePerPeriod(t *testing.T) {
	w := newWorld(t)
	w.gates.Insert("Gate")
	w.Add(w.ctx, pod("a"))
	w.later(5*time.Minute + time.Second)
	asked := w.asked
	for range 10 {
		w.later(time.Second)
	}
	if w.asked != asked {
		t.Errorf("PreEnqueue was asked %d times more in the ten seconds after a flush, want 0", w.asked-asked)
	}
}

func TestFlushOutOfAGateIsAFlush(t *testing.T) {
	w := newWorld(t)
	w.gates.Insert("Gate")
	w.Add(w.ctx, pod("a"))
	w.gates.Delete("Gate")
	w.later(5*time.Minute + time.Second)
	if !w.pop("a").Flushed() {
		t.Error("the pod that only the flush let out of its gate does not count as flushed")
	}
}

func TestLanesGoWithTheirProfiles(t *testing.T) {
	w := newWorld(t)
	closed := false
	old := w.rules
	old.Less = func(a, b fwk.QueuedEntityInfo) bool {
		if closed {
			t.Error("the sort of a generation that is gone was asked")
		}
		return byPriority(a, b)
	}
	w.Abandon("p", Hold{Reason: ProfileDeleted})
	w.Adopt(w.ctx, "p", &old)
	w.Add(w.ctx, pod("a"))
	w.adopt()
	closed = true
	w.Add(w.ctx, pod("b"))
	w.rules.Sort = "Other"
	w.adopt()
	w.Abandon("p", Hold{Reason: ProfileDeleted})
	if len(w.lanes) != 0 {
		t.Errorf("%d lanes are left, want none", len(w.lanes))
	}
}

func TestAdoptAsksActivePodsAgain(t *testing.T) {
	w := newWorld(t)
	w.Add(w.ctx, pod("a"))
	w.Add(w.ctx, pod("b"))
	w.holds = Hold{Reason: ProfilePaused}
	w.adopt()
	w.wantAt(Parked, "a", "b")
}

func TestAPodHearsOnlyItsOwnChanges(t *testing.T) {
	w := newWorld(t)
	w.Add(w.ctx, pod("a"))
	a := w.pop("a")
	b := pod("b")
	w.Add(w.ctx, b)
	w.Update(w.ctx, b, b, podLabel)
	a.Refused(w.ctx, sets.New("Label"), nil)
	w.wantAt(Unschedulable, "a")
}

func TestAnIdleLoopSeesAllThatAnEventWoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(w.ctx)
		w.refused(ranked("low", 1), "Fit")
		w.clock.Step(time.Second)
		w.refused(ranked("high", 9), "Fit")
		w.clock.Step(10 * time.Second)
		w.rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
			synctest.Wait()
			return ""
		}
		popped := make(chan *Attempt)
		rules := w.rules
		w.Queue.rules["p"] = &rules
		go func() { popped <- w.Pop(ctx) }()
		synctest.Wait()
		go w.Event(w.ctx, nodeAdd, nil, fixture.Node("n").Obj(), nil)
		if a := <-popped; a.Pod.Name != "high" {
			t.Errorf("popped %s first, want high", a.Pod.Name)
		}
		cancel()
	})
}
