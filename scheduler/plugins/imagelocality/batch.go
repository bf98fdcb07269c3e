package imagelocality

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchScorePlugin = (*Plugin)(nil)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchScore, bool) {
	return &batchScore{plugin: p, state: state, pod: pod, columns: columns}, true
}

// form asks Score about nodes with images; the others have the score of none.
type batchScore struct {
	plugin  *Plugin
	state   fwk.CycleState
	pod     *v1.Pod
	columns *framework.Columns
	// scored says that some node had a score, which may change with the number
	// of nodes.
	anyScored bool
}

func (f *batchScore) Score(slots []framework.Slot, scores []int64) framework.ScoreResult {
	for i, slot := range slots {
		scores[i] = 0
		if f.columns.Rows[slot].Images == 0 {
			continue
		}
		score, status := f.plugin.Score(context.Background(), f.state, f.pod, f.columns.Nodes[slot])
		if !status.IsSuccess() {
			return framework.ScoreFailed
		}
		scores[i] = score
		f.anyScored = f.anyScored || f.hasAnyImage(f.columns.Nodes[slot])
	}
	return framework.Scored
}

// anyOn says whether the node has one of the images.
func (f *batchScore) hasAnyImage(node fwk.NodeInfo) bool {
	for image := range imagesOf(f.pod) {
		if _, there := node.GetImageStates()[normalizedImageName(image)]; there {
			return true
		}
	}
	return false
}

// Minds says that scores depend on the number of nodes once a node had one of
// the images: that weighs by the share of nodes.
func (f *batchScore) Dependencies() framework.Facets {
	if f.anyScored {
		return framework.NodeImages | framework.NodeCount
	}
	return framework.NodeImages
}
