package course

import (
	"context"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/probe"
)

// callLog has the calls of the test plugins since the spec began.
var callLog = &probe.CallLog{}

// A and B are probes at every point whose statuses a spec sets. A prefers n1, and B has a
// short timeout at Permit.
var (
	probeA = &probe.Plugin{PluginName: "A", Log: callLog, Scores: map[string]int64{"n1": 100}, PermitTimeout: time.Minute}
	probeB = &probe.Plugin{PluginName: "B", Log: callLog, PermitTimeout: 100 * time.Millisecond}
)

// The functions of these plugins are set by each spec.
var first, second = &funcPlugin{name: "First"}, &funcPlugin{name: "Second"}

// testPlugins are the plugins of this suite. All read of pods what in-tree plugins read, so
// that informers keep the same fields as in a shipped manager.
func testPlugins() []framework.Registration {
	probes := probe.Registry(probeA, probeB)
	all := []framework.Registration{
		probes["A"], probes["B"],
		plugins.Register(first.name, first.new, (*funcPluginInstance)(nil), nil),
		plugins.Register(second.name, second.new, (*funcPluginInstance)(nil), nil),
		plugins.Register(sortByTime.name, sortByTime.new, sortByTime, nil),
		plugins.Register(sortByName.name, sortByName.new, sortByName, nil),
		plugins.Register(sentinel, newSentinel, sentinelPlugin{}, nil),
	}
	for i := range all {
		all[i].ReadsTrimmedPods = true
	}
	return all
}

// pluginFuncs are called at the extension points; a nil function returns Success, and nil
// bind returns Skip.
type pluginFuncs struct {
	preEnqueue        func(pod *v1.Pod) *fwk.Status
	preFilter         func(pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status)
	addPod, removePod func()
	filter            func(pod *v1.Pod) *fwk.Status
	reserve           func(pod *v1.Pod) *fwk.Status
	unreserve         func(pod *v1.Pod)
	permit            func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration)
	preBind           func(ctx context.Context, pod *v1.Pod) *fwk.Status
	bind              func(ctx context.Context, h fwk.Handle, pod *v1.Pod, node string) *fwk.Status
	postBind          func(ctx context.Context, h fwk.Handle, pod *v1.Pod)
	events            []fwk.ClusterEventWithHint
}

// funcPlugin is a plugin whose functions are set before its profile is created.
type funcPlugin struct {
	name  string
	funcs atomic.Pointer[pluginFuncs]
}

func (a *funcPlugin) setFuncs(r pluginFuncs) { a.funcs.Store(&r) }

func (a *funcPlugin) new(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &funcPluginInstance{funcPlugin: a, handle: handle}, nil
}

// funcPluginInstance is a funcPlugin in one generation.
type funcPluginInstance struct {
	*funcPlugin
	handle fwk.Handle
}

var (
	_ fwk.PreEnqueuePlugin    = (*funcPluginInstance)(nil)
	_ fwk.PreFilterPlugin     = (*funcPluginInstance)(nil)
	_ fwk.PreFilterExtensions = (*funcPluginInstance)(nil)
	_ fwk.FilterPlugin        = (*funcPluginInstance)(nil)
	_ fwk.ReservePlugin       = (*funcPluginInstance)(nil)
	_ fwk.PermitPlugin        = (*funcPluginInstance)(nil)
	_ fwk.PreBindPlugin       = (*funcPluginInstance)(nil)
	_ fwk.BindPlugin          = (*funcPluginInstance)(nil)
	_ fwk.PostBindPlugin      = (*funcPluginInstance)(nil)
	_ fwk.EnqueueExtensions   = (*funcPluginInstance)(nil)
)

func (s *funcPluginInstance) Name() string { return s.name }

func (s *funcPluginInstance) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return s.funcs.Load().events, nil
}

func (s *funcPluginInstance) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if r := s.funcs.Load(); r.preEnqueue != nil {
		return r.preEnqueue(pod)
	}
	return nil
}

func (s *funcPluginInstance) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if r := s.funcs.Load(); r.preFilter != nil {
		return r.preFilter(pod)
	}
	return nil, nil
}

func (s *funcPluginInstance) PreFilterExtensions() fwk.PreFilterExtensions { return s }

func (s *funcPluginInstance) AddPod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	if r := s.funcs.Load(); r.addPod != nil {
		r.addPod()
	}
	return nil
}

func (s *funcPluginInstance) RemovePod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	if r := s.funcs.Load(); r.removePod != nil {
		r.removePod()
	}
	return nil
}

func (s *funcPluginInstance) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if r := s.funcs.Load(); r.filter != nil {
		return r.filter(pod)
	}
	return nil
}

func (s *funcPluginInstance) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if r := s.funcs.Load(); r.reserve != nil {
		return r.reserve(pod)
	}
	return nil
}

func (s *funcPluginInstance) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if r := s.funcs.Load(); r.unreserve != nil {
		r.unreserve(pod)
	}
}

func (s *funcPluginInstance) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if r := s.funcs.Load(); r.permit != nil {
		return r.permit(ctx, s.handle, pod)
	}
	return nil, 0
}

func (s *funcPluginInstance) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if s.funcs.Load().preBind == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (s *funcPluginInstance) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	return s.funcs.Load().preBind(ctx, pod)
}

func (s *funcPluginInstance) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if r := s.funcs.Load(); r.bind != nil {
		return r.bind(ctx, s.handle, pod, node)
	}
	return fwk.NewStatus(fwk.Skip)
}

func (s *funcPluginInstance) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if r := s.funcs.Load(); r.postBind != nil {
		r.postBind(ctx, s.handle, pod)
	}
}

// pluginSetOf returns the plugin set of an extension point.
type pluginSetOf func(*v1alpha1.Plugins) *v1alpha1.PluginSet

func preEnqueueSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreEnqueue }
func queueSortSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet  { return &p.QueueSort }
func postFilterSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PostFilter }
func preScoreSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet   { return &p.PreScore }
func scoreSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet      { return &p.Score }
func preFilterSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet  { return &p.PreFilter }
func filterSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet     { return &p.Filter }
func reserveSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet    { return &p.Reserve }
func permitSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet     { return &p.Permit }
func preBindSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet    { return &p.PreBind }
func bindSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet       { return &p.Bind }
func postBindSet(p *v1alpha1.Plugins) *v1alpha1.PluginSet   { return &p.PostBind }

// enableAt enables plugins at a point, before the default ones.
func enableAt(where pluginSetOf, names ...string) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		if s.Plugins == nil {
			s.Plugins = &v1alpha1.Plugins{}
		}
		set := where(s.Plugins)
		for _, name := range names {
			set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: name})
		}
	}
}

// disableAt disables a plugin at a point.
func disableAt(where pluginSetOf, name string) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		if s.Plugins == nil {
			s.Plugins = &v1alpha1.Plugins{}
		}
		set := where(s.Plugins)
		set.Disabled = append(set.Disabled, v1alpha1.DisabledPlugin{Name: name})
	}
}
