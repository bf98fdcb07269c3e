package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// writeAll takes from the Desk all that is due, as a writer without a budget does.
func (w *world) writeAll() {
	desk := w.options.Desk
	for {
		e, _, due := desk.Take()
		switch {
		case !due:
			return
		case e.Verb == decision.Delete:
			delete(w.told, e.Pod)
			desk.Deleted(e)
		default:
			w.told[e.Pod] = *e.Explanation
			desk.Written(e, "object of "+e.UID)
		}
	}
}

// why is the explanation of a pod, without times; nil when there is none.
func (w *world) why(pod string) *decision.Status {
	w.writeAll()
	e, ok := w.told[pod]
	if !ok {
		return nil
	}
	e.Status.LastChange = metav1.Time{}
	if e.Status.Queue != nil {
		queue := *e.Status.Queue
		queue.Since = metav1.Time{}
		e.Status.Queue = &queue
	}
	return &e.Status
}

func (w *world) wantWhy(pod string, want *decision.Status) {
	w.t.Helper()
	got := w.why(pod)
	if got != nil && want != nil {
		want.Profile = got.Profile
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Errorf("why of %s (-want +got):\n%s", pod, diff)
	}
}

// explained runs a profile that differs in what it explains.
func (w *world) explained(explain v1alpha1.Explain, detail v1alpha1.Detail) {
	w.t.Helper()
	b := *w.blueprint("explains " + string(explain) + string(detail))
	b.Decisions.Explain, b.Decisions.Nodes = explain, detail == v1alpha1.DetailNodes
	w.run(&b)
}

func (w *world) run(b *compile.Blueprint) {
	w.t.Helper()
	if err := w.Profiles().Apply(w.ctx, b); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func at(where string) *decision.Queue { return &decision.Queue{Where: where} }

var (
	fitWakes = decision.WakesOn{Plugin: "NodeResourcesFit", Events: []string{
		"AssignedPod/Delete", "AssignedPod/UpdateScaleDown", "Node/Add", "Node/UpdateAllocatable", "TargetPod/UpdateScaleDown",
	}}
	taintWakes = decision.WakesOn{Plugin: "TaintToleration", Events: []string{"Node/Add", "Node/UpdateTaint", "TargetPod/UpdateToleration"}}
	roomWakes  = decision.WakesOn{Plugin: "DefaultPreemption", Events: []string{"AssignedPod/Delete"}}
)

const tooFull = "Insufficient cpu"

func TestARefusalIsExplained(t *testing.T) {
	inTown(t, func(w *world) {
		w.create(guest("shop/big", 8, 0).Obj())
		w.wantWhy("big", &decision.Status{
			Result: "Unschedulable",
			Message: "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: " +
				"0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
			BlockedBy: "NodeResourcesFit 3, TaintToleration 1",
			Nodes:     &decision.Nodes{Total: 4, Evaluated: 4, Summary: "0/4"},
			Rejections: []decision.Rejection{
				{Plugin: "NodeResourcesFit", Code: "UnschedulableAndUnresolvable", Reason: tooFull, Nodes: 3, ExampleNode: "n1"},
				{Plugin: "TaintToleration", Code: "UnschedulableAndUnresolvable", Reason: "node(s) had untolerated taint(s)", Nodes: 1, ExampleNode: "n4"},
			},
			Nearest: []decision.NearMiss{
				{Node: "n3", Missing: []decision.Missing{{Resource: "cpu", Requested: "8", Free: "3500m"}}},
				{Node: "n2", Missing: []decision.Missing{{Resource: "cpu", Requested: "8", Free: "3"}}},
				{Node: "n1", Missing: []decision.Missing{{Resource: "cpu", Requested: "8", Free: "2"}}},
			},
			Queue:      at("Unschedulable"),
			WakesOn:    []decision.WakesOn{fitWakes, taintWakes},
			Preemption: &decision.Preemption{Outcome: "NoCandidates"},
		})
	}, berth("n1", 2), berth("n2", 3), fixture.Node("n3").Offers("cpu", "3500m", "pods", "9").Obj(),
		fixture.Node("n4").Offers("cpu", "3", "pods", "9").Taint("key", "", v1.TaintEffectNoSchedule).Obj())
}

func TestAllThatIsMissingOnANodeIsTold(t *testing.T) {
	for sentence, c := range map[string]struct {
		node *fixture.NodeBuilder
		pod  *fixture.PodBuilder
		want []decision.Missing
	}{
		"whoever refuses it beside the first": {
			fixture.Node("n1").Offers("cpu", "1", "memory", "1Gi").Unschedulable().Taint("key", "", v1.TaintEffectNoExecute),
			guest("shop/a", 2, 0).Requests("memory", "1536Mi"),
			[]decision.Missing{
				{Plugin: "NodeUnschedulable", Reason: "node(s) were unschedulable"},
				{Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)"},
				{Resource: "cpu", Requested: "2", Free: "1"},
				{Resource: "memory", Requested: "1536Mi", Free: "1Gi"},
			},
		},
		"a place for the pod itself": {
			fixture.Node("n1").Offers("cpu", "4", "pods", "0"), guest("shop/a", 1, 0),
			[]decision.Missing{{Resource: "pods", Requested: "1", Free: "0"}},
		},
		"a vendor's resource": {
			fixture.Node("n1").Offers("cpu", "4", "vendor.example/gpu", "1"), guest("shop/a", 1, 0).Requests("vendor.example/gpu", "3"),
			[]decision.Missing{{Resource: "vendor.example/gpu", Requested: "3", Free: "1"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTown(t, func(w *world) {
				w.create(c.pod.Obj())
				var got []decision.NearMiss
				if why := w.why("a"); why != nil {
					got = why.Nearest
				}
				if diff := gocmp.Diff([]decision.NearMiss{{Node: "n1", Missing: c.want}}, got); diff != "" {
					t.Errorf("nearest (-want +got):\n%s", diff)
				}
			}, c.node.Obj())
		})
	}
}

func TestAPodThatNoNodeIsAskedAboutIsExplained(t *testing.T) {
	named := guest("shop/a", 1, 0).Mutate(func(p *v1.Pod) {
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}},
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n2"}},
		}}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}}
	})
	inTown(t, func(w *world) {
		w.create(named.Obj())
		why := w.why("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		w.want("who", why.BlockedBy, "NodeAffinity 2")
		w.want("fits", fmt.Sprint(*why.Nodes), fmt.Sprint(decision.Nodes{Total: 2, Summary: "0/2"}))
		w.want("what is near", fmt.Sprint(why.Nearest), "[]")
		want := []decision.Rejection{{Plugin: "NodeAffinity", Code: "UnschedulableAndUnresolvable", Reason: "pod affinity terms conflict", Nodes: 2}}
		if diff := gocmp.Diff(want, why.Rejections); diff != "" {
			t.Errorf("rejections (-want +got):\n%s", diff)
		}
	}, berth("n1", 4), berth("n2", 4))
}

