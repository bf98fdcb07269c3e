package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fakecluster"
)

// writtenPods takes all due tasks from the explanation queue, and returns the pods whose
// explanations were written.
func (env *testEnv) writtenPods() (pods []string) {
	for {
		e, _, due := env.options.Explanations.Take()
		switch {
		case !due:
			slices.Sort(pods)
			return pods
		case e.Verb == explain.Delete:
			delete(env.explanations, e.Pod)
			env.options.Explanations.Deleted(e)
		default:
			pods = append(pods, e.Pod)
			env.explanations[e.Pod] = *e.Explanation
			env.options.Explanations.Written(e, "object of "+e.UID)
		}
	}
}

// groupA is the group of the pods that gang("a", …) returns.
func groupA(change func(g *v1alpha1.DecisionGroup)) *v1alpha1.DecisionGroup {
	g := &v1alpha1.DecisionGroup{Source: v1alpha1.GroupOfAnnotation, Name: "a"}
	change(g)
	return g
}

// explainedByAnother is the explanation of a pod of gang a that names the one of another pod.
func explainedByAnother(result v1alpha1.DecisionResult, where, pod string) *v1alpha1.SchedulingDecisionStatus {
	return &v1alpha1.SchedulingDecisionStatus{
		Result: result, Queue: queueAt(where),
		Message: "the pod is scheduled with the group a; the SchedulingDecision of pod " + pod + " says why the group waits",
		Group:   groupA(func(g *v1alpha1.DecisionGroup) { g.ExplainedBy = pod }),
	}
}

// The pods are tried in the order of their names: a-6 is the thirteenth.
func TestAGangThatDoesNotFitIsExplainedOnce(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.create(gang("a", 16, 16)...)
		const message = "minCount (16) cannot be satisfied: 12 scheduled, 3 remaining, pod group preemption: No preemption victims found for incoming preemptor"
		fit, counts := int32(12), func(g *v1alpha1.DecisionGroup) { g.MinCount, g.Pods, g.NotTried = 16, 16, 3 }
		env.wantStatus("a-0", &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable", Message: message, Queue: queueAt("Backoff"),
			Group: groupA(func(g *v1alpha1.DecisionGroup) { counts(g); g.Fit, g.ExplainedBy = &fit, "a-6" }),
		})
		env.wantStatus("a-6", &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu.", BlockedBy: "NodeResourcesFit 3",
			Group:      groupA(func(g *v1alpha1.DecisionGroup) { counts(g); g.Fit = &fit }),
			Nodes:      &v1alpha1.DecisionNodes{Total: 3, Evaluated: 3, Summary: "0/3"},
			Rejections: []v1alpha1.Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: insufficientCPU, Nodes: 3, ExampleNode: "n0"}},
			ClosestNodes: []v1alpha1.ClosestNode{
				{Node: "n0", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "0"}}},
				{Node: "n1", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "0"}}},
				{Node: "n2", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "0"}}},
			},
			Queue: queueAt("Backoff"), RequeueEvents: []v1alpha1.RequeueEvents{fitEvents},
		})
		for _, pod := range []string{"a-1", "a-5", "a-7", "a-15"} {
			env.wantStatus(pod, explainedByAnother("Unschedulable", "Backoff", "a-0"))
		}
		env.want("condition of a pod that was not tried", env.podScheduled("a-9"), "False Unschedulable: "+message)
	}, nodesWithCPUs(3, 16)...)
}

// What an attempt changes is written for the first pod and the one that does not fit, as it was
// and as it is.
func TestAnAttemptOfAGangChangesFewExplanations(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.create(gang("a", 16, 16)...)
		env.wantLines("the first attempt", []string{fmt.Sprint(len(env.writtenPods()))}, "16")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		env.wantLines("attempts with the same result", env.writtenPods())
		env.create(nodeWithCPUs("more", 8))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		env.wantLines("an attempt in which two more fit", env.writtenPods(), "a-0", "a-6", "a-8")
		env.want("pods that fit", fmt.Sprint(*env.explanations["a-0"].Status.Group.Fit), "14")
		env.want("the pod that does not fit", env.explanations["a-0"].Status.Group.ExplainedBy, "a-8")
	}, nodesWithCPUs(3, 16)...)
}

// The pods beyond the minimum that fit nowhere have one explanation, too.
func TestThePodsOfAGangBeyondItsMinimumAreExplained(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.create(gang("a", 7, 3)...)
		env.wantBound(time.Minute, "a 4, b 0")
		why := env.status("a-4")
		if why == nil || why.Group == nil || why.Group.Fit == nil {
			t.Fatalf("the first that does not fit: %+v", why)
		}
		env.want("the first that does not fit", fmt.Sprintf("%d fit, %d must: %s", *why.Group.Fit, why.Group.MinCount, why.BlockedBy),
			"4 fit, 3 must: NodeResourcesFit 2")
		env.wantStatus("a-6", explainedByAnother("Unschedulable", "Backoff", "a-4"))
		env.writeAll()
		env.want("explanations of bound pods", fmt.Sprint(len(env.explanations)), "3")
	}, nodesWithCPUs(2, 8)...)
}

