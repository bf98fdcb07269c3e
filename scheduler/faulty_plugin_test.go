package scheduler

import (
	"context"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/scheduler/plugins/prioritysort"
	"github.com/berthdev/berth/test/support/fixture"
)

// faultyPlugin is an out-of-tree plugin. For a pod with the label odd it panics or hangs at
// the extension point that the label names: "Filter panics".
type faultyPlugin struct {
	mu sync.Mutex
	// unblocked ends the calls that hang; once closed it is replaced.
	unblocked chan struct{}
	// hangs is how many calls have not returned.
	hangs int
	// Less panics while panicInLess is true, and hangs while hangInLess is.
	panicInLess, hangInLess bool
	handle                  fwk.Handle
	// podCounts are the pods that Filter saw on its node before and after it hung.
	podCounts []int
	// listedPodCounts are the pods on the nodes that a late Filter listed, at once and later.
	listedPodCounts []int
	// once are the pods that want to hang once, and for which it has hung.
	once map[string]bool
	// claims are the pods for which Reserve ran without Unreserve.
	claims map[string]bool
}

func newFaultyPlugin() *faultyPlugin {
	return &faultyPlugin{unblocked: make(chan struct{}), claims: map[string]bool{}, once: map[string]bool{}}
}

// unblock lets all calls that hang return.
func (o *faultyPlugin) unblock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.unblocked)
	o.unblocked = make(chan struct{})
}

// claimed reports whether Reserve holds a claim for a pod.
func (o *faultyPlugin) claimed(pod string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims[pod]
}

// setLessPanics sets whether Less panics.
func (o *faultyPlugin) setLessPanics(less bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.panicInLess = less
}

// setLessHangs sets whether Less hangs.
func (o *faultyPlugin) setLessHangs(less bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hangInLess = less
}

func (o *faultyPlugin) hanging() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hangs
}

// misbehave does what the pod's label says, and reports whether it hung.
func (o *faultyPlugin) misbehave(point string, pod *v1.Pod) bool {
	switch pod.Labels["odd"] {
	case point + " panics":
		panic("odd")
	case point + " ends its goroutine":
		goruntime.Goexit()
	case point + " hangs", point + " hangs once":
		o.mu.Lock()
		if o.once[pod.Name] {
			o.mu.Unlock()
			return false
		}
		o.once[pod.Name] = strings.HasSuffix(pod.Labels["odd"], "once")
		o.hangs++
		opens := o.unblocked
		o.mu.Unlock()
		<-opens
		o.mu.Lock()
		o.hangs--
		o.mu.Unlock()
		return true
	}
	return false
}

func (o *faultyPlugin) Name() string { return "Odd" }

func (o *faultyPlugin) Less(a, b fwk.QueuedEntityInfo) bool {
	o.mu.Lock()
	panics, sticks, opens := o.panicInLess, o.hangInLess, o.unblocked
	o.mu.Unlock()
	if panics {
		panic("odd")
	}
	if sticks {
		<-opens
	}
	return a.GetTimestamp().After(b.GetTimestamp()) // the newest first
}

// EventsToRegister registers for all events, for the pods that the plugin rejected.
func (o *faultyPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
			o.misbehave("QueueingHint", pod)
			return fwk.Queue, nil
		},
	}}, nil
}

func (o *faultyPlugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	o.misbehave("PreEnqueue", pod)
	return nil
}

func (o *faultyPlugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	o.misbehave("PreFilter", pod)
	if strings.HasPrefix(pod.Labels["odd"], "Clone ") {
		state.Write("Odd", stateOfPlugin{func() { o.misbehave("Clone", pod) }})
	}
	return nil, nil
}

