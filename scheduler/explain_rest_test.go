package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

func TestAPreemptionIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		pod     *fixture.PodBuilder
		act     func(w *world)
		result  v1alpha1.DecisionResult
		want    decision.Preemption
		message string
	}{
		"victims are counted, and the nodes that would have done": {
			pod: guest("bank/big", 4, 9), result: "Preempting",
			want:    decision.Preemption{Candidates: 2, Victims: 2, Outcome: "VictimsChosen"},
			message: "found a potential placement for pod on node <node>, preempting 2 victims",
		},
		"who waits for the last of them is told so": {
			pod: guest("bank/big", 4, 9), act: func(w *world) { w.cluster.Remove(web("shop/a")) }, result: "Preempting",
			want:    decision.Preemption{Outcome: "UnderWay"},
			message: "not eligible due to a terminating pod on the nominated node.",
		},
		"who may not preempt is told so": {
			pod:    guest("bank/big", 4, 9).Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }),
			result: "Unschedulable", want: decision.Preemption{Outcome: "NotEligible"}, message: "not eligible due to preemptionPolicy=Never.",
		},
		"who is not important enough is told so": {
			pod: guest("bank/big", 4, 1), result: "Unschedulable", want: decision.Preemption{Outcome: "NoCandidates"},
			message: "0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTown(t, func(w *world) {
				w.cluster.SlowDown()
				w.create(c.pod.Obj())
				if c.act != nil {
					w.writeAll()
					c.act(w)
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				why := w.why("big")
				if why == nil || why.Preemption == nil {
					t.Fatalf("it is not explained: %+v", why)
				}
				w.want("result", string(why.Result), string(c.result))
				if *why.Preemption != c.want {
					t.Errorf("preemption %+v, want %+v", *why.Preemption, c.want)
				}
				if !strings.HasSuffix(why.Message, " preemption: "+c.message) {
					t.Errorf("message %q, want one that ends with %q", why.Message, c.message)
				}
			}, berth("n1", 4), guest("shop/a", 2, 1).On("n1").Obj(), guest("shop/b", 2, 1).On("n1").Obj(),
				berth("n2", 4), guest("shop/c", 2, 2).On("n2").Obj(), guest("shop/d", 2, 2).On("n2").Obj())
		})
	}
}

func TestAPodWhoseVictimsAreBeingToldIsNoGatedPod(t *testing.T) {
	inTown(t, func(w *world) {
		goOn := make(chan struct{})
		w.cluster.Inject(fakecluster.Fault{Verb: "delete"}, fakecluster.Fault{Verb: "delete", Before: func() { <-goOn }})
		w.create(guest("bank/big", 4, 9).Obj())
		w.want("queue", w.counts(), "1 gated")
		w.wantWhy("big", &decision.Status{
			Result: "Preempting", Message: "plugin DefaultPreemption keeps the pod from being tried", BlockedBy: "DefaultPreemption",
			Queue: &decision.Queue{Where: "Gated", Gate: "DefaultPreemption"}, WakesOn: []decision.WakesOn{roomWakes},
			Preemption: &decision.Preemption{Outcome: "UnderWay"},
		})
		close(goOn)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		w.wantWhy("big", nil)
	}, berth("n1", 4), guest("shop/a", 2, 2).On("n1").Obj(), guest("shop/b", 2, 1).On("n1").Obj())
}

