package integration

import (
	"context"
	"sync"

	"github.com/berthdev/berth/test/support/apitest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// witness keeps every version of a yard's pods that the API server showed, in
// order: what a look now and then would miss.
type witness struct {
	mu   sync.Mutex
	seen map[types.UID][]v1.Pod
}

// watching begins to keep versions; it ends with the spec.
func watching(ctx context.Context, y yard) *witness {
	GinkgoHelper()
	w := &witness{seen: map[types.UID][]v1.Pod{}}
	pods, err := cp.Client().CoreV1().Pods(y.name).Watch(context.WithoutCancel(ctx), metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range pods.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok {
				w.mu.Lock()
				w.seen[pod.UID] = append(w.seen[pod.UID], *pod)
				w.mu.Unlock()
			}
		}
	}()
	DeferCleanup(func() {
		pods.Stop()
		<-done
	})
	return w
}

// versions are those of one pod so far.
func (w *witness) versions(pod *v1.Pod) func() []v1.Pod {
	return func() []v1.Pod {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.seen[pod.UID][:len(w.seen[pod.UID]):len(w.seen[pod.UID])]
	}
}

// standings are the conditions that a pod has had so far, each once in a row.
func (w *witness) standings(pod *v1.Pod) func() []string {
	return func() []string {
		var out []string
		for _, version := range w.versions(pod)() {
			if now := apitest.Scheduled(&version); now != "" && (len(out) == 0 || out[len(out)-1] != now) {
				out = append(out, now)
			}
		}
		return out
	}
}

// nodes are those that a pod has been on so far.
func (w *witness) nodes(pod *v1.Pod) sets.Set[string] {
	nodes := sets.New[string]()
	for _, version := range w.versions(pod)() {
		nodes.Insert(version.Spec.NodeName)
	}
	return nodes.Delete("")
}
