package binding

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/test/support/fixture"
)

// The informer delivers our own writes late: until then its version of the pod must
// not decide what there is to write.
func TestAStatusIsWrittenAgainWhenTheInformerLagsBehind(t *testing.T) {
	tests := map[string]struct {
		version string // of the pod that the second writer knows; the first write makes it 8
		want    []string
	}{
		"a version from before the first write does not count": {version: "7", want: []string{"Unschedulable", "ProfilePaused"}},
		"a newer version with the condition needs no write":    {version: "9", want: []string{"Unschedulable"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var written []string
			client := fake.NewClientset()
			client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				var pod v1.Pod
				if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &pod); err != nil {
					return true, nil, err
				}
				written = append(written, pod.Status.Conditions[0].Reason)
				pod.ResourceVersion = strconv.Itoa(7 + len(written))
				return true, &pod, nil
			})
			b := New(Options{
				Client: client, Cache: cache.New(), Clock: clock.NewFakeClock(fixture.Pod("p").Obj().CreationTimestamp.Time),
				Go: func(work func()) { work() },
			})
			paused := fixture.Pod("shop/web").Mutate(func(pod *v1.Pod) {
				pod.ResourceVersion = "7"
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "ProfilePaused"}}
			})
			b.SetNotScheduled(paused.Obj(), v1.PodReasonUnschedulable, "0/0 nodes are available", nil)
			b.SetNotScheduled(paused.Mutate(func(pod *v1.Pod) { pod.ResourceVersion = tc.version }).Obj(), "ProfilePaused", "", nil)
			if diff := cmp.Diff(tc.want, written); diff != "" {
				t.Errorf("reasons written (-want,+got):\n%s", diff)
			}
		})
	}
}
