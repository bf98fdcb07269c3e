package cycle

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// runCached is Run by the equivalence cache. done is false if the pod has to be
// scheduled by the reference; then nothing has changed, except that the state
// holds the data of preFiltered if preFiltered is not nil.
func (c *Cycle) runCached(ctx context.Context, r Request) (placement *Placement, preFiltered *preFilterResult, done bool, err error) {
	m := r.EquivalenceCache
	state, ours := r.State.(*framework.CycleState)
	if m == nil || !ours || r.Pod.Status.NominatedNodeName != "" {
		return nil, nil, false, nil
	}
	if r.Framework.HasInterestedExtender(r.Pod) {
		return nil, nil, false, nil
	}
	class := m.class(r.Pod)
	if class == nil {
		return nil, nil, false, nil
	}
	a := &m.attempt
	*a = attempt{
		EquivalenceCache: m, Request: r, ctx: ctx, class: class,
		nominatedSlots: a.nominatedSlots, isNominated: a.isNominated, statuses: a.statuses[:0], opaque: a.opaque[:0], feasible: a.feasible, rejected: a.rejected,
		verdicts: a.verdicts, sums: a.sums, stale: a.stale, rejectionCodes: a.rejectionCodes, ranking: a.ranking,
	}
	start := c.nextStartNodeIndex
	defer func() {
		if panicValue := recover(); panicValue != nil {
			// The reference shows the error.
			klog.FromContext(ctx).Error(fmt.Errorf("%v", panicValue), "A batch plugin call panicked; running the reference", "pod", klog.KObj(r.Pod))
			m.drop(class)
			done = false
		}
		if preFiltered = a.preFilterResult; !done {
			c.nextStartNodeIndex = start
			state.SetPodClass(0)
			if preFiltered == nil {
				state.Reset()
			}
		}
	}()
	placement, done, err = c.runCachedAttempt(a, state)
	return placement, nil, done, err
}

// runCachedAttempt is runCached after its preparation.
func (c *Cycle) runCachedAttempt(a *attempt, state *framework.CycleState) (placement *Placement, done bool, err error) {
	m := a.EquivalenceCache
	begin := m.framework.Clock.Now()
	if !a.class.update(m) || !a.prepare(state) {
		return nil, false, nil
	}
	if a.preFilterResult == nil { // otherwise RunPreFilterPlugins has recorded the duration
		begin = m.framework.ObservePoint(a.ctx, state, "PreFilter", begin, fwk.Success)
	} else {
		begin = m.framework.Clock.Now()
	}
	if !a.findFeasibleNodes(c.nextStartNodeIndex) {
		return nil, false, nil
	}
	begin = m.framework.ObservePoint(a.ctx, state, "Filter", begin, a.failure.Code())
	evaluated := len(a.feasible) + len(a.rejected)
	c.nextStartNodeIndex = (c.nextStartNodeIndex + evaluated) % a.snapshot.Len()
	m.stats.Cached++
	m.stats.Visited += uint64(evaluated)
	if a.failure != nil {
		return nil, true, a.failure.AsError()
	}
	if len(a.feasible) == 0 {
		done, err := a.fitError(state)
		return nil, done, err
	}
	placement = &Placement{Evaluated: evaluated, Feasible: len(a.feasible)}
	if len(a.feasible) > 1 {
		switch {
		case !a.ranking.score(a):
			return nil, false, nil
		case a.failure != nil:
			return nil, true, a.failure.AsError()
		}
		placement.Winner, placement.scores = selectHost(a.ranking.totals), &a.ranking
		m.framework.ObservePoint(a.ctx, state, "Score", begin, fwk.Success)
	}
	if !a.verifyWinner(placement.Winner) {
		return nil, false, nil
	}
	placement.Node = m.snapshot.Columns().Nodes[a.feasible[placement.Winner]].Node().Name
	return placement, true, nil
}

