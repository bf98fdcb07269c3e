package explain

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// gangDecision is the SchedulingDecision of a pod of group a, which a PodGroup of
// scheduling.k8s.io makes.
func gangDecision(pod, explainedBy string, changes ...func(*v1alpha1.SchedulingDecisionStatus)) *v1alpha1.SchedulingDecision {
	since := kubectltest.Ago(3 * time.Minute)
	d := &v1alpha1.SchedulingDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: kubectltest.Pod(pod, "", "").UID}}},
		Status: v1alpha1.SchedulingDecisionStatus{
			Result: v1alpha1.ResultUnschedulable, Profile: v1alpha1.DecidedBy{Name: "batch", Generation: 6, Hash: "9f3c1a2b4d"},
			Message: "the pod is scheduled with the group a; the SchedulingDecision of pod a-0 says why the group waits",
			Group:   &v1alpha1.DecisionGroup{Source: v1alpha1.GroupOfPodGroup, Name: "a", ExplainedBy: explainedBy},
			Queue:   &v1alpha1.DecisionQueue{Where: "Backoff", Since: since}, LastChange: since,
		},
	}
	for _, change := range changes {
		change(&d.Status)
	}
	return d
}

const gangMessage = "minCount (16) cannot be satisfied: 12 scheduled, 3 remaining, pod group preemption: No preemption victims found for incoming preemptor"

// fits sets the counts of an attempt in which 12 of 16 pods fit.
func fits(s *v1alpha1.SchedulingDecisionStatus) {
	fit := int32(12)
	s.Message = gangMessage
	s.Group.MinCount, s.Group.Pods, s.Group.Fit, s.Group.NotTried = 16, 16, &fit, 3
}

// lacksCPU sets the reasons of the pod that does not fit.
func lacksCPU(s *v1alpha1.SchedulingDecisionStatus) {
	fits(s)
	of := testDecision("").Status
	s.Message, s.BlockedBy, s.Nodes, s.Rejections, s.ClosestNodes, s.RequeueEvents = of.Message, of.BlockedBy, of.Nodes, of.Rejections, of.ClosestNodes, of.RequeueEvents
}

// gangOf16 are the pods of a Job, twelve of which fit: a-12 is the one that does not.
func gangOf16() []client.Object {
	p, _ := runningBatch()
	job, group := &batchv1.Job{ObjectMeta: objectMeta("train")}, "a"
	objects := []client.Object{p, job, gangDecision("a-0", "a-12", fits), gangDecision("a-12", "", lacksCPU)}
	for i := range 16 {
		message := gangMessage
		if i == 12 {
			message = testDecision("").Status.Message
		}
		pod := ownedBy(unschedulablePod(fmt.Sprint("a-", i), "batch", 40-i, "Unschedulable", message), "Job", job)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		objects = append(objects, pod)
		if i != 0 && i != 12 {
			objects = append(objects, gangDecision(pod.Name, "a-0"))
		}
	}
	return objects
}

