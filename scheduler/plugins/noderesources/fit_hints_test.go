package noderesources

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

func TestFitHints(t *testing.T) {
	pod := fixture.Pod("a").Requests("cpu", "2", "example.com/gpu", "1").Obj()
	offers := func(pairs ...string) *v1.Node { return fixture.Node("n").Capacity(pairs...).Obj() }
	running := func(pairs ...string) *v1.Pod { return fixture.Pod("b").Requests(pairs...).On("n").Obj() }
	enough := offers("cpu", "2", "example.com/gpu", "1")
	for sentence, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a running pod that goes leaves room":  {hint: isSchedulableAfterPodDeleted, before: running(), want: fwk.Queue},
		"a pod with a promised node leaves it": {hint: isSchedulableAfterPodDeleted, before: fixture.Pod("b").NominatedNodeName("n").Obj(), want: fwk.Queue},
		"a waiting pod that goes leaves none":  {hint: isSchedulableAfterPodDeleted, before: fixture.Pod("b").Obj(), want: fwk.QueueSkip},

		"a running pod that wants less of what the pod wants": {
			hint: isSchedulableAfterOtherPodScaleDown, before: running("cpu", "2"), after: running("cpu", "1"), want: fwk.Queue,
		},
		"a running pod that wants less of something else": {
			hint: isSchedulableAfterOtherPodScaleDown, before: running("memory", "2"), after: running("memory", "1"), want: fwk.QueueSkip,
		},
		"a pod with a promised node that wants less": {
			hint: isSchedulableAfterOtherPodScaleDown, before: fixture.Pod("b").Requests("cpu", "2").NominatedNodeName("n").Obj(),
			after: fixture.Pod("b").Requests("cpu", "1").NominatedNodeName("n").Obj(), want: fwk.Queue,
		},
		"a waiting pod that wants less": {
			hint: isSchedulableAfterOtherPodScaleDown, before: fixture.Pod("b").Requests("cpu", "2").Obj(),
			after: fixture.Pod("b").Requests("cpu", "1").Obj(), want: fwk.QueueSkip,
		},
		"the pod itself wants less": {hint: isSchedulableAfterTargetPodScaleDown, before: pod, after: pod, want: fwk.Queue},

		"a new node that is large enough": {hint: (&Fit{}).isSchedulableAfterNodeChange, after: enough, want: fwk.Queue},
		"a new node that is too small":    {hint: (&Fit{}).isSchedulableAfterNodeChange, after: offers("cpu", "1", "example.com/gpu", "1"), want: fwk.QueueSkip},
		"a new node that lacks only what is ignored": {
			hint:  (&Fit{ignored: ignoredResources{names: sets.New("example.com/gpu")}}).isSchedulableAfterNodeChange,
			after: offers("cpu", "2"), want: fwk.Queue,
		},
		"a node that grows where it matters":        {hint: (&Fit{}).isSchedulableAfterNodeChange, before: offers("cpu", "1", "example.com/gpu", "1"), after: enough, want: fwk.Queue},
		"a node that grows in GPUs":                 {hint: (&Fit{}).isSchedulableAfterNodeChange, before: offers("cpu", "2"), after: enough, want: fwk.Queue},
		"a node that takes more pods":               {hint: (&Fit{}).isSchedulableAfterNodeChange, before: offers("cpu", "2", "example.com/gpu", "1", "pods", "5"), after: enough, want: fwk.Queue},
		"a node that grows where it does not":       {hint: (&Fit{}).isSchedulableAfterNodeChange, before: enough, after: offers("cpu", "2", "example.com/gpu", "1", "memory", "1"), want: fwk.QueueSkip},
		"a node that shrinks":                       {hint: (&Fit{}).isSchedulableAfterNodeChange, before: offers("cpu", "9", "example.com/gpu", "1"), after: enough, want: fwk.QueueSkip},
		"an event about something else is an error": {hint: (&Fit{}).isSchedulableAfterNodeChange, after: pod, want: fwk.Queue, wantErr: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := c.hint(klog.Background(), pod, c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