// A DaemonSet's pod names its node; the others are ruled out by that.
func TestAPodThatNamesItsNodeIsExplainedByIt(t *testing.T) {
	named := guest("shop/a", 8, 0).Mutate(func(p *v1.Pod) {
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}}
	})
	inTown(t, func(w *world) {
		w.create(named.Obj())
		why := w.why("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		w.want("who", why.BlockedBy, "NodeAffinity 2, NodeResourcesFit 1")
		w.want("fits", fmt.Sprint(*why.Nodes), fmt.Sprint(decision.Nodes{Total: 3, Evaluated: 1, Summary: "0/3"}))
		w.want("what is near", fmt.Sprint(why.Nearest), "[{n1 [{cpu 8 4  }]}]")
	}, berth("n1", 4), berth("n2", 9), berth("n3", 9))
}

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

func TestWhatBecomesOfAPodAtAProbeIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		point  string
		answer probe.Answer
		want   *decision.Status
	}{
		"a pod that waits at Permit": {"Permit", probe.Wait, &decision.Status{
			Result: "WaitingOnPermit", Message: "a node is chosen; the pod waits for A", BlockedBy: "A",
			Nodes: &decision.Nodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"}, Queue: at("InFlight"),
		}},
		"a plugin that fails": {"Filter", probe.Fail(errBroken), &decision.Status{
			Result: "Error", Message: `running "A" filter plugin: broken`, Queue: at("Backoff"),
		}},
		"a plugin that refuses the node that was chosen": {"Reserve", probe.Reject("no"), &decision.Status{
			Result: "Unschedulable", Message: "0/1 nodes are available: 1 no.", BlockedBy: "A 1",
			Nodes:      &decision.Nodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"},
			Rejections: []decision.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 1, ExampleNode: "n1"}},
			Queue:      at("Unschedulable"), WakesOn: []decision.WakesOn{{Plugin: "A", Events: []string{"Node/Add", "Node/UpdateLabel"}}},
		}},
		"a plugin that refuses the pod when it is too late": {"PreBind", probe.Reject("no"), &decision.Status{
			Result: "Unschedulable", Message: "no", BlockedBy: "A",
			Nodes: &decision.Nodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"}, Queue: at("Backoff"),
		}},
		"a plugin that is not built in refuses nodes": {"Filter", probe.Reject("no"), &decision.Status{
			Result: "Unschedulable", Message: "0/2 nodes are available: 2 no.", BlockedBy: "A 2",
			Nodes:      &decision.Nodes{Total: 2, Evaluated: 2, Summary: "0/2"},
			Rejections: []decision.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 2, ExampleNode: "n1"}},
			Nearest: []decision.NearMiss{
				{Node: "n1", Missing: []decision.Missing{{Plugin: "A", Reason: "no"}}}, {Node: "n2", Missing: []decision.Missing{{Plugin: "A", Reason: "no"}}},
			},
			Queue: at("Unschedulable"), WakesOn: []decision.WakesOn{{Plugin: "A", Events: []string{"Node/Add", "Node/UpdateLabel"}}},
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.a.Waits = time.Hour
				w.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}}}
				w.a.Set(c.point, c.answer)
				w.a.Set("PreBindPreFlight", nil) // so that PreBind is asked
				w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
				defer w.lead()()
				w.create(web("a"))
				w.wantWhy("a", c.want)
			}, node("n1"), node("n2"))
		})
	}
}

