package scheduler

import (
	"context"
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
	"github.com/berthdev/berth/test/fixture"
)

// odd is a plugin that is not built in. At a pod with the label odd it panics or
// hangs at the point that the label names: "Filter panics".
type odd struct {
	mu sync.Mutex
	// opens ends what hangs; closed ones are replaced.
	opens chan struct{}
	// hangs is how many calls have not come back.
	hangs int
	// less panics while it is true, and hangs while sticks is.
	less, sticks bool
	handle       fwk.Handle
	// looked is what a Filter that hung saw of its node afterwards.
	looked []int
	// asked is what it saw of those that it asked for then, and later.
	asked []int
	// once are the pods at which it hung that wanted it once.
	once map[string]bool
	// claims are the pods that Reserve claimed something for.
	claims map[string]bool
}

func newOdd() *odd {
	return &odd{opens: make(chan struct{}), claims: map[string]bool{}, once: map[string]bool{}}
}

// open lets all that hangs come back.
func (o *odd) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.opens)
	o.opens = make(chan struct{})
}

// claimed says whether Reserve claimed something for a pod.
func (o *odd) claimed(pod string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims[pod]
}

// breaks lets Less panic, or not any more.
func (o *odd) breaks(less bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.less = less
}

// stick lets Less hang, or not any more.
func (o *odd) stick(less bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sticks = less
}

func (o *odd) hanging() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hangs
}

// at does what the pod's label says. It reports whether it hung.
func (o *odd) at(point string, pod *v1.Pod) bool {
	switch pod.Labels["odd"] {
	case point + " panics":
		panic("odd")
	case point + " hangs", point + " hangs once":
		o.mu.Lock()
		if o.once[pod.Name] {
			o.mu.Unlock()
			return false
		}
		o.once[pod.Name] = strings.HasSuffix(pod.Labels["odd"], "once")
		o.hangs++
		opens := o.opens
		o.mu.Unlock()
		<-opens
		o.mu.Lock()
		o.hangs--
		o.mu.Unlock()
		return true
	}
	return false
}

func (o *odd) Name() string { return "Odd" }

func (o *odd) Less(a, b fwk.QueuedEntityInfo) bool {
	o.mu.Lock()
	panics, sticks, opens := o.less, o.sticks, o.opens
	o.mu.Unlock()
	if panics {
		panic("odd")
	}
	if sticks {
		<-opens
	}
	return a.GetTimestamp().After(b.GetTimestamp()) // the newest first
}

// EventsToRegister has o hear of everything, about the pods that it has refused.
func (o *odd) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
			o.at("QueueingHint", pod)
			return fwk.Queue, nil
		},
	}}, nil
}

func (o *odd) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	o.at("PreEnqueue", pod)
	return nil
}

func (o *odd) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	o.at("PreFilter", pod)
	return nil, nil
}

func (o *odd) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (o *odd) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	before := len(node.GetPods())
	if o.at("Filter", pod) {
		o.mu.Lock()
		o.looked = append(o.looked, before, len(node.GetPods()))
		o.mu.Unlock()
		if _, asks := pod.Labels["asks"]; asks {
			o.ask()
		}
	}
	if _, full := pod.Labels["fits nowhere"]; full {
		return fwk.NewStatus(fwk.Unschedulable, "full")
	}
	return nil
}

// ask asks the Handle for nodes, and looks at them now and later.
func (o *odd) ask() {
	nodes, _ := o.handle.SnapshotSharedLister().NodeInfos().List()
	for range 2 {
		pods := 0
		for _, node := range nodes {
			pods += len(node.GetPods())
		}
		o.mu.Lock()
		o.asked = append(o.asked, pods)
		o.mu.Unlock()
		time.Sleep(10 * time.Second)
	}
}

func (o *odd) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	o.at("PostFilter", pod)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (o *odd) PreScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	o.at("PreScore", pod)
	return nil
}

func (o *odd) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) (int64, *fwk.Status) {
	o.at("Score", pod)
	return 0, nil
}

func (o *odd) ScoreExtensions() fwk.ScoreExtensions { return o }

func (o *odd) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeScoreList) *fwk.Status {
	o.at("NormalizeScore", pod)
	return nil
}

func (o *odd) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	o.at("Reserve", pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims[pod.Name] = true
	return nil
}

func (o *odd) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.claims, pod.Name)
}

func (o *odd) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	o.at("Permit", pod)
	return nil, 0
}

func (o *odd) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	o.at("PreBindPreFlight", pod)
	return nil, nil
}

func (o *odd) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	o.at("PreBind", pod)
	return nil
}

func (o *odd) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	o.at("PostBind", pod)
}

// amongOdds runs a test with a profile "p" that has o at every point but Bind,
// and "q" that has only a sort and a binder. The scheduler leads.
func amongOdds(t *testing.T, test func(w *world, o *odd)) {
	o := newOdd()
	inTimeWith(t, oddRegistry(o), func(w *world) {
		o.opens = make(chan struct{}) // of this bubble
		for _, name := range []string{"p", "q"} {
			if err := w.Profiles().Apply(w.ctx, oddBlueprint(name, "one", false)); err != nil {
				t.Fatal(err)
			}
		}
		end := w.lead()
		test(w, o)
		o.open()
		synctest.Wait()
		end()
	}, node("n1"), node("n2"))
}

func (o *odd) build(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	o.handle = handle
	return o, nil
}

func oddRegistry(o *odd) framework.Registry {
	return framework.Registry{
		"Odd":              {Name: "Odd", New: o.build, Points: framework.PointsOf(o)},
		prioritysort.Name:  {Name: prioritysort.Name, New: prioritysort.New, BuiltIn: true},
		defaultbinder.Name: {Name: defaultbinder.Name, New: defaultbinder.New, BuiltIn: true},
	}
}

// oddBlueprint is a profile of that name; with sort, o sorts its pods.
func oddBlueprint(name, hash string, sort bool) *compile.Blueprint {
	b := &compile.Blueprint{
		Name: name, Generation: 1, Hash: hash, Chains: framework.Chains{
			framework.QueueSort: {{Name: prioritysort.Name}}, framework.Bind: {{Name: defaultbinder.Name}},
		},
		Queue: compile.QueueSettings{InitialBackoff: time.Second, MaxBackoff: 10 * time.Second},
	}
	if name == "q" {
		return b
	}
	for _, point := range framework.PointsOf(newOdd()) {
		if point != framework.QueueSort || sort {
			b.Chains[point] = []framework.Entry{{Name: "Odd", Weight: 1}}
		}
	}
	return b
}

// oddly is a pod of p at which the plugin does what does says.
func oddly(name, does string) *v1.Pod {
	return fixture.Pod(name).Scheduler("p").Label("odd", does).Obj()
}
