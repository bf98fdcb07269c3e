package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestPopEndsWithItsContext(t *testing.T) {
	w := newTestEnv(t)
	w.Add(w.ctx, pod("a"))
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if a := w.Pop(ctx); a != nil {
		t.Errorf("popped %s, want nothing once the context has ended", a.Pod.Name)
	}
}

func TestTheFilterOfAnEventAppliesToPodsInFlight(t *testing.T) {
	w := newTestEnv(t)
	w.Add(w.ctx, pod("a"))
	a := w.pop("a")
	w.Event(w.ctx, podDelete, a.Pod, nil, func(p *v1.Pod) bool { return p.UID != a.Pod.UID })
	a.Refused(w.ctx, sets.New("Fit"), nil)
	w.expectAt(Unschedulable, "a")
}

func TestFlushComesOncePerPeriod(t *testing.T) {
	w := newTestEnv(t)
	w.closedGates.Insert("Gate")
	w.Add(w.ctx, pod("a"))
	w.advance(5*time.Minute + time.Second)
	calls := w.preEnqueueCalls
	for range 10 {
		w.advance(time.Second)
	}
	if w.preEnqueueCalls != calls {
		t.Errorf("PreEnqueue was called %d times in the ten seconds after a flush, want 0", w.preEnqueueCalls-calls)
	}
}

// A pod is gated when an event wakes it. That event does not come again when the gate
// opens, and it may be that no hint returns Queue for the event that opened the gate.
func TestAPodWhoseGateOpenedIsRequeued(t *testing.T) {
	w := newTestEnv(t)
	quiet := func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil }
	w.rules.Hints = append(w.rules.Hints, Hint{Plugin: "Quiet", Event: podDelete, Fn: quiet})
	w.setProfile()
	w.addRejectedBy(pod("a"), "Picky")
	w.closedGates.Insert("Quiet")
	w.nodeEvent(nodeAdd, "good")
	w.expectAt(Gated, "a")
	w.nodeEvent(podDelete, "n")
	w.expectAt(Gated, "a")
	w.closedGates.Clear()
	w.nodeEvent(podDelete, "n")
	w.expectAt(Backoff, "a")
}

// A gate may open without an event.
func TestGateOpened(t *testing.T) {
	for name, open := range map[string]func(w *testEnv){
		"while the pod is gated": func(w *testEnv) {
			w.nodeEvent(nodeAdd, "good")
			w.expectAt(Gated, "a")
			w.closedGates.Clear()
			w.GateOpened(w.ctx, pod("a").UID)
		},
		"while PreEnqueue runs": func(w *testEnv) {
			rules := w.rules
			rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string {
				gate := w.rules.PreEnqueue(ctx, p, last)
				if gate != "" {
					w.closedGates.Clear()
					w.GateOpened(w.ctx, p.UID)
				}
				return gate
			}
			w.SetProfile(w.ctx, "p", &rules)
			w.nodeEvent(nodeAdd, "good")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.addRejectedBy(pod("a"), "Picky")
			w.closedGates.Insert("Quiet")
			open(w)
			if at := w.placeOf(pod("a").UID); at == Gated || at == "" {
				t.Errorf("the pod is %q", at)
			}
			w.GateOpened(w.ctx, "unknown")
			w.check()
		})
	}
}

func TestEventsDuringGateOpenedAreReplayed(t *testing.T) {
	w := newTestEnv(t)
	w.addRejectedBy(pod("a"), "Picky")
	w.closedGates.Insert("Quiet")
	w.nodeEvent(nodeAdd, "good")
	w.expectAt(Gated, "a")
	w.closedGates.Clear()
	rules, called := w.rules, false
	rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
		if !called {
			called = true
			w.nodeEvent(nodeAdd, "good")
		}
		return ""
	}
	w.replaceRules(&rules)
	w.GateOpened(w.ctx, pod("a").UID)
	w.expectAt(Backoff, "a")
}

func TestAFlushOfAGatedPodCountsAsAFlush(t *testing.T) {
	w := newTestEnv(t)
	w.closedGates.Insert("Gate")
	w.Add(w.ctx, pod("a"))
	w.closedGates.Delete("Gate")
	w.advance(5*time.Minute + time.Second)
	if !w.pop("a").Flushed() {
		t.Error("a gated pod that the flush queued does not count as flushed")
	}
}

