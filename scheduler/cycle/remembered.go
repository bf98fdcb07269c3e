package cycle

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// remembered looks for the best node by what the Memo knows. It is not done
// when the pod has to go the plain way; nothing has happened then, but for what
// PreFilter said where it was asked.
func (c *Cycle) remembered(ctx context.Context, r Request) (placement *Placement, said *preFiltered, err error, done bool) {
	m := r.Memo
	state, ours := r.State.(*framework.CycleState)
	if m == nil || !ours || r.Pod.Status.NominatedNodeName != "" {
		return nil, nil, nil, false
	}
	if r.Framework.Extended(r.Pod) && !fault.ExtendersRemembered {
		return nil, nil, nil, false
	}
	class := m.class(r.Pod)
	if class == nil {
		return nil, nil, nil, false
	}
	a := &m.attempt
	*a = attempt{
		Memo: m, Request: r, ctx: ctx, class: class,
		flagged: a.flagged, marked: a.marked, asked: a.asked[:0], opaque: a.opaque[:0], window: a.window, refused: a.refused,
		verdicts: a.verdicts, sums: a.sums, stale: a.stale, refusals: a.refusals, rank: a.rank,
	}
	start := c.start
	defer func() {
		if broken := recover(); broken != nil {
			// A form panicked: its plain twin tells what is wrong.
			klog.FromContext(ctx).Error(fmt.Errorf("%v", broken), "A form panicked; trying the plain way", "pod", klog.KObj(r.Pod))
			m.forget(class)
			done = false
		}
		if said = a.said; !done {
			c.start = start
			if said == nil {
				state.Reset()
			}
		}
	}()
	placement, err, done = c.recall(a, state)
	return placement, nil, err, done
}

// recall is remembered, once it is begun.
func (c *Cycle) recall(a *attempt, state *framework.CycleState) (placement *Placement, err error, done bool) {
	m := a.Memo
	begin := m.framework.Clock.Now()
	if !a.class.ready(m) || !a.prepare(state) {
		return nil, nil, false
	}
	if a.said == nil { // else it was asked, and recorded then
		begin = m.framework.ObservePoint(a.ctx, state, "PreFilter", begin, fwk.Success)
	} else {
		begin = m.framework.Clock.Now()
	}
	if !a.walk(c.start) {
		return nil, nil, false
	}
	begin = m.framework.ObservePoint(a.ctx, state, "Filter", begin, a.failed.Code())
	evaluated := len(a.window) + len(a.refused)
	if !fault.RotationNotAdvanced {
		c.start = (c.start + evaluated) % a.snapshot.Len()
	}
	m.stats.Remembered++
	m.stats.Met += uint64(evaluated)
	if a.failed != nil {
		return nil, a.failed.AsError(), true
	}
	if len(a.window) == 0 {
		err, done := a.refuse(state)
		return nil, err, done
	}
	placement = &Placement{Evaluated: evaluated, Feasible: len(a.window)}
	if len(a.window) > 1 {
		switch {
		case !a.rank.score(a):
			return nil, nil, false
		case a.failed != nil:
			return nil, a.failed.AsError(), true
		}
		placement.Winner, placement.scores = best(a.rank.totals), &a.rank
		m.framework.ObservePoint(a.ctx, state, "Score", begin, fwk.Success)
	}
	if !a.check(placement.Winner) {
		return nil, nil, false
	}
	placement.Node = m.snapshot.Columns().Nodes[a.window[placement.Winner]].Node().Name
	return placement, nil, true
}

// prepare gives the attempt its state, and finds the nodes that have to be
// asked because pods are nominated for them. For those the notes must be the
// pod's own: nominated pods may have terms that name labels by which the
// pod's class is not told apart.
func (a *attempt) prepare(state *framework.CycleState) bool {
	nominator, ok := a.framework.Nominator.(interface{ NominatedNodes() []string })
	if !ok {
		return false
	}
	a.flag(nominator.NominatedNodes())
	switch {
	case len(a.flagged) == 0 && !a.framework.HasOpaquePreFilters(a.Pod):
		state.Stand(a.class.forms.State)
	case !a.real(state):
		return false
	}
	a.opaque = a.framework.OpaqueFilters(a.opaque, state, a.Pod)
	return true
}

// real gives the attempt a state of its own.
func (a *attempt) real(state *framework.CycleState) bool {
	if a.said == nil {
		state.Reset()
		a.said = preFilter(a.ctx, a.Request)
	}
	return a.said.status.IsSuccess() && a.said.nodes.AllNodes()
}

// refuse says why the pod fits nowhere. It is not ok when PreFilter refuses the
// pod itself.
func (a *attempt) refuse(state *framework.CycleState) (refusal error, ok bool) {
	if a.framework.HasPostFilterPlugins() && !a.real(state) {
		return nil, false
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.Refusals.Reserve(len(a.refused))
	known := map[verdict]*fwk.Status{}
	var last verdict
	var status *fwk.Status
	for _, refused := range a.refused {
		if v := refused.verdict; v != last {
			last = v
			if status = known[v]; status == nil {
				status = a.status(v)
				known[v] = status
				diagnosis.Blame(status)
			}
		}
		diagnosis.Refusals.Add(a.snapshot.Columns().Nodes[refused.slot].Node().Name, status)
	}
	return &framework.FitError{Nodes: a.snapshot.Len(), Diagnosis: diagnosis}, true
}

// status is what a verdict stands for.
func (a *attempt) status(v verdict) *fwk.Status {
	if v.wasAsked() {
		return a.asked[v&^asked]
	}
	place, refusal := v.place(), v.refusal()
	for _, forms := range [][]framework.ClassFilter{a.class.forms.LastingFilters, a.class.forms.Filters} {
		for i := range forms {
			if forms[i].Place == place {
				return forms[i].Status(refusal)
			}
		}
	}
	return fwk.AsStatus(fmt.Errorf("nobody knows refusal %d of plugin %d", refusal, place))
}

// check runs the whole Filter chain on the winning node, but for those who were
// asked about it in this attempt. Now and then it makes more of what was
// remembered anew. It reports false when a verdict was wrong.
func (a *attempt) check(winner int) bool {
	slot := a.window[winner]
	node := a.snapshot.Columns().Nodes[slot]
	var status *fwk.Status
	switch {
	case len(a.flagged) == 0:
		// A nomination that came meanwhile is for the next attempt.
		status = a.class.forms.RunFilterPlugins(a.ctx, a.State, a.Pod, node)
	case !a.marked[slot]:
		status = a.framework.RunOpenFilterPlugins(a.ctx, a.State, a.Pod, node)
	}
	if !status.IsSuccess() {
		return a.wrong("the chosen node", node, status.Message())
	}
	if a.stats.Remembered%a.every != 0 {
		return true
	}
	return a.recheck()
}

// wrong notes that a verdict was wrong, and forgets the class.
func (a *attempt) wrong(what string, node fwk.NodeInfo, detail string) bool {
	a.stats.Different++
	count(a.framework, different)
	klog.FromContext(a.ctx).Error(nil, "What was remembered is wrong; please report this", "what", what,
		"pod", klog.KObj(a.Pod), "node", node.Node().Name, "plainly", detail)
	a.forget(a.class)
	return false
}
