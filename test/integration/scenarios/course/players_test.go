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

// journal is what probes and actors were asked since the scenario began.
var journal = &probe.CallLog{}

// A and B are probes at every point. Their answers are a scenario's, but that
// A likes n1, and that B soon gives up a pod that waits at Permit.
var (
	probeA = &probe.Plugin{PluginName: "A", Log: journal, Scores: map[string]int64{"n1": 100}, PermitTimeout: time.Minute}
	probeB = &probe.Plugin{PluginName: "B", Log: journal, PermitTimeout: 100 * time.Millisecond}
)

// The actors do what the scenario's roles say.
var first, second = &actor{name: "First"}, &actor{name: "Second"}

// players are the stagehands, the probes and the actors, as plugins. All read of pods
// what built-in plugins read, so that informers keep what they keep in a shipped manager.
func players() []framework.Registration {
	probes := probe.Registry(probeA, probeB)
	all := []framework.Registration{
		probes["A"], probes["B"],
		plugins.Register(first.name, first.new, (*onStage)(nil), nil),
		plugins.Register(second.name, second.new, (*onStage)(nil), nil),
		plugins.Register(byAge.name, byAge.new, byAge, nil),
		plugins.Register(byName.name, byName.new, byName, nil),
		plugins.Register(stagehand, newStagehand, stagehandPlugin{}, nil),
	}
	for i := range all {
		all[i].ReadsTrimmedPods = true
	}
	return all
}

// role is what an actor does at each point; nil is nothing.
type role struct {
	preEnqueue    func(pod *v1.Pod) *fwk.Status
	preFilter     func(pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status)
	adds, removes func()
	filter        func(pod *v1.Pod) *fwk.Status
	reserve       func(pod *v1.Pod) *fwk.Status
	unreserve     func(pod *v1.Pod)
	permit        func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration)
	preBind       func(ctx context.Context, pod *v1.Pod) *fwk.Status
	bind          func(ctx context.Context, h fwk.Handle, pod *v1.Pod, node string) *fwk.Status
	postBind      func(ctx context.Context, h fwk.Handle, pod *v1.Pod)
	events        []fwk.ClusterEventWithHint
}

// actor is a plugin whose role is given before its profile is.
type actor struct {
	name string
	role atomic.Pointer[role]
}

func (a *actor) plays(r role) { a.role.Store(&r) }

func (a *actor) new(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &onStage{actor: a, handle: handle}, nil
}

// onStage is an actor in one generation of a profile.
type onStage struct {
	*actor
	handle fwk.Handle
}

var (
	_ fwk.PreEnqueuePlugin    = (*onStage)(nil)
	_ fwk.PreFilterPlugin     = (*onStage)(nil)
	_ fwk.PreFilterExtensions = (*onStage)(nil)
	_ fwk.FilterPlugin        = (*onStage)(nil)
	_ fwk.ReservePlugin       = (*onStage)(nil)
	_ fwk.PermitPlugin        = (*onStage)(nil)
	_ fwk.PreBindPlugin       = (*onStage)(nil)
	_ fwk.BindPlugin          = (*onStage)(nil)
	_ fwk.PostBindPlugin      = (*onStage)(nil)
	_ fwk.EnqueueExtensions   = (*onStage)(nil)
)

func (s *onStage) Name() string { return s.name }

func (s *onStage) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return s.role.Load().events, nil
}

func (s *onStage) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if r := s.role.Load(); r.preEnqueue != nil {
		return r.preEnqueue(pod)
	}
	return nil
}

func (s *onStage) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if r := s.role.Load(); r.preFilter != nil {
		return r.preFilter(pod)
	}
	return nil, nil
}

func (s *onStage) PreFilterExtensions() fwk.PreFilterExtensions { return s }

func (s *onStage) AddPod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	if r := s.role.Load(); r.adds != nil {
		r.adds()
	}
	return nil
}

func (s *onStage) RemovePod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	if r := s.role.Load(); r.removes != nil {
		r.removes()
	}
	return nil
}

func (s *onStage) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if r := s.role.Load(); r.filter != nil {
		return r.filter(pod)
	}
	return nil
}

func (s *onStage) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if r := s.role.Load(); r.reserve != nil {
		return r.reserve(pod)
	}
	return nil
}

func (s *onStage) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if r := s.role.Load(); r.unreserve != nil {
		r.unreserve(pod)
	}
}

func (s *onStage) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if r := s.role.Load(); r.permit != nil {
		return r.permit(ctx, s.handle, pod)
	}
	return nil, 0
}

func (s *onStage) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if s.role.Load().preBind == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (s *onStage) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	return s.role.Load().preBind(ctx, pod)
}

func (s *onStage) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if r := s.role.Load(); r.bind != nil {
		return r.bind(ctx, s.handle, pod, node)
	}
	return fwk.NewStatus(fwk.Skip)
}

func (s *onStage) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if r := s.role.Load(); r.postBind != nil {
		r.postBind(ctx, s.handle, pod)
	}
}

// Where a profile enables plugins.
type point func(*v1alpha1.Plugins) *v1alpha1.PluginSet

func preEnqueues(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreEnqueue }
func queueSorts(p *v1alpha1.Plugins) *v1alpha1.PluginSet  { return &p.QueueSort }
func postFilters(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PostFilter }
func preScores(p *v1alpha1.Plugins) *v1alpha1.PluginSet   { return &p.PreScore }
func scores(p *v1alpha1.Plugins) *v1alpha1.PluginSet      { return &p.Score }
func preFilters(p *v1alpha1.Plugins) *v1alpha1.PluginSet  { return &p.PreFilter }
func filters(p *v1alpha1.Plugins) *v1alpha1.PluginSet     { return &p.Filter }
func reserves(p *v1alpha1.Plugins) *v1alpha1.PluginSet    { return &p.Reserve }
func permits(p *v1alpha1.Plugins) *v1alpha1.PluginSet     { return &p.Permit }
func preBinds(p *v1alpha1.Plugins) *v1alpha1.PluginSet    { return &p.PreBind }
func binds(p *v1alpha1.Plugins) *v1alpha1.PluginSet       { return &p.Bind }
func postBinds(p *v1alpha1.Plugins) *v1alpha1.PluginSet   { return &p.PostBind }

// at enables plugins at a point, before DefaultBinder where that is one.
func at(where point, names ...string) edit {
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

// without disables a plugin at a point.
func without(where point, name string) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		if s.Plugins == nil {
			s.Plugins = &v1alpha1.Plugins{}
		}
		set := where(s.Plugins)
		set.Disabled = append(set.Disabled, v1alpha1.DisabledPlugin{Name: name})
	}
}
