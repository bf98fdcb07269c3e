package course

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// The sentinel profile runs beside that of the spec. One of its pods, the sentinel, is
// always gated, and its plugin gets all events, so that a spec can wait until the queue has
// handled an event. Its other pods block the scheduling loop.
var sentinelProfile = &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "sentinel"}}

const (
	sentinel    = "Sentinel"
	sentinelPod = "sentinel"
	// markerAnnotation is the annotation by which the plugin recognizes an event.
	markerAnnotation = "course.berth.dev/marker"
)

// createSentinel creates the profile and the sentinel pod.
func createSentinel(ctx context.Context) {
	GinkgoHelper()
	enableAt(preEnqueueSet, sentinel)(&sentinelProfile.Spec)
	enableAt(preFilterSet, sentinel)(&sentinelProfile.Spec)
	sentinelProfile.Spec.Queue.FlushAfterSeconds = new(int32(0))
	Expect(admin.Create(ctx, sentinelProfile)).To(Succeed())
	expectReady(ctx, sentinelProfile)
	Expect(admin.Create(ctx, pod(sentinelPod).SchedulerName(sentinelProfile.Name).Valid())).To(Succeed())
	Eventually(queueCounts(sentinelProfile)).Should(Equal(decision.QueueCounts{Gated: 1}))
}

type sentinelPlugin struct{}

var (
	_ fwk.PreEnqueuePlugin  = sentinelPlugin{}
	_ fwk.PreFilterPlugin   = sentinelPlugin{}
	_ fwk.EnqueueExtensions = sentinelPlugin{}
)

func newSentinel(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return sentinelPlugin{}, nil
}

func (sentinelPlugin) Name() string { return sentinel }

// PreEnqueue rejects the sentinel pod.
func (sentinelPlugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Name == sentinelPod {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the sentinel is always gated")
	}
	return nil
}

// EventsToRegister returns the events that waitForQueue causes.
func (sentinelPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}, QueueingHintFn: recordMarker},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: recordMarker},
	}, nil
}

// PreFilter blocks the scheduling loop until the spec releases it.
func (sentinelPlugin) PreFilter(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	select {
	case <-loop.released():
	case <-ctx.Done():
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod only blocks the loop")
}

func (sentinelPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// loopBlocker blocks the scheduling loop.
type loopBlocker struct {
	mu      sync.Mutex
	blocked chan struct{}
}

var loop = &loopBlocker{}

// released is closed while the loop is not blocked.
func (b *loopBlocker) released() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocked == nil {
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	return b.blocked
}

// stopLoop returns when the scheduling loop is blocked, with a function that releases it.
// It needs a node.
func stopLoop(ctx context.Context) (release func()) {
	GinkgoHelper()
	on := make(chan struct{})
	loop.mu.Lock()
	loop.blocked = on
	loop.mu.Unlock()
	release = sync.OnceFunc(func() {
		loop.mu.Lock()
		defer loop.mu.Unlock()
		loop.blocked = nil
		close(on)
	})
	DeferCleanup(release)
	createPod(ctx, sentinelProfile, fixture.Pod(namespace+"/loop-blocker"))
	Eventually(queueCounts(sentinelProfile)).Should(HaveField("InFlight", 1))
	return release
}

// seenMarkers are the values of the annotation that the plugin has seen.
var seenMarkers sync.Map

func recordMarker(_ klog.Logger, _ *v1.Pod, _, object any) (fwk.QueueingHint, error) {
	if o, ok := object.(metav1.Object); ok {
		seenMarkers.Store(o.GetAnnotations()[markerAnnotation], true)
	}
	return fwk.QueueSkip, nil
}

// waitForQueue returns when the queue has handled all earlier events of nodes and pods. It
// writes an annotation to the sentinel pod and to a node and waits until the plugin sees
// it: an informer delivers the events of a kind in order, and the queue handles one after
// the other.
func waitForQueue(ctx context.Context) {
	GinkgoHelper()
	token := time.Now().Format(time.RFC3339Nano)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sentinelPod}}
	tokens := []string{token + "/pod"}
	apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, markerAnnotation, tokens[0]) })
	var nodes v1.NodeList
	Expect(admin.List(ctx, &nodes)).To(Succeed())
	if len(nodes.Items) > 0 {
		tokens = append(tokens, token+"/node")
		apitest.Change(ctx, admin, &nodes.Items[0], func(node *v1.Node) { metav1.SetMetaDataAnnotation(&node.ObjectMeta, markerAnnotation, tokens[1]) })
	}
	for _, token := range tokens {
		Eventually(func() bool { _, seen := seenMarkers.Load(token); return seen }).Should(BeTrue(), token)
	}
}

// writeGate passes all writes of the scheduler to pods. A spec may block some.
var writeGate = &requestGate{}

type requestGate struct {
	mu            sync.Mutex
	blockedWrites map[string]chan struct{}
	// requests are the blocked requests, as "VERB pod", and waiting is how many of them
	// wait.
	requests []string
	waiting  int
}

// block blocks writes such as "DELETE web", and returns a function that releases them. The
// pod's name may be a prefix.
func (d *requestGate) block(write string) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blockedWrites == nil {
		d.blockedWrites = map[string]chan struct{}{}
	}
	opened := make(chan struct{})
	d.blockedWrites[write] = opened
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.blockedWrites[write] == opened {
			delete(d.blockedWrites, write)
		}
		close(opened)
	})
}

// reset forgets the requests, and what is blocked: a spec that failed has not released it.
func (d *requestGate) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.blockedWrites)
	d.requests = nil
}

// blocked returns the requests that wait now, each once.
func (d *requestGate) blocked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == 0 {
		return nil
	}
	all := slices.Clone(d.requests)
	slices.Sort(all)
	return slices.Compact(all)
}

func (d *requestGate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		if err := d.wait(r); err != nil {
			return nil, err
		}
		return next.RoundTrip(r)
	})
}

// wait waits while the request is blocked.
func (d *requestGate) wait(r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// api/v1/namespaces/NAMESPACE/pods/POD
	if len(parts) != 6 || parts[4] != "pods" || r.Method == http.MethodGet {
		return nil
	}
	knock := r.Method + " " + parts[5]
	d.mu.Lock()
	var opened chan struct{}
	for write, gate := range d.blockedWrites {
		if strings.HasPrefix(knock, write) {
			opened = gate
		}
	}
	if opened == nil {
		d.mu.Unlock()
		return nil
	}
	d.requests, d.waiting = append(d.requests, knock), d.waiting+1
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting--
	}()
	select {
	case <-opened:
		return nil
	case <-r.Context().Done():
		return fmt.Errorf("while the write was blocked: %w", r.Context().Err())
	}
}

// roundTripperFunc is a function as a RoundTripper.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
