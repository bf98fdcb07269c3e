package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/operator"
)

// Plugins whose factories are slow or fail.
const (
	unbuildable = "Unbuildable" // its factory fails
	slowBuild   = "SlowBuild"   // its factory waits for slowBuildGate
)

// testPlugins are the plugins of these specs. All read of pods what in-tree plugins read,
// so that informers keep the same fields as in a shipped manager.
func testPlugins() []framework.Registration {
	return []framework.Registration{
		plugins.Register(unbuildable, newUnbuildable, (*postBindPlugin)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(slowBuild, newSlowBuild, (*postBindPlugin)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(crasher, newCrasher, (*postBindPlugin)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(blocker, newBlocker, (*blockerPlugin)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(stepKiller, newStepKiller, &stepKillerPlugin{}, nil, plugins.ReadsTrimmedPods()),
		plugins.Register(faulty, newFaulty, faultyPlugin{}, nil, plugins.ReadsTrimmedPods()),
	}
}

// postBindPlugin does nothing in PostBind.
type postBindPlugin struct{ name string }

func (a *postBindPlugin) Name() string { return a.name }

func (*postBindPlugin) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) {}

func newUnbuildable(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return nil, errors.New("the licence has run out")
}

func newSlowBuild(ctx context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	return &postBindPlugin{slowBuild}, slowBuildGate.wait(ctx)
}

// slowBuildGate blocks the factory of SlowBuild while it is shut. It is open at first.
var slowBuildGate = &gate{}

type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil while open
	// waiters is the number of calls that wait.
	waiters int
}

// shutGate shuts the gate and returns a function that opens it.
func (t *gate) shutGate() (open func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	shut := make(chan struct{})
	t.shut = shut
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.shut = nil
		close(shut)
	})
}

func (t *gate) isOpen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shut == nil
}

// waiting returns the number of calls that wait.
func (t *gate) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiters
}

func (t *gate) wait(ctx context.Context) error {
	t.mu.Lock()
	shut := t.shut
	t.waiters++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiters--
	}()
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// faulty is a plugin whose Filter rejects, fails, panics or hangs, as the label faulty of
// the pod says.
const faulty = "Faulty"

type faultyPlugin struct{}

var _ fwk.FilterPlugin = faultyPlugin{}

func newFaulty(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return faultyPlugin{}, nil
}

func (faultyPlugin) Name() string { return faulty }

func (faultyPlugin) Filter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	switch pod.Labels["faulty"] {
	case "refuses":
		return fwk.NewStatus(fwk.Unschedulable, "the label says refuses")
	case "panics":
		panic("no entry for " + pod.Name)
	case "errs":
		return fwk.NewStatus(fwk.Error, "the inventory does not answer")
	case "hangs":
		<-ctx.Done()
	}
	return nil
}

func enableFaulty(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{Filter: enablePlugin(faulty)}
}

// crasher is a plugin that crashes the process a moment after it was built, from its own
// goroutine. In the suite's own process it does nothing.
const crasher = "Crasher"

func newCrasher(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	if operator.IsManager() {
		time.AfterFunc(100*time.Millisecond, func() { panic(fmt.Sprint(crasher, " crashes")) })
	}
	return &postBindPlugin{crasher}, nil
}

// blocker is a plugin that blocks pods at the points where a profile enables it.
const blocker = "Blocker"

// gates block all pods at a point while they are shut: PreFilter blocks the scheduling
// loop, PreEnqueue the caller that adds a pod with the label slow, Permit and PreBind the
// pod only. They are open at first.
var gates struct{ preEnqueue, preFilter, permit, preBind gate }

type blockerPlugin struct{ handle fwk.Handle }

var (
	_ fwk.PreEnqueuePlugin = (*blockerPlugin)(nil)
	_ fwk.PreFilterPlugin  = (*blockerPlugin)(nil)
	_ fwk.PermitPlugin     = (*blockerPlugin)(nil)
	_ fwk.PreBindPlugin    = (*blockerPlugin)(nil)
)

func newBlocker(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &blockerPlugin{handle}, nil
}

// onTrial reports whether the plugin was built for a trial, which it must not block.
func (s *blockerPlugin) onTrial() bool { return s.handle.(framework.TrialHandle).OnTrial() }

func (*blockerPlugin) Name() string { return blocker }

func (s *blockerPlugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Labels["slow"] == "" || s.onTrial() {
		return nil
	}
	return fwk.AsStatus(gates.preEnqueue.wait(ctx))
}

func (s *blockerPlugin) PreFilter(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if s.onTrial() {
		return nil, nil
	}
	return nil, fwk.AsStatus(gates.preFilter.wait(ctx))
}

func (*blockerPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (s *blockerPlugin) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if gates.permit.isOpen() {
		return nil, 0
	}
	go func() {
		if gates.permit.wait(ctx) == nil {
			if waiting := s.handle.GetWaitingPod(pod.UID); waiting != nil {
				waiting.Allow(blocker)
			}
		}
	}()
	return fwk.NewStatus(fwk.Wait), time.Minute
}

func (*blockerPlugin) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if gates.preBind.isOpen() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (*blockerPlugin) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	return fwk.AsStatus(gates.preBind.wait(ctx))
}

// blockAt enables the plugin at one point.
func blockAt(point func(*v1alpha1.Plugins) *v1alpha1.PluginSet) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		if s.Plugins == nil {
			s.Plugins = &v1alpha1.Plugins{}
		}
		set := point(s.Plugins)
		set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: blocker})
	}
}

func preEnqueueSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreEnqueue }

func preFilterSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreFilter }
func permitSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet    { return &p.Permit }
func preBindSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet   { return &p.PreBind }
