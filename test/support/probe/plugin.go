package probe

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Plugin is a test plugin that implements every extension point. Its zero value returns
// Success at each; Bind succeeds without binding anything.
type Plugin struct {
	// PluginName is what Name returns.
	PluginName string
	Log        *CallLog
	// Statuses holds status functions by the name of the method, such as "Reserve". Use
	// SetStatus while the plugin is in use.
	Statuses map[string]StatusFunc
	mu       sync.Mutex
	// PreFilterNodes are the node names that PreFilter returns; nil for all nodes.
	PreFilterNodes sets.Set[string]
	// Nominates is what PostFilter returns; nil for no result.
	Nominates *fwk.NominatingInfo
	// Scores are the scores by node; a node without an entry has 0.
	Scores map[string]int64
	// PermitTimeout is the timeout that Permit returns.
	PermitTimeout time.Duration
	// AllowParallel is what PreBindPreFlight returns.
	AllowParallel bool
	// Events are what EventsToRegister returns.
	Events []fwk.ClusterEventWithHint
	// OnPreBind, if not nil, is called by PreBind before it returns, and OnPermit by
	// Permit.
	OnPreBind, OnPermit func(ctx context.Context)
}

// Plugin implements all interfaces of plugins.
var (
	_ fwk.PreEnqueuePlugin    = &Plugin{}
	_ fwk.QueueSortPlugin     = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ScoreExtensions     = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.PermitPlugin        = &Plugin{}
	_ fwk.PreBindPlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.PostBindPlugin      = &Plugin{}
)

// call records a call at an extension point, and returns its status.
func (p *Plugin) call(point, suffix string) *fwk.Status {
	p.Log.Add("%s", p.PluginName+"."+point+suffix)
	if statusFunc := p.statusFunc(point); statusFunc != nil {
		return statusFunc()
	}
	return nil
}

func (p *Plugin) statusFunc(point string) StatusFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Statuses[point]
}

// SetStatus sets the status function of an extension point; nil resets it to Success.
func (p *Plugin) SetStatus(point string, statusFunc StatusFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Statuses == nil {
		p.Statuses = map[string]StatusFunc{}
	}
	p.Statuses[point] = statusFunc
}

// Name returns PluginName.
func (p *Plugin) Name() string { return p.PluginName }

// Close records that the plugin was closed.
func (p *Plugin) Close() error { return p.call("Close", "").AsError() }

// Less orders pods by priority, and pods of equal priority by their time in the queue.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if statusFunc := p.statusFunc("Less"); statusFunc != nil {
		statusFunc()
	}
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// EventsToRegister returns Events.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return p.Events, p.call("EventsToRegister", "").AsError()
}

// PreEnqueue returns the status that is set.
func (p *Plugin) PreEnqueue(context.Context, *v1.Pod) *fwk.Status { return p.call("PreEnqueue", "") }

// PreFilter returns PreFilterNodes.
func (p *Plugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	status := p.call("PreFilter", "")
	if p.PreFilterNodes == nil {
		return nil, status
	}
	return &fwk.PreFilterResult{NodeNames: p.PreFilterNodes}, status
}

// PreFilterExtensions returns the plugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod records the pod.
func (p *Plugin) AddPod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.call("AddPod", " "+added.GetPod().Name)
}

// RemovePod records the pod.
func (p *Plugin) RemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.call("RemovePod", " "+removed.GetPod().Name)
}

// Filter returns the status for "Filter <node>", or else that for "Filter".
func (p *Plugin) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if p.statusFunc("Filter "+name) != nil {
		return p.call("Filter "+name, "")
	}
	return p.call("Filter", " "+name)
}

// PostFilter returns Nominates.
func (p *Plugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	status := p.call("PostFilter", "")
	if p.Nominates == nil {
		return nil, status
	}
	return &fwk.PostFilterResult{NominatingInfo: p.Nominates}, status
}

// PreScore returns the status that is set.
func (p *Plugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.call("PreScore", "")
}

// Score returns the node's score in Scores.
func (p *Plugin) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.Scores[node.Node().Name], p.call("Score", " "+node.Node().Name)
}

// ScoreExtensions returns the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore does not change the scores.
func (p *Plugin) NormalizeScore(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeScoreList) *fwk.Status {
	return p.call("NormalizeScore", "")
}

// Reserve returns the status that is set.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	return p.call("Reserve", " "+node)
}

// Unreserve records the node.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) {
	p.call("Unreserve", " "+node)
}

// Permit calls OnPermit, and returns PermitTimeout.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if p.OnPermit != nil {
		p.OnPermit(ctx)
	}
	return p.call("Permit", " "+node), p.PermitTimeout
}

// PreBindPreFlight returns AllowParallel.
func (p *Plugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: p.AllowParallel}, p.call("PreBindPreFlight", " "+node)
}

// PreBind calls OnPreBind.
func (p *Plugin) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	if p.OnPreBind != nil {
		p.OnPreBind(ctx)
	}
	return p.call("PreBind", " "+node)
}

// Bind returns the status that is set, and binds nothing.
func (p *Plugin) Bind(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	return p.call("Bind", " "+node)
}

// PostBind records the node.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) {
	p.call("PostBind", " "+node)
}
