package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore prepares scoring.
func (p *Probe) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.at("PreScore", "")
}

// Score answers with Scores.
func (p *Probe) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.Scores[node.Node().Name], p.at("Score", " "+node.Node().Name)
}

// ScoreExtensions returns the probe itself.
func (p *Probe) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore leaves the scores as they are.
func (p *Probe) NormalizeScore(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeScoreList) *fwk.Status {
	return p.at("NormalizeScore", "")
}

// Reserve claims what the pod needs.
func (p *Probe) Reserve(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	return p.at("Reserve", " "+node)
}

// Unreserve takes the claim back.
func (p *Probe) Unreserve(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) {
	p.at("Unreserve", " "+node)
}

// Permit does what AtPermit says, and answers whether the pod may be bound now,
// or has to wait for Waits.
func (p *Probe) Permit(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if p.AtPermit != nil {
		p.AtPermit(ctx)
	}
	return p.at("Permit", " "+node), p.Waits
}

// PreBindPreFlight answers whether PreBind will have work to do.
func (p *Probe) PreBindPreFlight(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: p.Parallel}, p.at("PreBindPreFlight", " "+node)
}

// PreBind does what During says.
func (p *Probe) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	if p.During != nil {
		p.During(ctx)
	}
	return p.at("PreBind", " "+node)
}

// Bind binds nothing.
func (p *Probe) Bind(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	return p.at("Bind", " "+node)
}

// PostBind hears that the pod is bound.
func (p *Probe) PostBind(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node string) {
	p.at("PostBind", " "+node)
}