func TestExplainAPodOfAGroup(t *testing.T) {
	gated := func(s *v1alpha1.SchedulingDecisionStatus) {
		s.Result, s.BlockedBy = v1alpha1.ResultGated, "GangScheduling"
		s.Queue.Where, s.Queue.Gate = "Gated", "GangScheduling"
	}
	byGate := func(s *v1alpha1.SchedulingDecisionStatus) {
		gated(s)
		s.BlockedBy, s.Queue.Gate = "SchedulingGates", "SchedulingGates"
	}
	preempts := func(s *v1alpha1.SchedulingDecisionStatus) {
		fits(s)
		s.Result, s.Preemption = v1alpha1.ResultPreempting, &v1alpha1.PreemptionResult{Candidates: 1, Victims: 9, Nodes: 4, Outcome: v1alpha1.PreemptionVictimsChosen}
	}
	nominated := kubectltest.Pod("a-0", "batch", "")
	nominated.Status.NominatedNodeName = "n2"
	for name, c := range map[string]struct {
		decisions []client.Object
		args      []string
	}{
		"a pod of a group that fits":         {gangOf16(), []string{"pod/a-3"}},
		"the first pod of a group":           {gangOf16(), []string{"pod/a-0"}},
		"the pod of a group that fits not":   {gangOf16(), []string{"pod/a-12"}},
		"a pod of a group that fits as JSON": {gangOf16(), []string{"pod/a-3", "-o", "json"}},
		"a workload of a group":              {gangOf16(), []string{"job/train"}},
		"a pod of a group whose first pod is gone": {[]client.Object{
			kubectltest.WithPodScheduled(kubectltest.Pod("a-3", "batch", ""), corev1.ConditionFalse, "Unschedulable", gangMessage), gangDecision("a-3", "a-0"),
		}, []string{"pod/a-3"}},
		"a pod of an incomplete group": {[]client.Object{
			kubectltest.Pod("a-3", "batch", ""), gangDecision("a-3", "a-0", gated), gangDecision("a-0", "", gated, func(s *v1alpha1.SchedulingDecisionStatus) {
				s.Message = "plugin GangScheduling keeps the pod from being tried: the pod's group has 3 of at least 16 pods"
				s.Group.MinCount, s.Group.Pods = 16, 3
			}),
		}, []string{"pod/a-3"}},
		"a pod of a group one of whose pods is gated": {[]client.Object{
			kubectltest.Pod("a-3", "batch", ""), gangDecision("a-3", "a-0", byGate), gangDecision("a-0", "", byGate, func(s *v1alpha1.SchedulingDecisionStatus) {
				s.Message = "plugin SchedulingGates keeps the pod from being tried"
				s.Group.MinCount, s.Group.Pods = 16, 16
			}),
		}, []string{"pod/a-3"}},
		"a pod of a group whose first pod has an older decision": {[]client.Object{
			kubectltest.WithPodScheduled(kubectltest.Pod("a-3", "batch", ""), corev1.ConditionFalse, "Unschedulable", gangMessage), gangDecision("a-3", "a-0"),
			gangDecision("a-0", "", gated, func(s *v1alpha1.SchedulingDecisionStatus) {
				s.LastChange, s.Group.MinCount, s.Group.Pods = kubectltest.Ago(4*time.Minute), 16, 3
			}),
		}, []string{"pod/a-3"}},
		"a pod of a group that preempts": {[]client.Object{
			kubectltest.WithPodScheduled(kubectltest.Pod("a-3", "batch", ""), corev1.ConditionFalse, "Unschedulable", "minCount (16) cannot be satisfied: 12 scheduled, 3 remaining, pod group preemption: found a placement for podgroup, preempting 9 victims"),
			gangDecision("a-3", "a-0", func(s *v1alpha1.SchedulingDecisionStatus) { s.Result = v1alpha1.ResultPreempting }), gangDecision("a-0", "", preempts),
		}, []string{"pod/a-3"}},
		"a pod of a group whose victims terminate": {[]client.Object{
			nominated, gangDecision("a-0", "", preempts, func(s *v1alpha1.SchedulingDecisionStatus) {
				s.Preemption.Outcome = v1alpha1.PreemptionUnderWay
			}),
		}, []string{"pod/a-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := runningBatch()
			objects := c.decisions
			if _, ok := objects[0].(*v1alpha1.SchedulingProfile); !ok {
				objects = append(objects, p)
			}
			kubectltest.Golden(t, name, kubectltest.New(t, objects...).Run(New, c.args...), len(c.args) > 1)
		})
	}
}

// Pods that name a group under a profile that schedules them one by one have reasons of their own.
func TestAWorkloadWhosePodsAreScheduledOneByOne(t *testing.T) {
	objects := gangOf16()
	for _, object := range objects {
		if d, ok := object.(*v1alpha1.SchedulingDecision); ok {
			d.Status.Group = nil
		}
	}
	kubectltest.Golden(t, "a workload whose pods are scheduled one by one", kubectltest.New(t, objects...).Run(New, "job/train"), false)
}
