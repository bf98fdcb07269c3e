package binding

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/probe"
)

// A Binding that nobody has seen arrive may still do so: before its pod goes
// elsewhere, the pod gets another version, by which that Binding fails.
func TestALostBindingCannotTakeEffectLater(t *testing.T) {
	lost := fakecluster.Fault{Verb: "bind", Err: internal, Times: maxRebinds + 1}
	for sentence, c := range map[string]struct {
		closing fakecluster.Fault // what goes wrong with the write that closes
		meet    func(w *testEnv)  // and what that write meets
		patches int
		err     error
		after   string
	}{
		"the pod is marked": {patches: 1, err: internal},
		"a mark that fails is made again": {
			closing: fakecluster.Fault{Err: internal, Times: 3}, patches: 4, err: internal,
		},
		"a mark whose answer is lost is found out": {
			closing: fakecluster.Fault{Err: internal, Committed: true}, patches: 1, err: internal,
		},
		"the Binding arrives before the mark, and the pod is bound": {
			meet:    func(w *testEnv) { w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Spec.NodeName = "n1" }) },
			patches: 1, after: "n1",
		},
		"somebody else binds the pod before the mark": {
			meet:    func(w *testEnv) { w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Spec.NodeName = "n2" }) },
			patches: 1, err: ErrGone, after: "n2",
		},
		"the pod goes before the mark": {
			meet: func(w *testEnv) { w.cluster.DeletePod(w.pod) }, patches: 1, err: ErrGone,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				w.b.Statuses = w.a.Statuses
				version := w.cluster.Pod(w.pod).ResourceVersion
				c.closing.Verb = "patch"
				if c.meet != nil {
					c.closing.Before = func() { c.meet(w) }
				}
				w.cluster.Inject(lost, c.closing)
				_, err := w.bindPod()
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				patches := strings.Count(strings.Join(w.cluster.TakeCalls(), "\n"), "patch")
				if patches != c.patches {
					t.Errorf("%d patches, want %d", patches, c.patches)
				}
				if w.assumed() != (c.err == nil) {
					t.Errorf("assumed: %v", w.assumed())
				}
				w.sendLateBinding(version, c.after)
			})
		})
	}
}

// arrivesLate lets the Binding that was given up arrive, and looks where the
// pod is then.
func (w *testEnv) sendLateBinding(version, want string) {
	w.t.Helper()
	err := w.cluster.CoreV1().Pods(w.pod.Namespace).Bind(w.ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: w.pod.Name, UID: w.pod.UID, ResourceVersion: version},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		w.t.Errorf("the late Binding was answered with %v, want a conflict", err)
	}
	var node string
	if pod := w.cluster.Pod(w.pod); pod != nil {
		node = pod.Spec.NodeName
	}
	if node != want {
		w.t.Errorf("the pod is on %q, want %q", node, want)
	}
}
