package cycle

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// recheck makes what was found about one node of the walk anew, in the plain
// way and from the pod itself, and compares. It reports false when there is a
// difference. Opaque plugins are left out: nothing is remembered of them.
func (a *attempt) recheck() bool {
	state := framework.NewCycleState()
	result, status, _ := a.framework.RunNonOpaquePreFilterPlugins(a.ctx, state, a.Pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return a.reportMismatch("that PreFilter lets the pod through", a.snapshot.Columns().Nodes[a.feasible[0]], status.Message())
	}
	at := int(a.stats.Cached/a.recheckEvery) % (len(a.feasible) + len(a.rejected))
	if at >= len(a.feasible) {
		return a.recheckRefusal(state, a.rejected[at-len(a.feasible)])
	}
	slot := a.feasible[at]
	node := a.snapshot.Columns().Nodes[slot]
	if a.isNominated[slot] {
		return true // It was asked plainly.
	}
	if status := a.framework.RunNonOpaqueFilterPlugins(a.ctx, state, a.Pod, node); !status.IsSuccess() {
		return a.reportMismatch("a node that fits", node, status.Message())
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

// recheckScore makes what is remembered of a node's score anew.
func (a *attempt) recheckScore(state *framework.CycleState, slot framework.Slot) bool {
	node := a.snapshot.Columns().Nodes[slot]
	plainly, ok := a.framework.CacheableScore(a.ctx, state, a.Pod, node)
	if score := int64(a.class.entries[slot].verdict); !ok || plainly != score {
		return a.reportMismatch(fmt.Sprintf("the score %d", score), node, fmt.Sprint(plainly))
	}
	return true
}

func (a *attempt) recheckRefusal(state *framework.CycleState, refused rejectedNode) bool {
	if refused.verdict.isStatus() {
		return true // It is as fresh as can be.
	}
	node := a.snapshot.Columns().Nodes[refused.slot]
	plainly := a.framework.RunNonOpaqueFilterPlugins(a.ctx, state, a.Pod, node)
	status := a.status(refused.verdict)
	if plainly.Code() != status.Code() || plainly.Message() != status.Message() || plainly.Plugin() != status.Plugin() {
		return a.reportMismatch("a node that is refused: "+status.Message(), node, plainly.Message())
	}
	increment(a.framework, matchingChecks)
	return true
}

// recheckScores scores all nodes that fit in the plain way and compares one,
// which takes as long as many attempts.
func (a *attempt) recheckScores(state *framework.CycleState, at int) bool {
	nodes := a.feasibleNodes()
	if status := a.framework.RunPreScorePlugins(a.ctx, state, a.Pod, nodes); !status.IsSuccess() {
		return a.reportMismatch("that the pod can be scored", nodes[at], status.Message())
	}
	scores, status := a.framework.ScoreNodes(a.ctx, state, a.Pod, nodes)
	if !status.IsSuccess() {
		return a.reportMismatch("that the pod can be scored", nodes[at], status.Message())
	}
	plainly, record := (&referenceScores{nodes, scores}).Score(at), a.ranking.Score(at)
	if fmt.Sprint(plainly) != fmt.Sprint(record) {
		return a.reportMismatch(fmt.Sprintf("a score: %v", record), nodes[at], fmt.Sprint(plainly))
	}
	return true
}

// infos are the nodes that fit.
func (a *attempt) feasibleNodes() []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, len(a.feasible))
	for i, slot := range a.feasible {
		nodes[i] = a.snapshot.Columns().Nodes[slot]
	}
	return nodes
}
