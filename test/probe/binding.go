package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore prepares scoring.
func (p *Plugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.call("PreScore", "")
}

// Score answers with Scores.
func (p *Plugin) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.Scores[node.Node().Name], p.call("Score", " "+node.Node().Name)
}

// ScoreExtensions returns the probe itself.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore leaves the scores as they are.
func (p *Plugin) NormalizeScore(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeScoreList) *fwk.Status {
	return p.call("NormalizeScore", "")
}

// Reserve claims what the pod needs.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	return p.call("Reserve", " "+node)
}

// Unreserve takes the claim back.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) {
	p.call("Unreserve", " "+node)
}

// Permit does what AtPermit says, and answers whether the pod may be bound now,
// or has to wait for Waits.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if p.OnPermit != nil {
		p.OnPermit(ctx)
	}
	return p.call("Permit", " "+node), p.PermitTimeout
}

// PreBindPreFlight answers whether PreBind will have work to do.
func (p *Plugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: p.AllowParallel}, p.call("PreBindPreFlight", " "+node)
}

// PreBind does what During says.
func (p *Plugin) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	if p.OnPreBind != nil {
		p.OnPreBind(ctx)
	}
	return p.call("PreBind", " "+node)
}

// Bind binds nothing.
func (p *Plugin) Bind(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	return p.call("Bind", " "+node)
}

// PostBind hears that the pod is bound.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) {
	p.call("PostBind", " "+node)
}
