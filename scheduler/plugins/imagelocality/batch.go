package imagelocality

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var _ podclass.BatchScorePlugin = (*Plugin)(nil)

// BatchScore returns the batch form of Score for pods of the same class as pod.
func (p *Plugin) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchScore, bool) {
	return &batchScore{plugin: p, state: state, pod: pod, columns: columns}, true
}

// batchScore calls Score for nodes that have images; a node without images has score 0.
type batchScore struct {
	plugin  *Plugin
	state   fwk.CycleState
	pod     *v1.Pod
	columns *counts.Columns
	// anyScored is true once a node had one of the pod's images: then scores change
	// with the number of nodes.
	anyScored bool
}

func (f *batchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	for i, slot := range slots {
		scores[i] = 0
		if f.columns.Rows[slot].Images == 0 {
			continue
		}
		score, status := f.plugin.Score(context.Background(), f.state, f.pod, f.columns.Nodes[slot])
		if !status.IsSuccess() {
			return podclass.ScoreFailed
		}
		scores[i] = score
		f.anyScored = f.anyScored || f.hasAnyImage(f.columns.Nodes[slot])
	}
	return podclass.Scored
}

// hasAnyImage reports whether the node has one of the pod's images.
func (f *batchScore) hasAnyImage(node fwk.NodeInfo) bool {
	for image := range imagesOf(f.pod) {
		if _, ok := node.GetImageStates()[normalizedImageName(image)]; ok {
			return true
		}
	}
	return false
}

// Dependencies adds the number of nodes once a node had one of the pod's images, since
// image sizes are weighted by the share of nodes that have the image.
func (f *batchScore) Dependencies() framework.Facets {
	if f.anyScored {
		return framework.NodeImages | framework.NodeCount
	}
	return framework.NodeImages
}