func TestSubQueuesAreRemovedWithTheirProfiles(t *testing.T) {
	w := newTestEnv(t)
	closed := false
	old := w.rules
	old.Less = func(a, b fwk.QueuedEntityInfo) bool {
		if closed {
			t.Error("Less of a closed generation was called")
		}
		return byPriority(a, b)
	}
	w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
	w.SetProfile(w.ctx, "p", &old)
	w.Add(w.ctx, pod("a"))
	w.setProfile()
	closed = true
	w.Add(w.ctx, pod("b"))
	w.rules.Sort = "Other"
	w.setProfile()
	w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
	if len(w.subQueues) != 0 {
		t.Errorf("%d sub-queues are left, want none", len(w.subQueues))
	}
}

func TestSetProfileRechecksActivePods(t *testing.T) {
	w := newTestEnv(t)
	w.Add(w.ctx, pod("a"))
	w.Add(w.ctx, pod("b"))
	w.hold = Hold{Reason: ProfilePaused}
	w.setProfile()
	w.expectAt(Held, "a", "b")
}

func TestAPodIsNotWokenByUpdatesOfOthers(t *testing.T) {
	w := newTestEnv(t)
	w.Add(w.ctx, pod("a"))
	a := w.pop("a")
	b := pod("b")
	w.Add(w.ctx, b)
	w.Update(w.ctx, b, b, podLabel)
	a.Refused(w.ctx, sets.New("Label"), nil)
	w.expectAt(Unschedulable, "a")
}

// The informer's store is ahead of its handlers: a pod that was read from the store may
// be updated to an older version afterwards.
func TestAnOlderVersionOfAPodIsIgnored(t *testing.T) {
	for name, c := range map[string]struct{ version, want string }{
		"a newer version is stored":            {"11", "11"},
		"an older version is not":              {"9", "10"},
		"a version that cannot be compared is": {"later", "later"},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(version string) *v1.Pod {
				return fixture.Pod("a").SchedulerName("p").Mutate(func(p *v1.Pod) { p.ResourceVersion = version }).Obj()
			}
			w := newTestEnv(t)
			w.Add(w.ctx, at("10"))
			w.Add(w.ctx, at(c.version))
			if got := w.pop("a").Pod.ResourceVersion; got != c.want {
				t.Errorf("the pod is tried at version %s, want %s", got, c.want)
			}
		})
	}
}

func TestNothingIsPoppedBeforeAllWokenPodsAreRequeued(t *testing.T) {
	w := newTestEnv(t)
	w.addRejectedBy(podWithPriority("low", 1), "Fit")
	w.clock.Step(time.Second)
	w.addRejectedBy(podWithPriority("high", 9), "Fit")
	w.clock.Step(10 * time.Second)
	rules := w.rules
	rules.PreEnqueue = func(_ context.Context, p *v1.Pod, _ string) string {
		if a := w.TryPop(); a != nil {
			t.Errorf("popped %s while %s is being requeued", a.Pod.Name, p.Name)
		}
		return ""
	}
	w.replaceRules(&rules)
	w.nodeEvent(nodeAdd, "n")
	w.pop("high")
	w.pop("low")
}

func TestAnIdleLoopPopsTheFirstOfAllWokenPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		ctx, cancel := context.WithCancel(w.ctx)
		w.addRejectedBy(podWithPriority("low", 1), "Fit")
		w.clock.Step(time.Second)
		w.addRejectedBy(podWithPriority("high", 9), "Fit")
		w.clock.Step(10 * time.Second)
		w.rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
			synctest.Wait()
			return ""
		}
		popped := make(chan *Attempt)
		rules := w.rules
		w.replaceRules(&rules)
		go func() { popped <- w.Pop(ctx) }()
		synctest.Wait()
		go w.Event(w.ctx, nodeAdd, nil, fixture.Node("n").Obj(), nil)
		if a := <-popped; a.Pod.Name != "high" {
			t.Errorf("popped %s first, want high", a.Pod.Name)
		}
		cancel()
	})
}

