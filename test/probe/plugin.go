package probe

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Probe is a plugin at every extension point. Its zero answers are Success
// everywhere; Bind succeeds without binding anything.
type Plugin struct {
	// Called is the plugin's name.
	PluginName string
	Log        *CallLog
	// On holds an answer by the name of the method, such as "Reserve". Set
	// changes it while the probe is in use.
	Statuses map[string]StatusFunc
	mu       sync.Mutex
	// Nodes are what PreFilter narrows the nodes down to; nil: all.
	PreFilterNodes sets.Set[string]
	// Nominates is what PostFilter answers with; nil: nothing.
	Nominates *fwk.NominatingInfo
	// Scores are the scores by node; a node without one has 0.
	Scores map[string]int64
	// Waits is how long Permit asks to wait where its answer is Wait.
	PermitTimeout time.Duration
	// Parallel is what PreBindPreFlight says about company.
	AllowParallel bool
	// Events are what EventsToRegister answers.
	Events []fwk.ClusterEventWithHint
	// During, where it is not nil, is called by PreBind before it answers, and
	// AtPermit by Permit.
	OnPreBind, OnPermit func(ctx context.Context)
}

// A Probe is whatever the runtime knows.
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

// at notes that the probe was asked at a point, and answers.
func (p *Plugin) call(point, suffix string) *fwk.Status {
	p.Log.Add("%s", p.PluginName+"."+point+suffix)
	if answer := p.statusFunc(point); answer != nil {
		return answer()
	}
	return nil
}

func (p *Plugin) statusFunc(point string) StatusFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Statuses[point]
}

// Set changes the answer at a point; nil means Success again.
func (p *Plugin) SetStatus(point string, answer StatusFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Statuses == nil {
		p.Statuses = map[string]StatusFunc{}
	}
	p.Statuses[point] = answer
}

// Name returns what the probe is called.
func (p *Plugin) Name() string { return p.PluginName }

// Close notes that the probe was closed.
func (p *Plugin) Close() error { return p.call("Close", "").AsError() }

// Less orders pods by priority, and among equals by age.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if answer := p.statusFunc("Less"); answer != nil {
		answer()
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

// PreEnqueue answers whether a pod may enter the queue.
func (p *Plugin) PreEnqueue(context.Context, *v1.Pod) *fwk.Status { return p.call("PreEnqueue", "") }

// PreFilter answers with Nodes.
func (p *Plugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	status := p.call("PreFilter", "")
	if p.PreFilterNodes == nil {
		return nil, status
	}
	return &fwk.PreFilterResult{NodeNames: p.PreFilterNodes}, status
}

// PreFilterExtensions returns the probe itself.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod thinks of a pod as on a node.
func (p *Plugin) AddPod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.call("AddPod", " "+added.GetPod().Name)
}

// RemovePod thinks of a pod as gone from a node.
func (p *Plugin) RemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.call("RemovePod", " "+removed.GetPod().Name)
}

// Filter answers whether a node will do. An answer under "Filter <node>" goes
// before that under "Filter".
func (p *Plugin) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if p.statusFunc("Filter "+name) != nil {
		return p.call("Filter "+name, "")
	}
	return p.call("Filter", " "+name)
}

// PostFilter answers with Nominates.
func (p *Plugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	status := p.call("PostFilter", "")
	if p.Nominates == nil {
		return nil, status
	}
	return &fwk.PostFilterResult{NominatingInfo: p.Nominates}, status
}
