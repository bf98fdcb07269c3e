package cycle

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// Placement is where a pod goes, and how that came about. Its scores are good
// until the next attempt.
type Placement struct {
	Node string
	// Evaluated is how many nodes were asked, Feasible how many of them fit.
	Evaluated, Feasible int
	// Winner is Node's index among the nodes that were scored.
	Winner int
	// scores is nil when one node alone fitted, since nothing was scored then.
	scores scores
}

// scores are those of the nodes that fit.
type scores interface {
	Len() int
	Totals() []int64
	Score(i int) decision.NodeScore
}

// Scored is how many nodes were scored.
func (p *Placement) Scored() int {
	if p.scores == nil {
		return 0
	}
	return p.scores.Len()
}

// Score is the record of the i-th node that was scored.
func (p *Placement) Score(i int) decision.NodeScore { return p.scores.Score(i) }

// Top returns the records of the k best nodes, best first; the winner comes
// before its equals.
func (p *Placement) Top(k int) []decision.NodeScore {
	if p.scores == nil {
		return nil
	}
	return decision.TopNodes(p.scores.Totals(), p.Winner, k, p.scores.Score)
}

// plainScores are the scores that every plugin gave every node.
type referenceScores struct {
	nodes  []fwk.NodeInfo
	scores *framework.Scores
}

func (p *referenceScores) Len() int { return len(p.nodes) }

func (p *referenceScores) Totals() []int64 { return p.scores.Total }

func (p *referenceScores) Score(i int) decision.NodeScore {
	score := decision.NodeScore{
		Node: p.nodes[i].Node().Name, Score: p.scores.Total[i],
		Plugins: make(map[string]int64, len(p.scores.Plugins)),
	}
	for row, plugin := range p.scores.Plugins {
		score.Plugins[plugin] = p.scores.Weighted[row][i].Score
	}
	return score
}
