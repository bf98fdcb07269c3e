package binding

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/test/support/fakecluster"
)

func TestFencePods(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		times int
		want  func(pod *v1.Pod) FenceResult
		calls int
	}{
		"a pod gets another version": {want: fencedOnce, calls: 1},
		"a write is sent again that was not sent since the Lease seemed to be too old": {
			err: fmt.Errorf("patch: %w", leadership.ErrNotLeading), times: 2, want: fencedOnce, calls: 3,
		},
		"a write is sent again while the API server fails": {err: internal, times: 2, want: fencedOnce, calls: 3},
		"a pod is not fenced when the API server fails for ten seconds": {
			err: internal, times: maxStatusTries + 1, want: unfenced, calls: maxStatusTries + 1,
		},
		"a pod is not fenced when the write is rejected": {err: apierrors.NewBadRequest("no"), times: 1, want: unfenced, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				if c.err != nil {
					env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: c.err, Times: c.times})
				}
				got := env.FencePods(env.ctx, []*v1.Pod{env.pod}, 3)
				if diff := cmp.Diff(c.want(env.pod), got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if calls := env.cluster.TakeCalls(); len(calls) != c.calls {
					t.Errorf("%d requests, want %d: %q", len(calls), c.calls, calls)
				}
			})
		})
	}
}

func fencedOnce(*v1.Pod) FenceResult { return FenceResult{Fenced: 1} }

func unfenced(pod *v1.Pod) FenceResult { return FenceResult{Unfenced: []types.UID{pod.UID}} }
