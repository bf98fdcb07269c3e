package course

import (
	"context"
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

// The stagehands are a profile beside that of the scenario. One of its pods is
// the bell: it waits for ever and hears of all that happens, so that a scenario
// can tell when the queue has dealt with an event. The others stop the loop.
var stagehands = &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "stagehands"}}

const (
	stagehand = "Stagehand"
	bellPod   = "bell"
	// rung is the annotation by which the bell knows what it hears.
	rung = "course.berth.dev/rung"
)

// hireStagehands creates their profile, and the bell.
func hireStagehands(ctx context.Context) {
	GinkgoHelper()
	at(preEnqueues, stagehand)(&stagehands.Spec)
	at(preFilters, stagehand)(&stagehands.Spec)
	stagehands.Spec.Queue.FlushAfterSeconds = new(int32(0))
	Expect(admin.Create(ctx, stagehands)).To(Succeed())
	expectReady(ctx, stagehands)
	Expect(admin.Create(ctx, pod(bellPod).SchedulerName(stagehands.Name).Valid())).To(Succeed())
	Eventually(waiting(stagehands)).Should(Equal(decision.QueueCounts{Gated: 1}))
}

type stagehandPlugin struct{}

var (
	_ fwk.PreEnqueuePlugin  = stagehandPlugin{}
	_ fwk.PreFilterPlugin   = stagehandPlugin{}
	_ fwk.EnqueueExtensions = stagehandPlugin{}
)

func newStagehand(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return stagehandPlugin{}, nil
}

func (stagehandPlugin) Name() string { return stagehand }

// PreEnqueue lets the bell wait.
func (stagehandPlugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Name == bellPod {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "a bell")
	}
	return nil
}

// EventsToRegister are those of ring.
func (stagehandPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}, QueueingHintFn: hear},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: hear},
	}, nil
}

// PreFilter stops the loop until the scenario lets it go.
func (stagehandPlugin) PreFilter(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	select {
	case <-loop.going():
	case <-ctx.Done():
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "a stagehand")
}

func (stagehandPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// brake stops the loop.
type brake struct {
	mu sync.Mutex
	on chan struct{}
}

var loop = &brake{}

// going is closed while the loop may go.
func (b *brake) going() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on == nil {
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	return b.on
}

// stopLoop returns when the loop stands still, with what lets it go again.
// There must be a node.
func stopLoop(ctx context.Context) (release func()) {
	GinkgoHelper()
	on := make(chan struct{})
	loop.mu.Lock()
	loop.on = on
	loop.mu.Unlock()
	release = sync.OnceFunc(func() {
		loop.mu.Lock()
		defer loop.mu.Unlock()
		loop.on = nil
		close(on)
	})
	DeferCleanup(release)
	aPod(ctx, stagehands, fixture.Pod(scene+"/stagehand"))
	Eventually(waiting(stagehands)).Should(HaveField("InFlight", 1))
	return release
}

// heard is what the bell has heard.
var heard sync.Map

func hear(_ klog.Logger, _ *v1.Pod, _, object any) (fwk.QueueingHint, error) {
	if o, ok := object.(metav1.Object); ok {
		heard.Store(o.GetAnnotations()[rung], true)
	}
	return fwk.QueueSkip, nil
}

// ring returns when the queue has dealt with all that happened to nodes and to
// pods up to now. Informers tell of one kind in order, and the queue deals with
// one event after the other: what stands behind is told last.
func ring(ctx context.Context) {
	GinkgoHelper()
	token := time.Now().Format(time.RFC3339Nano)
	bell := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: scene, Name: bellPod}}
	tokens := []string{token + "/pod"}
	apitest.Change(ctx, admin, bell, func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, rung, tokens[0]) })
	var nodes v1.NodeList
	Expect(admin.List(ctx, &nodes)).To(Succeed())
	if len(nodes.Items) > 0 {
		tokens = append(tokens, token+"/node")
		apitest.Change(ctx, admin, &nodes.Items[0], func(node *v1.Node) { metav1.SetMetaDataAnnotation(&node.ObjectMeta, rung, tokens[1]) })
	}
	for _, token := range tokens {
		Eventually(func() bool { _, told := heard.Load(token); return told }).Should(BeTrue(), token)
	}
}