// prepare sets the attempt's state, and finds the nodes to which pods are
// nominated. Only for these nodes the state must be the pod's own, because
// AddPod of plugins compares the pod's labels with terms of the nominated pods,
// and the pod class does not hold these labels.
func (a *attempt) prepare(state *framework.CycleState) bool {
	nominator, ok := a.framework.Nominator.(versionedNominations)
	if !ok {
		return false
	}
	a.setNominatedNodes(nominator)
	switch {
	case len(a.nominatedSlots) == 0 && !a.framework.HasOpaquePreFilters(a.Pod):
		state.SetBase(a.class.forms.State)
	case !a.usePodState(state):
		return false
	}
	a.opaque = a.framework.OpaqueFilters(a.opaque, state, a.Pod)
	return true
}

// usePodState runs PreFilter for the pod itself, unless it has run. It returns
// false if PreFilter rejects the pod or excludes nodes.
func (a *attempt) usePodState(state *framework.CycleState) bool {
	if a.preFilterResult == nil {
		state.Reset()
		a.preFilterResult = runPreFilter(a.ctx, a.Request)
		if !a.framework.IsOpaque(a.Pod, "") {
			state.SetPodClass(a.class.id)
		}
	}
	return a.preFilterResult.status.IsSuccess() && a.preFilterResult.nodes.AllNodes()
}

