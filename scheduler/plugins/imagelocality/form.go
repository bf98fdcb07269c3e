package imagelocality

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.ScoreBatcher = (*Plugin)(nil)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) ScoreForm(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.ScoreForm, bool) {
	return &form{plugin: p, state: state, pod: pod, columns: columns}, true
}

// form asks Score about nodes with images; the others have the score of none.
type form struct {
	plugin  *Plugin
	state   fwk.CycleState
	pod     *v1.Pod
	columns *framework.Columns
	// scored says that some node had a score, which may change with the number
	// of nodes.
	scored bool
}

func (f *form) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	for i, slot := range slots {
		scores[i] = 0
		if f.columns.Rows[slot].Images == 0 {
			continue
		}
		score, status := f.plugin.Score(context.Background(), f.state, f.pod, f.columns.Nodes[slot])
		if !status.IsSuccess() {
			return framework.ScoringBroken
		}
		scores[i] = score
		f.scored = f.scored || f.anyOn(f.columns.Nodes[slot])
	}
	return framework.Scored
}

// anyOn says whether the node has one of the images.
func (f *form) anyOn(node fwk.NodeInfo) bool {
	for image := range imagesOf(f.pod) {
		if _, there := node.GetImageStates()[tagged(image)]; there {
			return true
		}
	}
	return false
}

// Minds says that scores depend on the number of nodes once a node had one of
// the images: that weighs by the share of nodes.
func (f *form) Minds() framework.Facets {
	if f.scored {
		return framework.NodeImages | framework.NodeCount
	}
	return framework.NodeImages
}
