package explain

import (
	"cmp"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// testDecision is the SchedulingDecision of a pod named web that fits on no node.
func testDecision(uid types.UID, changes ...func(*v1alpha1.SchedulingDecisionStatus)) *v1alpha1.SchedulingDecision {
	d := &v1alpha1.SchedulingDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: uid}}},
		Status: v1alpha1.SchedulingDecisionStatus{
			Result: v1alpha1.ResultUnschedulable, Profile: v1alpha1.DecidedBy{Name: "batch", Generation: 6, Hash: "9f3c1a2b4d"},
			Message:   "0/500 nodes are available: 20 node(s) had untolerated taint(s), 480 Insufficient cpu.",
			BlockedBy: "NodeResourcesFit 480, TaintToleration 20",
			Nodes:     &v1alpha1.DecisionNodes{Total: 500, Evaluated: 500, Summary: "0/500"},
			Rejections: []v1alpha1.Rejection{
				{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: "Insufficient cpu", Nodes: 480, ExampleNode: "n17"},
				{Plugin: "TaintToleration", Code: "UnschedulableAndUnresolvable", Reason: "node(s) had untolerated taint(s)", Nodes: 20, ExampleNode: "n481"},
			},
			ClosestNodes: []v1alpha1.ClosestNode{
				{Node: "n17", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "3500m"}}},
				{Node: "n481", Missing: []v1alpha1.Missing{{Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)"}, {Resource: "memory", Requested: "8Gi", Free: "6Gi"}}},
			},
			Queue: &v1alpha1.DecisionQueue{Where: "Unschedulable", Since: kubectltest.Ago(3 * time.Minute)},
			RequeueEvents: []v1alpha1.RequeueEvents{
				{Plugin: "NodeResourcesFit", Events: []string{"AssignedPod/Delete", "Node/Add", "Node/UpdateNodeAllocatable"}},
				{Plugin: "TaintToleration", Events: []string{"Node/Add", "Node/UpdateNodeTaint"}},
			},
			Preemption: &v1alpha1.PreemptionResult{Outcome: v1alpha1.PreemptionNoCandidates},
			LastChange: kubectltest.Ago(3 * time.Minute),
		},
	}
	for _, change := range changes {
		change(&d.Status)
	}
	return d
}

func TestExplainByASchedulingDecision(t *testing.T) {
	p, _ := runningBatch()
	preempting := func(outcome v1alpha1.PreemptionOutcome) func(*v1alpha1.SchedulingDecisionStatus) {
		return func(s *v1alpha1.SchedulingDecisionStatus) {
			s.Result, s.Preemption = v1alpha1.ResultPreempting, &v1alpha1.PreemptionResult{Candidates: 12, Victims: 3, Outcome: outcome}
		}
	}
	for name, c := range map[string]struct {
		decision  *v1alpha1.SchedulingDecision
		condition string // empty: the message of the decision
		nominated string
		forbidden bool
	}{
		"rejections with names of nodes": {decision: testDecision("web-uid")},
		"rejections without names of nodes": {decision: testDecision("web-uid", func(s *v1alpha1.SchedulingDecisionStatus) {
			for i := range s.Rejections {
				s.Rejections[i].ExampleNode = ""
			}
			for i := range s.ClosestNodes {
				s.ClosestNodes[i].Node = ""
			}
		})},
		"requests for devices that are not free": {decision: testDecision("web-uid", func(s *v1alpha1.SchedulingDecisionStatus) {
			s.Message, s.BlockedBy = "0/500 nodes are available: 500 cannot allocate all claims.", "DynamicResources 500"
			s.Rejections = []v1alpha1.Rejection{{Plugin: "DynamicResources", Code: "UnschedulableAndUnresolvable", Reason: "cannot allocate all claims", Nodes: 500, ExampleNode: "n17"}}
			s.ClosestNodes = []v1alpha1.ClosestNode{{Node: "n17", Missing: []v1alpha1.Missing{{DeviceRequest: "gpus/large", Requested: "2", Free: "1"}}}}
			s.DeviceRequests = []v1alpha1.DeviceRequestCounts{
				{Claim: "gpus", Request: "large", DeviceClassName: "gpu.example.com", Count: 2, Published: 4000, Free: 17, Selectors: []v1alpha1.DeviceSelectorCount{
					{Source: v1alpha1.DeviceSelectorOfClass, Expression: `device.driver == "gpu.example.com"`, Matching: 4000},
					{Source: v1alpha1.DeviceSelectorOfRequest, Expression: `device.attributes["gpu.example.com"].model == "a"`, Matching: 1000},
				}},
				{Claim: "example.com/nic", Request: "container-0-request-1", DeviceClassName: "nic", Published: 4000},
			}
			s.RequeueEvents = s.RequeueEvents[:1]
		})},
		"a gated pod": {decision: testDecision("web-uid", func(s *v1alpha1.SchedulingDecisionStatus) {
			*s = v1alpha1.SchedulingDecisionStatus{
				Result: v1alpha1.ResultGated, Profile: s.Profile, BlockedBy: "SchedulingGates", LastChange: s.LastChange,
				Queue: &v1alpha1.DecisionQueue{Where: "Gated", Since: s.LastChange, Gate: "SchedulingGates"},
			}
		})},
		"a condition of a later attempt": {decision: testDecision("web-uid"), condition: "0/500 nodes are available: 19 node(s) had untolerated taint(s), 481 Insufficient cpu."},
		"a condition with names that the decision has not": {
			decision: testDecision("web-uid", func(s *v1alpha1.SchedulingDecisionStatus) {
				s.Message = "0/1 nodes are available: <node> is in maintenance."
			}),
			condition: "0/1 nodes are available: n17 is in maintenance.",
		},
		"preemption with victims": {decision: testDecision("web-uid", preempting(v1alpha1.PreemptionVictimsChosen)), nominated: "n17"},
		"preemption under way":    {decision: testDecision("web-uid", preempting(v1alpha1.PreemptionUnderWay)), nominated: "n17"},
		"a nominated pod that preempts nothing": {decision: testDecision("web-uid", func(s *v1alpha1.SchedulingDecisionStatus) {
			*s = v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultWaitingOnPermit, Profile: s.Profile, LastChange: s.LastChange}
		}), nominated: "n17"},
		"a pod that may not preempt":                  {decision: testDecision("web-uid", preempting(v1alpha1.PreemptionNotEligible))},
		"preemption failed":                           {decision: testDecision("web-uid", preempting(v1alpha1.PreemptionFailed))},
		"a decision about another pod of that name":   {decision: testDecision("another")},
		"no permission to get the SchedulingDecision": {decision: testDecision("web-uid"), forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := kubectltest.WithPodScheduled(kubectltest.Pod("web", "batch", ""), corev1.ConditionFalse, "Unschedulable", cmp.Or(c.condition, c.decision.Status.Message))
			pod.UID, pod.Status.NominatedNodeName = "web-uid", c.nominated
			env := kubectltest.New(t, pod, p.DeepCopy(), c.decision)
			if c.forbidden {
				env.Fail = func(_ string, object any) error {
					if _, ok := object.(*v1alpha1.SchedulingDecision); ok {
						return errors.New("schedulingdecisions.berth.dev is forbidden")
					}
					return nil
				}
			}
			kubectltest.Golden(t, name, env.Run(New, "pod/web"), false)
		})
	}
}