func TestAnIncompleteGangIsExplained(t *testing.T) {
	gated := func(message string, change func(g *v1alpha1.DecisionGroup)) *v1alpha1.SchedulingDecisionStatus {
		return &v1alpha1.SchedulingDecisionStatus{
			Result: "Gated", BlockedBy: "GangScheduling", Message: "plugin GangScheduling keeps the pod from being tried" + message,
			Queue: &v1alpha1.DecisionQueue{Where: "Gated", Gate: "GangScheduling"}, Group: groupA(change),
			RequeueEvents: []v1alpha1.RequeueEvents{{Plugin: "GangScheduling", Events: []string{
				"AssignedPod/Add", "TargetPod/Update", "UnscheduledPod/Add", "scheduling.k8s.io/PodGroup/Add", "scheduling.k8s.io/PodGroup/Update",
			}}},
		}
	}
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 4, 4)
		for i, pod := range pods[:3] {
			env.create(pod)
			env.writeAll()
			time.Sleep(time.Minute)
			env.wantStatus("a-0", gated(fmt.Sprintf(": the pod's group has %d of at least 4 pods", i+1), func(g *v1alpha1.DecisionGroup) { g.MinCount, g.Pods = 4, int32(i+1) }))
		}
		byFirst := explainedByAnother("Gated", "Gated", "a-0")
		byFirst.Queue.Gate, byFirst.BlockedBy = "GangScheduling", "GangScheduling"
		env.wantStatus("a-2", byFirst)
		env.cluster.DeletePod(pods[2].(*v1.Pod))
		time.Sleep(time.Minute)
		synctest.Wait()
		env.wantStatus("a-0", gated(": the pod's group has 2 of at least 4 pods", func(g *v1alpha1.DecisionGroup) { g.MinCount, g.Pods = 4, 2 }))
	}, nodesWithCPUs(2, 8)...)
}

// Else the pods would say for a minute that the gang has too few.
func TestAGangWhosePodsComeOneByOneIsExplainedByItsFirstAttempt(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		for _, pod := range gang("a", 4, 4) {
			env.create(pod)
			env.writeAll()
			time.Sleep(time.Second)
		}
		if why := env.status("a-0"); why == nil || why.Result != v1alpha1.ResultUnschedulable {
			t.Errorf("explanation %+v, want that of the attempt", why)
		}
	}, nodesWithCPUs(1, 8)...)
}

// The loop may try a gang between the time when its gate is reported and when it is explained.
func TestALateGateDoesNotReplaceTheExplanationOfAnAttempt(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 4, 4)
		env.create(pods[0])
		gate := queue.HoldChange{Pod: pods[0].(*v1.Pod), GatedMember: pods[0].(*v1.Pod), Gate: "GangScheduling"}
		env.create(pods[1:]...)
		env.explainGate(gate)
		if why := env.status("a-0"); why == nil || why.Result != v1alpha1.ResultUnschedulable {
			t.Errorf("explanation %+v, want that of the attempt", why)
		}
	}, nodesWithCPUs(1, 8)...)
}

func TestAGangOfWhichOnePodIsGatedIsExplainedByThat(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 3, 3)
		pods[1].(*v1.Pod).Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
		env.create(pods...)
		time.Sleep(10 * time.Second) // the gates of a group are explained a few seconds later
		byGated := explainedByAnother("Gated", "Gated", "a-1")
		byGated.Queue.Gate, byGated.BlockedBy = "SchedulingGates", "SchedulingGates"
		env.wantStatus("a-2", byGated)
		why := env.status("a-1")
		if why == nil {
			t.Fatal("the gated pod is not explained")
		}
		env.want("message of the gated pod", why.Message, "plugin SchedulingGates keeps the pod from being tried")
	}, nodesWithCPUs(2, 8)...)
}

// A gang with two victims on two nodes says so.
func TestAGangThatPreemptsCountsItsVictims(t *testing.T) {
	for name, test := range map[string]struct {
		faults []fakecluster.Fault
		want   v1alpha1.PreemptionResult
	}{
		"while they are evicted": {[]fakecluster.Fault{{Verb: "delete", Before: func() { time.Sleep(time.Hour) }}}, v1alpha1.PreemptionResult{Candidates: 1, Victims: 2, Nodes: 2, Outcome: "UnderWay"}},
		"while they terminate":   {nil, v1alpha1.PreemptionResult{Victims: 2, Nodes: 2, Outcome: "UnderWay"}},
	} {
		t.Run(name, func(t *testing.T) {
			runTestWith(t, plugins.InTree(), func(env *testEnv) {
				env.profile("p", gangPlugins)
				defer env.startLeading()()
				env.cluster.TerminateGracefully()
				env.cluster.Inject(test.faults...)
				env.create(withPriority(9, gang("a", 3, 3))...)
				time.Sleep(time.Minute)
				synctest.Wait()
				why := env.status("a-0")
				if why == nil || why.Preemption == nil {
					t.Fatalf("the first pod: %+v", why)
				}
				env.want("result", string(why.Result), "Preempting")
				if *why.Preemption != test.want {
					t.Errorf("preemption %+v, want %+v", *why.Preemption, test.want)
				}
				other := env.status("a-2")
				if other == nil || other.Result != "Preempting" || other.Group.ExplainedBy != "a-0" || !strings.Contains(other.Message, "pod a-0") {
					t.Errorf("another pod: %+v", other)
				}
				time.Sleep(2 * time.Hour)
			}, append(nodesWithCPUs(2, 8), lowPods("n0", "n1", "n1")...)...)
		})
	}
}
