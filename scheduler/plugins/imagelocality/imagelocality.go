// Package imagelocality prefers nodes that have the pod's images already.
package imagelocality

import (
	"context"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Name is how profiles name the plugin.
const Name = "ImageLocality"

// Between these the score rises from 0 to 100, in bytes of images that need no
// pulling. Both are k8s.io/kubernetes/pkg/scheduler/framework/plugins/
// imagelocality's.
const (
	// negligible is too little to matter.
	minThreshold int64 = 23 << 20
	// ample is as much as one container can earn.
	maxContainerThreshold int64 = 1000 << 20
)

// Plugin adds up the images on a node.
type Plugin struct{ handle fwk.Handle }

var (
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
	_ framework.ReadsDeclarer = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &Plugin{handle: handle}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the score depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodImages, Score: framework.NodeImages | framework.NodeCount}
}

// SignPod signs the pod with its containers' images.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	images := sets.New[string]()
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			images.Insert(normalizedImageName(containers[i].Image))
		}
	}
	return []fwk.SignFragment{{Key: fwk.ImageNamesSignerName, Value: sets.List(images)}}, nil
}

// Score is 0 for a node with next to nothing of the pod's images, and 100 for
// one with 1000 MiB for each of them.
func (p *Plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	tally := imageSum{imageStates: node.GetImageStates(), nodes: len(nodes)}
	for image := range imagesOf(pod) {
		tally.add(image)
	}
	return tally.score(), nil
}

// imagesOf yields the images of a pod's containers and volumes.
func imagesOf(pod *v1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !yield(containers[i].Image) {
					return
				}
			}
		}
		for i := range pod.Spec.Volumes {
			if image := pod.Spec.Volumes[i].Image; image != nil && !yield(image.Reference) {
				return
			}
		}
	}
}

// ScoreExtensions is nil: the score keeps to the range by itself.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// tally adds up a pod's images on one node.
type imageSum struct {
	imageStates map[string]*fwk.ImageStateSummary
	// nodes is how many nodes there are.
	nodes int
	// images is how many the pod has, on the node or not.
	images int64
	// bytes is what needs no pulling, each image weighed by spread.
	bytes int64
}

// add counts one image. Its size is weighed by the share of nodes that have
// it: else the first node to pull an image would draw all of its pods.
func (t *imageSum) add(image string) {
	t.images++
	if len(t.imageStates) == 0 {
		return
	}
	if state, ok := t.imageStates[normalizedImageName(image)]; ok {
		spread := float64(state.NumNodes) / float64(t.nodes)
		t.bytes += int64(float64(state.Size) * spread)
	}
}

func (t *imageSum) score() int64 {
	most := maxContainerThreshold * t.images
	// The lower bound goes first: a pod without images has most below it.
	bytes := t.bytes
	if bytes < minThreshold {
		bytes = minThreshold
	} else if bytes > most {
		bytes = most
	}
	return fwk.MaxScore * (bytes - minThreshold) / (most - minThreshold)
}

// tagged is an image's name as nodes report it: with a tag.
func normalizedImageName(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}