func (o *faultyPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (o *faultyPlugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	before := len(node.GetPods())
	if o.misbehave("Filter", pod) {
		o.mu.Lock()
		o.podCounts = append(o.podCounts, before, len(node.GetPods()))
		o.mu.Unlock()
		if _, lists := pod.Labels["lists"]; lists {
			o.listNodes()
		}
	}
	if _, full := pod.Labels["fits nowhere"]; full {
		return fwk.NewStatus(fwk.Unschedulable, "full")
	}
	return nil
}

// listNodes lists nodes through the Handle, and counts their pods now and later.
func (o *faultyPlugin) listNodes() {
	nodes, _ := o.handle.SnapshotSharedLister().NodeInfos().List()
	for range 2 {
		pods := 0
		for _, node := range nodes {
			pods += len(node.GetPods())
		}
		o.mu.Lock()
		o.listedPodCounts = append(o.listedPodCounts, pods)
		o.mu.Unlock()
		time.Sleep(10 * time.Second)
	}
}

func (o *faultyPlugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	o.misbehave("PostFilter", pod)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (o *faultyPlugin) PreScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	o.misbehave("PreScore", pod)
	return nil
}

func (o *faultyPlugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) (int64, *fwk.Status) {
	o.misbehave("Score", pod)
	return 0, nil
}

func (o *faultyPlugin) ScoreExtensions() fwk.ScoreExtensions { return o }

func (o *faultyPlugin) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeScoreList) *fwk.Status {
	o.misbehave("NormalizeScore", pod)
	return nil
}

func (o *faultyPlugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	o.misbehave("Reserve", pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims[pod.Name] = true
	return nil
}

func (o *faultyPlugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.claims, pod.Name)
}

func (o *faultyPlugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	o.misbehave("Permit", pod)
	if _, rejected := pod.Labels["not permitted"]; rejected {
		return fwk.NewStatus(fwk.Unschedulable, "not permitted"), 0
	}
	return nil, 0
}

func (o *faultyPlugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	o.misbehave("PreBindPreFlight", pod)
	return nil, nil
}

func (o *faultyPlugin) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	o.misbehave("PreBind", pod)
	return nil
}

func (o *faultyPlugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	o.misbehave("PostBind", pod)
}

// runWithFaultyPlugin runs a test under a leader with the profile "p", which has the plugin
// at every point but Bind, and "q", which has only a QueueSort and a binder.
func runWithFaultyPlugin(t *testing.T, test func(env *testEnv, o *faultyPlugin)) {
	o := newFaultyPlugin()
	runTestWith(t, faultyRegistry(o), func(env *testEnv) {
		o.unblocked = make(chan struct{}) // of this bubble
		for _, name := range []string{"p", "q"} {
			if err := env.Profiles().Apply(env.ctx, faultyBlueprint(name, "one", false)); err != nil {
				t.Fatal(err)
			}
		}
		end := env.startLeading()
		test(env, o)
		o.unblock()
		synctest.Wait()
		end()
	}, node("n1"), node("n2"))
}

func (o *faultyPlugin) build(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	o.handle = handle
	return o, nil
}

func faultyRegistry(o *faultyPlugin) framework.Registry {
	return framework.Registry{
		"Odd":              {Name: "Odd", New: o.build, Points: framework.PointsOf(o)},
		prioritysort.Name:  {Name: prioritysort.Name, New: prioritysort.New, InTree: true},
		defaultbinder.Name: {Name: defaultbinder.Name, New: defaultbinder.New, InTree: true},
	}
}

// faultyBlueprint returns a profile of that name; with sort, the plugin sorts its pods.
func faultyBlueprint(name, hash string, sort bool) *compile.Blueprint {
	b := &compile.Blueprint{
		Name: name, Generation: 1, Hash: hash, Chains: framework.Chains{
			framework.QueueSort: {{Name: prioritysort.Name}}, framework.Bind: {{Name: defaultbinder.Name}},
		},
		Queue: compile.QueueSettings{InitialBackoff: time.Second, MaxBackoff: 10 * time.Second},
	}
	if name == "q" {
		return b
	}
	for _, point := range framework.PointsOf(newFaultyPlugin()) {
		if point != framework.QueueSort || sort {
			b.Chains[point] = []framework.Entry{{Name: "Odd", Weight: 1}}
		}
	}
	return b
}

// faultyPod returns a pod of p for which the plugin does what does says.
func faultyPod(name, does string) *v1.Pod {
	return fixture.Pod(name).SchedulerName("p").Label("odd", does).Obj()
}