// addManyRejected adds n pods that plugin Fit refuses.
func (w *testEnv) addManyRejected(n int) {
	for i := range n {
		w.Add(w.ctx, pod(fmt.Sprint("pod-", i)))
		w.TryPop().Refused(w.ctx, sets.New("Fit"), nil)
	}
}

func TestPodsExaminedForAnEvent(t *testing.T) {
	const total = 100
	for name, c := range map[string]struct {
		event fwk.ClusterEvent
		want  int
	}{
		"pods whose plugin registered for it":      {podDelete, total},
		"none if no plugin registered for it":      {fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}, 0},
		"none if another plugin registered for it": {podLabels, 0},
		"all for a wildcard event":                 {ForceActivate, total},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.addManyRejected(total)
			examined := 0
			w.Event(w.ctx, c.event, nil, nil, func(*v1.Pod) bool { examined++; return false })
			if examined != c.want {
				t.Errorf("%d of %d pods were examined, want %d", examined, total, c.want)
			}
			w.check()
		})
	}
}

func TestCostOfAnEventThatConcernsNoPod(t *testing.T) {
	cost := func(pods int) float64 {
		w := newTestEnv(t)
		w.addManyRejected(pods)
		return testing.AllocsPerRun(10, func() { w.Event(w.ctx, podLabels, nil, nil, nil) })
	}
	// The race detector allocates a little, too.
	if one, many := cost(1), cost(1000); many > one+10 {
		t.Errorf("%v allocations with 1000 unschedulable pods, %v with one", many, one)
	}
}

// Each pod of a gang that waits at Permit activates all others, which are in flight.
func TestAPodInFlightIsActivatedOnce(t *testing.T) {
	w := newTestEnv(t)
	pods := map[string]*v1.Pod{"a": w.addPod("a")}
	w.addPod("b")
	a, b := w.pop("a"), w.pop("b")
	activate := func() {
		t.Helper()
		for range 3 {
			w.Activate(w.ctx, pods)
		}
		if _, events := w.InFlightCounts(); events != 1 {
			t.Errorf("the log holds %d events, want 1", events)
		}
	}
	activate()
	a.Refused(w.ctx, sets.New("Fit"), nil)
	b.Refused(w.ctx, sets.New("Fit"), nil)
	w.expectAt(Backoff, "a")
	w.expectAt(Unschedulable, "b")
	w.advance(10 * time.Second)
	a = w.pop("a")
	activate()
	a.Refused(w.ctx, sets.New("Fit"), nil)
	w.expectAt(Backoff, "a")
}

// Otherwise the same input has another history in each run.
func TestActivateKeepsTheOrderOfPodsThatCompareAsEqual(t *testing.T) {
	run := func() (order []string) {
		w := newTestEnv(t)
		activated := map[string]*v1.Pod{}
		for i := range 16 {
			name := fmt.Sprint(i)
			if pod := w.addPod(name); i%2 == 1 {
				activated[name] = pod
			}
		}
		for range 16 {
			w.TryPop().Failed(w.ctx)
		}
		w.Activate(w.ctx, activated)
		w.advance(time.Minute)
		for range 16 {
			order = append(order, w.TryPop().Pod.Name)
		}
		return order
	}
	want := run()
	for range 10 {
		if got := run(); !slices.Equal(got, want) {
			t.Fatalf("the order was %v, and is %v", want, got)
		}
	}
}

// An event opens a gate. What changes while the gates are checked has them checked again, and
// the event does not come again.
func TestAGateThatAnEventOpenedStaysOpen(t *testing.T) {
	for name, change := range map[string]func(w *testEnv){
		"the profile is swapped": func(w *testEnv) {
			w.rules.Hash = "after"
			w.setProfile()
		},
		"the group has another version of a pod": func(w *testEnv) {
			w.UpdateKnown(w.ctx, member("b", 2), member("b", 2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupEnv(t)
			calls := 0
			w.rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
				switch calls++; calls {
				case 1, 2, 3, 4:
					return "Gate"
				case 5: // it would open, but for a plugin that fails once
					change(w.testEnv)
					return "Flaky"
				}
				return ""
			}
			w.setProfile()
			w.addPods(member("a", 2), member("b", 2))
			w.expectAt(Gated, "a", "b")
			calls = 4
			w.GateOpened(w.ctx, member("a", 2).UID)
			w.expectAt(Gated)
		})
	}
}
