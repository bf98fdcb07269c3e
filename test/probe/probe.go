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
type Probe struct {
	// Called is the plugin's name.
	Called  string
	Journal *Journal
	// On holds an answer by the name of the method, such as "Reserve". Set
	// changes it while the probe is in use.
	On map[string]Answer
	mu sync.Mutex
	// Nodes are what PreFilter narrows the nodes down to; nil: all.
	Nodes sets.Set[string]
	// Nominates is what PostFilter answers with; nil: nothing.
	Nominates *fwk.NominatingInfo
	// Scores are the scores by node; a node without one has 0.
	Scores map[string]int64
	// Waits is how long Permit asks to wait where its answer is Wait.
	Waits time.Duration
	// Parallel is what PreBindPreFlight says about company.
	Parallel bool
	// Events are what EventsToRegister answers.
	Events []fwk.ClusterEventWithHint
	// During, where it is not nil, is called by PreBind before it answers, and
	// AtPermit by Permit.
	During, AtPermit func(ctx context.Context)
}

// A Probe is whatever the runtime knows.
var (
	_ fwk.PreEnqueuePlugin    = &Probe{}
	_ fwk.QueueSortPlugin     = &Probe{}
	_ fwk.EnqueueExtensions   = &Probe{}
	_ fwk.PreFilterPlugin     = &Probe{}
	_ fwk.PreFilterExtensions = &Probe{}
	_ fwk.FilterPlugin        = &Probe{}
	_ fwk.PostFilterPlugin    = &Probe{}
	_ fwk.PreScorePlugin      = &Probe{}
	_ fwk.ScorePlugin         = &Probe{}
	_ fwk.ScoreExtensions     = &Probe{}
	_ fwk.ReservePlugin       = &Probe{}
	_ fwk.PermitPlugin        = &Probe{}
	_ fwk.PreBindPlugin       = &Probe{}
	_ fwk.BindPlugin          = &Probe{}
	_ fwk.PostBindPlugin      = &Probe{}
)

// at notes that the probe was asked at a point, and answers.
func (p *Probe) at(point, suffix string) *fwk.Status {
	p.Journal.Note("%s", p.Called+"."+point+suffix)
	if answer := p.answer(point); answer != nil {
		return answer()
	}
	return nil
}

func (p *Probe) answer(point string) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.On[point]
}

// Set changes the answer at a point; nil means Success again.
func (p *Probe) Set(point string, answer Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.On == nil {
		p.On = map[string]Answer{}
	}
	p.On[point] = answer
}

// Name returns what the probe is called.
func (p *Probe) Name() string { return p.Called }

// Close notes that the probe was closed.
func (p *Probe) Close() error { return p.at("Close", "").AsError() }

// Less orders pods by priority, and among equals by age.
func (p *Probe) Less(a, b fwk.QueuedEntityInfo) bool {
	if answer := p.answer("Less"); answer != nil {
		answer()
	}
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// EventsToRegister returns Events.
func (p *Probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return p.Events, p.at("EventsToRegister", "").AsError()
}

// PreEnqueue answers whether a pod may enter the queue.
func (p *Probe) PreEnqueue(context.Context, *v1.Pod) *fwk.Status { return p.at("PreEnqueue", "") }

// PreFilter answers with Nodes.
func (p *Probe) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	status := p.at("PreFilter", "")
	if p.Nodes == nil {
		return nil, status
	}
	return &fwk.PreFilterResult{NodeNames: p.Nodes}, status
}

// PreFilterExtensions returns the probe itself.
func (p *Probe) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod thinks of a pod as on a node.
func (p *Probe) AddPod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.at("AddPod", " "+added.GetPod().Name)
}

// RemovePod thinks of a pod as gone from a node.
func (p *Probe) RemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.at("RemovePod", " "+removed.GetPod().Name)
}

// Filter answers whether a node will do. An answer under "Filter <node>" goes
// before that under "Filter".
func (p *Probe) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if p.answer("Filter "+name) != nil {
		return p.at("Filter "+name, "")
	}
	return p.at("Filter", " "+name)
}

// PostFilter answers with Nominates.
func (p *Probe) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	status := p.at("PostFilter", "")
	if p.Nominates == nil {
		return nil, status
	}
	return &fwk.PostFilterResult{NominatingInfo: p.Nominates}, status
}