// fitError returns the FitError of the attempt. ok is false if PreFilter
// rejects the pod itself.
func (a *attempt) fitError(state *framework.CycleState) (ok bool, err error) {
	if a.framework.HasPostFilterPlugins() && !a.usePodState(state) {
		return false, nil
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.NodeToStatus.Grow(len(a.rejected))
	byVerdict := map[verdict]*fwk.Status{}
	var last verdict
	var status *fwk.Status
	for _, rejected := range a.rejected {
		if v := rejected.verdict; v != last {
			last = v
			if status = byVerdict[v]; status == nil {
				status = a.status(v)
				byVerdict[v] = status
				diagnosis.AddPluginStatus(status)
			}
		}
		diagnosis.NodeToStatus.Set(a.snapshot.Columns().Nodes[rejected.slot].Node().Name, status)
	}
	return true, &framework.FitError{NumAllNodes: a.snapshot.Len(), Diagnosis: diagnosis}
}

// status returns the status that a rejection stands for.
func (a *attempt) status(v verdict) *fwk.Status {
	if v.isStatus() {
		return a.statuses[v&^statusBit]
	}
	index, code := v.pluginIndex(), v.rejectionCode()
	for _, forms := range [][]podclass.ClassFilter{a.class.forms.CacheableFilters, a.class.forms.UncachedFilters} {
		for i := range forms {
			if forms[i].Index == index {
				return forms[i].Status(code)
			}
		}
	}
	return fwk.AsStatus(fmt.Errorf("unknown rejection code %d of plugin %d", code, index))
}

// verifyWinner runs the Filter plugins for the chosen node, except where they
// ran in this attempt. Every recheckEvery attempts it also calls recheck. It
// returns false if a cached verdict was wrong.
func (a *attempt) verifyWinner(winner int) bool {
	slot := a.feasible[winner]
	node := a.snapshot.Columns().Nodes[slot]
	var status *fwk.Status
	if len(a.nominatedSlots) == 0 || !a.isNominated[slot] {
		// A pod nominated meanwhile counts from the next attempt on.
		status = a.framework.RunNonOpaqueFilterPlugins(a.ctx, a.State, a.Pod, node)
	}
	if framework.CheckAbandoned(a.State) != nil {
		return false
	}
	if !status.IsSuccess() {
		return a.reportMismatch("the chosen node", node, status.Message())
	}
	if a.stats.Cached%a.recheckEvery != 0 {
		return true
	}
	return a.recheck()
}

// reportMismatch counts and logs a wrong cached verdict, and drops the class.
// It returns false.
func (a *attempt) reportMismatch(what string, node fwk.NodeInfo, detail string) bool {
	a.stats.Mismatches++
	increment(a.framework, mismatchingChecks)
	klog.FromContext(a.ctx).Error(nil, "A cached verdict is wrong; please report this", "what", what,
		"pod", klog.KObj(a.Pod), "node", node.Node().Name, "reference", detail)
	a.drop(a.class)
	return false
}

// recheck computes the result for one visited node again by the reference, from
// the pod itself, and compares. It returns false if they differ. Opaque plugins
// are left out, because their results are not cached.
func (a *attempt) recheck() bool {
	state := framework.NewCycleState()
	result, status, _ := a.framework.RunNonOpaquePreFilterPlugins(a.ctx, state, a.Pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return a.reportMismatch("PreFilter passes the pod", a.snapshot.Columns().Nodes[a.feasible[0]], status.Message())
	}
	at := int(a.stats.Cached/a.recheckEvery) % (len(a.feasible) + len(a.rejected))
	if at >= len(a.feasible) {
		return a.recheckRejection(state, a.rejected[at-len(a.feasible)])
	}
	slot := a.feasible[at]
	node := a.snapshot.Columns().Nodes[slot]
	if a.isNominated[slot] {
		return true // the reference evaluated it
	}
	if status := a.framework.RunNonOpaqueFilterPlugins(a.ctx, state, a.Pod, node); !status.IsSuccess() {
		return a.reportMismatch("a feasible node", node, status.Message())
	}
	if len(a.feasible) > 1 {
		switch full := a.stats.Cached%(a.recheckEvery*a.recheckEvery) == 0 && !a.framework.IsOpaque(a.Pod, ""); {
		case full && !a.recheckScores(state, at), !full && !a.recheckScore(state, slot):
			return false
		}
	}
	increment(a.framework, matchingChecks)
	return true
}

// recheckScore computes the cached part of a node's score again.
func (a *attempt) recheckScore(state *framework.CycleState, slot counts.Slot) bool {
	node := a.snapshot.Columns().Nodes[slot]
	expected, ok := podclass.CacheableScore(a.ctx, a.framework, state, a.Pod, node)
	if score := int64(a.class.entries[slot].verdict); !ok || expected != score {
		return a.reportMismatch(fmt.Sprintf("the score %d", score), node, fmt.Sprint(expected))
	}
	return true
}

func (a *attempt) recheckRejection(state *framework.CycleState, rejected rejectedNode) bool {
	if rejected.verdict.isStatus() {
		return true // a plugin evaluated it in this attempt
	}
	node := a.snapshot.Columns().Nodes[rejected.slot]
	expected := a.framework.RunNonOpaqueFilterPlugins(a.ctx, state, a.Pod, node)
	status := a.status(rejected.verdict)
	if expected.Code() != status.Code() || expected.Message() != status.Message() || expected.Plugin() != status.Plugin() {
		return a.reportMismatch("a rejected node: "+status.Message(), node, expected.Message())
	}
	increment(a.framework, matchingChecks)
	return true
}

// recheckScores scores all feasible nodes by the reference and compares the
// record of one. It takes as long as many attempts.
func (a *attempt) recheckScores(state *framework.CycleState, at int) bool {
	nodes := a.feasibleNodes()
	if status := a.framework.RunPreScorePlugins(a.ctx, state, a.Pod, nodes); !status.IsSuccess() {
		return a.reportMismatch("the pod can be scored", nodes[at], status.Message())
	}
	scores, status := a.framework.ScoreNodes(a.ctx, state, a.Pod, nodes)
	if !status.IsSuccess() {
		return a.reportMismatch("the pod can be scored", nodes[at], status.Message())
	}
	expected, record := (&referenceScores{nodes, scores}).Score(at), a.ranking.Score(at)
	if fmt.Sprint(expected) != fmt.Sprint(record) {
		return a.reportMismatch(fmt.Sprintf("a score: %v", record), nodes[at], fmt.Sprint(expected))
	}
	return true
}

// feasibleNodes returns the NodeInfos of the feasible nodes.
func (a *attempt) feasibleNodes() []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, len(a.feasible))
	for i, slot := range a.feasible {
		nodes[i] = a.snapshot.Columns().Nodes[slot]
	}
	return nodes
}