func TestAPodWithoutNodesIsExplained(t *testing.T) {
	inTime(t, func(w *world) {
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer w.lead()()
		w.create(web("a"))
		w.wantWhy("a", &decision.Status{
			Result: "Unschedulable", Message: "no nodes available to schedule pods", Nodes: &decision.Nodes{Summary: "0/0"}, Queue: at("Backoff"),
		})
	})
}

func TestWhomAProfileExplains(t *testing.T) {
	refused := &decision.Status{
		Result: "Unschedulable", Message: "0/1 nodes are available: 1 no.", BlockedBy: "A 1",
		Nodes:      &decision.Nodes{Total: 1, Evaluated: 1, Summary: "0/1"},
		Rejections: []decision.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 1, ExampleNode: "n1"}},
		Nearest:    []decision.NearMiss{{Node: "n1", Missing: []decision.Missing{{Plugin: "A", Reason: "no"}}}},
		Queue:      at("Unschedulable"),
	}
	bound := &decision.Status{Result: "Bound", Nodes: &decision.Nodes{Total: 1, Evaluated: 1, Feasible: 1, Summary: "1/1"}}
	for explain, want := range map[v1alpha1.Explain]struct{ refused, bound *decision.Status }{
		v1alpha1.ExplainNone:     {nil, nil},
		v1alpha1.ExplainRefusals: {refused, nil},
		v1alpha1.ExplainAll:      {refused, bound},
	} {
		t.Run(string(explain), func(t *testing.T) {
			inTime(t, func(w *world) {
				w.a.Events = []fwk.ClusterEventWithHint{}
				w.explained(explain, v1alpha1.DetailReasons)
				defer w.lead()()
				w.create(web("bound"))
				w.wantWhy("bound", want.bound)
				w.a.Set("Filter", probe.Reject("no"))
				w.create(web("refused"))
				w.wantWhy("refused", want.refused)
				time.Sleep(time.Minute)
				w.wantWhy("bound", nil)
				w.explained(v1alpha1.ExplainNone, v1alpha1.DetailNodes)
				w.queue.Activate(w.ctx, map[string]*v1.Pod{"refused": web("refused")})
				synctest.Wait()
				w.wantWhy("refused", nil)
			}, node("n1"))
		})
	}
}

func TestAnExplanationNamesNobodyElse(t *testing.T) {
	inTime(t, func(w *world) {
		w.a.Set("Filter", probe.Reject(`node "n1" (n1/4) is kept for bank/secret, 1 of 2; not for shop/a.`))
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer w.lead()()
		w.create(fixture.Pod("shop/a").Scheduler("p").Obj())
		const said = `node "<node>" (<node>/4) is kept for <pod>, 1 of 2; not for shop/a.`
		why := w.why("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		w.want("message", why.Message, "0/1 nodes are available: 1 "+said+".")
		w.want("reason", why.Rejections[0].Reason, said)
		w.want("missing", why.Nearest[0].Missing[0].Reason, said)

		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailNodes)
		time.Sleep(time.Minute)
		w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": fixture.Pod("shop/a").Obj()})
		synctest.Wait()
		w.want("reason, where nodes may be named", w.why("a").Rejections[0].Reason, `node "n1" (n1/4) is kept for <pod>, 1 of 2; not for shop/a.`)
	}, node("n1"), fixture.Pod("bank/secret").On("n1").Obj())
}

func TestWhoGoesIsExplainedNoMore(t *testing.T) {
	inTime(t, func(w *world) {
		refuse := probe.Reject("no")
		w.a.Set("Filter", refuse)
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer w.lead()()
		w.create(web("a"))
		if w.why("a") == nil {
			t.Fatal("it is not explained")
		}
		w.cluster.Remove(web("a"))
		synctest.Wait()
		w.wantWhy("a", nil)
		// This one goes while it is tried.
		w.a.Set("Filter", func() *fwk.Status {
			w.cluster.Remove(web("b"))
			time.Sleep(time.Millisecond)
			return refuse()
		})
		w.create(web("b"))
		time.Sleep(time.Second)
		w.wantWhy("b", nil)
	}, node("n1"))
}
