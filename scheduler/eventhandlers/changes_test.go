package eventhandlers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func actions(events []fwk.ClusterEvent) []fwk.ActionType {
	var all []fwk.ActionType
	for _, e := range events {
		all = append(all, e.ActionType)
	}
	return all
}

func TestPodEvents(t *testing.T) {
	base := func() *fixture.PodBuilder { return fixture.Pod("a").Requests("cpu", "1") }
	status := func(cpu string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name: "c0", AllocatedResources: fixture.Resources("cpu", cpu),
				Resources: &v1.ResourceRequirements{Requests: fixture.Resources("cpu", cpu)},
			}}
		}
	}
	claim := "a-claim"
	for name, c := range map[string]struct {
		before, after *fixture.PodBuilder
		want          []fwk.ActionType
	}{
		"an annotation is a plain update":        {base(), base().Annotation("a", "b"), []fwk.ActionType{fwk.Update}},
		"a label is added":                       {base(), base().Label("a", "b"), []fwk.ActionType{fwk.UpdatePodLabel}},
		"a label is removed":                     {base().Label("a", "b"), base(), []fwk.ActionType{fwk.UpdatePodLabel}},
		"empty labels and no labels":             {base().Mutate(func(p *v1.Pod) { p.Labels = map[string]string{} }), base(), []fwk.ActionType{fwk.Update}},
		"a smaller request":                      {base(), fixture.Pod("a").Requests("cpu", "500m"), []fwk.ActionType{fwk.UpdatePodScaleDown}},
		"a request is removed":                   {base(), fixture.Pod("a").Requests(), []fwk.ActionType{fwk.UpdatePodScaleDown}},
		"a larger request":                       {base(), fixture.Pod("a").Requests("cpu", "2"), []fwk.ActionType{fwk.UpdatePodScaleUp}},
		"a request is added":                     {base(), fixture.Pod("a").Requests("cpu", "1", "memory", "1Gi"), []fwk.ActionType{fwk.UpdatePodScaleUp}},
		"one request is larger, one smaller":     {fixture.Pod("a").Requests("cpu", "1", "memory", "1Gi"), fixture.Pod("a").Requests("cpu", "2", "memory", "1Mi"), []fwk.ActionType{fwk.UpdatePodScaleDown, fwk.UpdatePodScaleUp}},
		"a resize has ended":                     {base().Mutate(status("2")), base().Mutate(status("1")), []fwk.ActionType{fwk.UpdatePodScaleDown}},
		"the last scheduling gate is removed":    {base().SchedulingGate("x"), base(), []fwk.ActionType{fwk.UpdatePodSchedulingGatesEliminated}},
		"one of two scheduling gates is removed": {base().SchedulingGate("x").SchedulingGate("y"), base().SchedulingGate("x"), []fwk.ActionType{fwk.Update}},
		"a toleration is added":                  {base(), base().Tolerate("a", "b", v1.TaintEffectNoSchedule), []fwk.ActionType{fwk.UpdatePodToleration}},
		"a resource claim is generated": {base(), base().Mutate(func(p *v1.Pod) {
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: &claim}}
		}), []fwk.ActionType{fwk.UpdatePodGeneratedResourceClaim}},
		"several at once, in order": {base().SchedulingGate("x"), base().Label("a", "b").Tolerate("a", "b", v1.TaintEffectNoSchedule),
			[]fwk.ActionType{fwk.UpdatePodLabel, fwk.UpdatePodSchedulingGatesEliminated, fwk.UpdatePodToleration}},
	} {
		t.Run(name, func(t *testing.T) {
			events := podEvents(c.before.Obj(), c.after.Obj(), fwk.TargetPod)
			if diff := cmp.Diff(c.want, actions(events)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			for _, e := range events {
				if e.Resource != fwk.TargetPod {
					t.Errorf("resource %v", e.Resource)
				}
			}
		})
	}
}

// The library that counts requests adds the overhead to amounts of the pod where these do not fit into
// an int64.
func TestAPodIsNotChangedByTheComparisonOfItsRequests(t *testing.T) {
	pod := fixture.Pod("a").Mutate(func(p *v1.Pod) {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: fixture.Resources("hugepages-2Mi", "8Ei")}
		p.Spec.Overhead = fixture.Resources("hugepages-2Mi", "8Ei")
	}).Obj()
	before := pod.Spec.Resources.Requests["hugepages-2Mi"]
	text := before.String()
	podEvents(pod, pod, fwk.TargetPod)
	if after := pod.Spec.Resources.Requests["hugepages-2Mi"]; after.String() != text {
		t.Errorf("the pod requests %s afterwards, and %s before", after.String(), text)
	}
}

func TestNodeEvents(t *testing.T) {
	base := func() *fixture.NodeBuilder { return fixture.Node("n").Capacity("cpu", "4") }
	condition := func(status v1.ConditionStatus, heartbeat int64) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status, LastHeartbeatTime: metav1.Unix(heartbeat, 0)}}
		}
	}
	for name, c := range map[string]struct {
		before, after *fixture.NodeBuilder
		want          []fwk.ActionType
	}{
		"a heartbeat":                     {base().Mutate(condition("True", 1)), base().Mutate(condition("True", 2)), nil},
		"a condition changes":             {base().Mutate(condition("False", 1)), base().Mutate(condition("True", 1)), []fwk.ActionType{fwk.UpdateNodeCondition}},
		"uncordoned":                      {base().Unschedulable(), base(), []fwk.ActionType{fwk.UpdateNodeTaint}},
		"cordoned":                        {base(), base().Unschedulable(), nil},
		"allocatable":                     {base(), base().Capacity("cpu", "8"), []fwk.ActionType{fwk.UpdateNodeAllocatable}},
		"the same amount in another unit": {base().Capacity("cpu", "4000m"), base(), nil},
		"a label is added":                {base(), base().Label("a", "b"), []fwk.ActionType{fwk.UpdateNodeLabel}},
		"a taint":                         {base().Taint("a", "b", v1.TaintEffectNoSchedule), base(), []fwk.ActionType{fwk.UpdateNodeTaint}},
		"an annotation":                   {base(), base().Annotation("a", "b"), []fwk.ActionType{fwk.UpdateNodeAnnotation}},
		"a declared feature":              {base(), base().DeclaredFeatures("x"), []fwk.ActionType{fwk.UpdateNodeDeclaredFeature}},
		"several at once, in order": {base().Unschedulable(), base().Capacity("cpu", "8").Label("a", "b"),
			[]fwk.ActionType{fwk.UpdateNodeTaint, fwk.UpdateNodeAllocatable, fwk.UpdateNodeLabel}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, actions(nodeEvents(c.before.Obj(), c.after.Obj()))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
