package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
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

// A pod stands behind a gate because something woke it, which does not happen
// again when the gate opens, be it that nobody's hint is for the pod then.
func TestAPodWhoseGateOpenedIsTried(t *testing.T) {
	w := newWorld(t)
	quiet := func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil }
	w.rules.Hints = append(w.rules.Hints, Hint{Plugin: "Quiet", Event: podDelete, Fn: quiet})
	w.adopt()
	w.refused(pod("a"), "Picky")
	w.gates.Insert("Quiet")
	w.happens(nodeAdd, "good")
	w.wantAt(Gated, "a")
	w.happens(podDelete, "n")
	w.wantAt(Gated, "a")
	w.gates.Clear()
	w.happens(podDelete, "n")
	w.wantAt(Backoff, "a")
}

// Nobody may be told of an event when a gate opens.
func TestAGateThatOpensByItselfIsAskedAgain(t *testing.T) {
	for sentence, open := range map[string]func(w *world){
		"while the pod is gated": func(w *world) {
			w.happens(nodeAdd, "good")
			w.wantAt(Gated, "a")
			w.gates.Clear()
			w.GateOpened(w.ctx, pod("a").UID)
		},
		"while the pod is asked about": func(w *world) {
			rules := w.rules
			rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string {
				gate := w.rules.PreEnqueue(ctx, p, last)
				if gate != "" {
					w.gates.Clear()
					w.GateOpened(w.ctx, p.UID)
				}
				return gate
			}
			w.Adopt(w.ctx, "p", &rules)
			w.happens(nodeAdd, "good")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.refused(pod("a"), "Picky")
			w.gates.Insert("Quiet")
			open(w)
			if at := w.where(pod("a").UID); at == Gated || at == "" {
				t.Errorf("the pod is %q", at)
			}
			w.GateOpened(w.ctx, "nobody")
			w.check()
		})
	}
}

func TestWhatHappensWhileAnOpenGateIsAskedIsHeard(t *testing.T) {
	w := newWorld(t)
	w.refused(pod("a"), "Picky")
	w.gates.Insert("Quiet")
	w.happens(nodeAdd, "good")
	w.wantAt(Gated, "a")
	w.gates.Clear()
	rules, once := w.rules, false
	rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
		if !once {
			once = true
			w.happens(nodeAdd, "good")
		}
		return ""
	}
	w.bend(&rules)
	w.GateOpened(w.ctx, pod("a").UID)
	w.wantAt(Backoff, "a")
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

// The informer's store is ahead of what its handlers are told: who came from
// the store may be told of once more as it was.
func TestAPodDoesNotBecomeOlder(t *testing.T) {
	for sentence, c := range map[string]struct{ told, want string }{
		"a newer version is taken":     {"11", "11"},
		"an older one is not":          {"9", "10"},
		"one that has no order counts": {"later", "later"},
	} {
		t.Run(sentence, func(t *testing.T) {
			at := func(version string) *v1.Pod {
				return fixture.Pod("a").Scheduler("p").Mutate(func(p *v1.Pod) { p.ResourceVersion = version }).Obj()
			}
			w := newWorld(t)
			w.Add(w.ctx, at("10"))
			w.Add(w.ctx, at(c.told))
			if got := w.pop("a").Pod.ResourceVersion; got != c.want {
				t.Errorf("the pod is tried at version %s, want %s", got, c.want)
			}
		})
	}
}

func TestNothingIsPoppedBeforeAllThatAnEventWokeArePutDown(t *testing.T) {
	w := newWorld(t)
	w.refused(ranked("low", 1), "Fit")
	w.clock.Step(time.Second)
	w.refused(ranked("high", 9), "Fit")
	w.clock.Step(10 * time.Second)
	rules := w.rules
	rules.PreEnqueue = func(_ context.Context, p *v1.Pod, _ string) string {
		if a := w.TryPop(); a != nil {
			t.Errorf("popped %s while %s is still to be put down", a.Pod.Name, p.Name)
		}
		return ""
	}
	w.bend(&rules)
	w.happens(nodeAdd, "n")
	w.pop("high")
	w.pop("low")
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
		w.bend(&rules)
		go func() { popped <- w.Pop(ctx) }()
		synctest.Wait()
		go w.Event(w.ctx, nodeAdd, nil, fixture.Node("n").Obj(), nil)
		if a := <-popped; a.Pod.Name != "high" {
			t.Errorf("popped %s first, want high", a.Pod.Name)
		}
		cancel()
	})
}
