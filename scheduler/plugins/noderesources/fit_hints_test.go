package noderesources

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestFitHints(t *testing.T) {
	pod := fixture.Pod("a").Requests("cpu", "2", "example.com/gpu", "1").Obj()
	nodeWith := func(pairs ...string) *v1.Node { return fixture.Node("n").Capacity(pairs...).Obj() }
	assignedPod := func(pairs ...string) *v1.Pod { return fixture.Pod("b").Requests(pairs...).On("n").Obj() }
	enough := nodeWith("cpu", "2", "example.com/gpu", "1")
	for name, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"an assigned pod is deleted": {hint: isSchedulableAfterPodDeleted, before: assignedPod(), want: fwk.Queue},
		"a nominated pod is deleted": {hint: isSchedulableAfterPodDeleted, before: fixture.Pod("b").NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a pending pod is deleted":   {hint: isSchedulableAfterPodDeleted, before: fixture.Pod("b").Obj(), want: fwk.QueueSkip},

		"an assigned pod requests less of a resource that the pod requests": {
			hint: isSchedulableAfterOtherPodScaleDown, before: assignedPod("cpu", "2"), after: assignedPod("cpu", "1"), want: fwk.Queue,
		},
		"an assigned pod requests less of another resource": {
			hint: isSchedulableAfterOtherPodScaleDown, before: assignedPod("memory", "2"), after: assignedPod("memory", "1"), want: fwk.QueueSkip,
		},
		"a nominated pod requests less": {
			hint: isSchedulableAfterOtherPodScaleDown, before: fixture.Pod("b").Requests("cpu", "2").NominatedNodeName("n").Obj(),
			after: fixture.Pod("b").Requests("cpu", "1").NominatedNodeName("n").Obj(), want: fwk.Queue,
		},
		"a pending pod requests less": {
			hint: isSchedulableAfterOtherPodScaleDown, before: fixture.Pod("b").Requests("cpu", "2").Obj(),
			after: fixture.Pod("b").Requests("cpu", "1").Obj(), want: fwk.QueueSkip,
		},
		"the pod itself requests less": {hint: isSchedulableAfterTargetPodScaleDown, before: pod, after: pod, want: fwk.Queue},

		"a new node that is large enough": {hint: (&Fit{}).isSchedulableAfterNodeChange, after: enough, want: fwk.Queue},
		"a new node that is too small":    {hint: (&Fit{}).isSchedulableAfterNodeChange, after: nodeWith("cpu", "1", "example.com/gpu", "1"), want: fwk.QueueSkip},
		"a new node that has too little only of ignored resources": {
			hint:  (&Fit{ignored: ignoredResources{names: sets.New("example.com/gpu")}}).isSchedulableAfterNodeChange,
			after: nodeWith("cpu", "2"), want: fwk.Queue,
		},
		"a node with more of a requested resource": {hint: (&Fit{}).isSchedulableAfterNodeChange, before: nodeWith("cpu", "1", "example.com/gpu", "1"), after: enough, want: fwk.Queue},
		"a node with more GPUs":                    {hint: (&Fit{}).isSchedulableAfterNodeChange, before: nodeWith("cpu", "2"), after: enough, want: fwk.Queue},
		"a node that allows more pods":             {hint: (&Fit{}).isSchedulableAfterNodeChange, before: nodeWith("cpu", "2", "example.com/gpu", "1", "pods", "5"), after: enough, want: fwk.Queue},
		"a node with more of another resource":     {hint: (&Fit{}).isSchedulableAfterNodeChange, before: enough, after: nodeWith("cpu", "2", "example.com/gpu", "1", "memory", "1"), want: fwk.QueueSkip},
		"a node with less":                         {hint: (&Fit{}).isSchedulableAfterNodeChange, before: nodeWith("cpu", "9", "example.com/gpu", "1"), after: enough, want: fwk.QueueSkip},
		"an object of another kind is an error":    {hint: (&Fit{}).isSchedulableAfterNodeChange, after: pod, want: fwk.Queue, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.hint(klog.Background(), pod, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
