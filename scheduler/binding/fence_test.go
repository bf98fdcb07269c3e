package binding

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"

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
			err: internal, times: maxFenceTries + 1, want: unfenced, calls: maxFenceTries + 1,
		},
		"a pod is not fenced that changes each time before it is written": {
			err: apierrors.NewConflict(v1.Resource("pods"), "web", errors.New("changed")), times: 100, want: unfenced, calls: 2 * (maxFenceTries + 1),
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

// lostRequests is a client whose requests for a verb get no answer, the first times.
type lostRequests struct {
	kubernetes.Interface
	typedcorev1.CoreV1Interface
	typedcorev1.PodInterface
	verb string
	lost int
}

func (l *lostRequests) CoreV1() typedcorev1.CoreV1Interface {
	l.CoreV1Interface = l.Interface.CoreV1()
	return l
}

func (l *lostRequests) Pods(namespace string) typedcorev1.PodInterface {
	l.PodInterface = l.CoreV1Interface.Pods(namespace)
	return l
}

func (l *lostRequests) RESTClient() restclient.Interface { return l.CoreV1Interface.RESTClient() }

// lose returns the error of a request that is lost, after its context has ended; nil for one that
// is not.
func (l *lostRequests) lose(ctx context.Context, verb string) error {
	if verb != l.verb || l.lost == 0 {
		return nil
	}
	l.lost--
	<-ctx.Done()
	return ctx.Err()
}

func (l *lostRequests) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*v1.Pod, error) {
	if err := l.lose(ctx, "patch"); err != nil {
		return nil, err
	}
	return l.PodInterface.Patch(ctx, name, kind, data, o, subresources...)
}

func (l *lostRequests) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Pod, error) {
	if err := l.lose(ctx, "get"); err != nil {
		return nil, err
	}
	return l.PodInterface.Get(ctx, name, o)
}

func TestARequestThatIsLostDelaysAFenceOnly(t *testing.T) {
	for name, c := range map[string]struct {
		verb    string
		changed bool
	}{
		"the write": {verb: "patch"},
		"the read after a conflict, which is sent again after another conflict": {verb: "get", changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				if c.changed {
					env.cluster.UpdatePod(env.pod, func(pod *v1.Pod) { pod.Labels = map[string]string{"is": "new"} })
				}
				env.options.Client = &lostRequests{Interface: env.cluster, verb: c.verb, lost: 1}
				env.status.options.Client = env.options.Client
				ctx, cancel := context.WithTimeout(env.ctx, time.Hour)
				defer cancel()
				begun := time.Now()
				if diff := cmp.Diff(fencedOnce(env.pod), env.FencePods(ctx, []*v1.Pod{env.pod}, 3)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if took := time.Since(begun); took > time.Minute {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// undoingWebhook is a client whose API server accepts patches that change nothing.
type undoingWebhook struct {
	lostRequests
	patches int
}

func (u *undoingWebhook) CoreV1() typedcorev1.CoreV1Interface {
	u.lostRequests.CoreV1()
	return u
}

func (u *undoingWebhook) Pods(namespace string) typedcorev1.PodInterface {
	u.lostRequests.Pods(namespace)
	return u
}

func (u *undoingWebhook) Patch(ctx context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*v1.Pod, error) {
	u.patches++
	return u.PodInterface.Get(ctx, name, metav1.GetOptions{})
}

func TestAWebhookThatUndoesAFenceDelaysIt(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		client := &undoingWebhook{lostRequests: lostRequests{Interface: env.cluster}}
		env.options.Client, env.status.options.Client = client, client
		ctx, cancel := context.WithTimeout(env.ctx, time.Minute)
		defer cancel()
		if diff := cmp.Diff(unfenced(env.pod), env.FencePods(ctx, []*v1.Pod{env.pod}, 3)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if client.patches != maxFenceTries+1 {
			t.Errorf("%d patches, want %d", client.patches, maxFenceTries+1)
		}
	})
}

func fencedOnce(*v1.Pod) FenceResult { return FenceResult{Fenced: 1} }

func unfenced(pod *v1.Pod) FenceResult { return FenceResult{Unfenced: []types.UID{pod.UID}} }