func TestAGatedPodIsExplained(t *testing.T) {
	inTimeWithTown(t, func(w *world) {
		gated := guest("shop/a", 1, 0).Gate("example.com/quota").Obj()
		w.create(gated)
		w.wantWhy("a", nil) // a follower explains nothing
		defer w.lead()()
		w.wantWhy("a", &decision.Status{
			Result: "Gated", Message: "plugin SchedulingGates keeps the pod from being tried", BlockedBy: "SchedulingGates",
			Queue:   &decision.Queue{Where: "Gated", Gate: "SchedulingGates"},
			WakesOn: []decision.WakesOn{{Plugin: "SchedulingGates", Events: []string{"TargetPod/UpdateSchedulingGatesEliminated"}}},
		})
		w.create(guest("shop/b", 1, 0).Gate("example.com/quota").Obj())
		if why := w.why("b"); why == nil || why.Result != "Gated" {
			t.Errorf("one that comes later: %+v", why)
		}
		w.cluster.Change(gated, func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
		synctest.Wait()
		w.want("node", w.on("shop/a"), "n1")
		time.Sleep(time.Minute)
		w.wantWhy("a", nil)
	})
}

// inTimeWithTown is inTown, but that nothing leads yet.
func inTimeWithTown(t *testing.T, test func(w *world)) {
	inTimeWith(t, plugins.InTree(), func(w *world) {
		w.profile("p", nil)
		test(w)
	}, berth("n1", 4))
}

func TestAParkedPodIsExplained(t *testing.T) {
	inTown(t, func(w *world) {
		w.create(guest("shop/a", 8, 0).Obj())
		w.profiles.Pause("p", true)
		synctest.Wait()
		w.wantWhy("a", &decision.Status{
			Result: "Parked", Message: "SchedulingProfile p is paused: the pod waits until its spec.state is Active",
			BlockedBy: "ProfilePaused", Queue: at("Parked"),
		})
		w.profiles.Pause("p", false)
		synctest.Wait()
		time.Sleep(time.Minute)
		if why := w.why("a"); why == nil || why.Result != "Unschedulable" {
			t.Errorf("when it is not paused any more: %+v", why)
		}
	}, berth("n1", 4))
}

func TestAPodThatIsSetAsideIsExplained(t *testing.T) {
	amongOdds(t, func(w *world, o *odd) {
		w.create(oddly("a", "Filter panics"))
		time.Sleep(2 * time.Minute)
		why := w.why("a")
		if why == nil || why.Result != "SetAside" || why.BlockedBy != "SetAside" || why.Queue.Where != "Parked" ||
			!strings.HasPrefix(why.Message, `plugin "Odd" panicked in Filter, again and again`) {
			t.Errorf("in the end: %+v", why)
		}
	})
}

func TestWhoWaitsIsToldWhatTheProfileHasTold(t *testing.T) {
	for result, waits := range map[v1alpha1.DecisionResult]func(w *world){
		"Unschedulable": func(w *world) { w.create(guest("shop/a", 8, 0).Obj()) },
		"Gated":         func(w *world) { w.create(guest("shop/a", 1, 0).Gate("example.com/quota").Obj()) },
		"Parked":        func(w *world) { w.profiles.Pause("p", true); w.create(guest("shop/a", 1, 0).Obj()) },
	} {
		t.Run(string(result), func(t *testing.T) {
			inTown(t, func(w *world) {
				waits(w)
				tells := func(explain v1alpha1.Explain, nodes bool) *decision.Explanation {
					running, _ := w.profiles.Running("p")
					b := *running.Blueprint
					b.Hash += "'"
					b.Decisions.Explain, b.Decisions.Nodes = explain, nodes
					w.run(&b)
					time.Sleep(time.Minute) // in which backoffs end, and no flush comes
					if w.why("a") == nil {
						return nil
					}
					return new(w.told["a"])
				}
				if why := tells(v1alpha1.ExplainNone, false); why != nil {
					t.Errorf("where nobody is to be explained any more, it is: %+v", why)
				}
				if why := tells(v1alpha1.ExplainAll, false); why == nil || why.Status.Result != result || why.Nodes {
					t.Errorf("where it is to be explained again, without nodes: %+v", why)
				}
				if why := tells(v1alpha1.ExplainAll, true); why == nil || why.Status.Result != result || !why.Nodes {
					t.Errorf("where nodes may be named: %+v", why)
				}
				if why := tells(v1alpha1.ExplainRefusals, false); why == nil || why.Status.Result != result || why.Nodes {
					t.Errorf("where they may not any more: %+v", why)
				}
			}, berth("n1", 4))
		})
	}
}
