// Package imagelocality prefers nodes that have already pulled the pod's images.
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

// Name is the name of the plugin in profiles.
const Name = "ImageLocality"

// The score rises from 0 to 100 between these thresholds, in bytes of images on the
// node. Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality.
const (
	// minThreshold is the sum below which the score is 0.
	minThreshold int64 = 23 << 20
	// maxContainerThreshold is the largest sum that counts for each image of the pod.
	maxContainerThreshold int64 = 1000 << 20
)

// Plugin scores a node by the sizes of the pod's images that it has.
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

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the score depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodImages, Score: framework.NodeImages | framework.NodeCount}
}

// SignPod signs the pod with the images of its containers.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	images := sets.New[string]()
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			images.Insert(normalizedImageName(containers[i].Image))
		}
	}
	return []fwk.SignFragment{{Key: fwk.ImageNamesSignerName, Value: sets.List(images)}}, nil
}

// Score is 0 for a node that has at most 23 MiB of the pod's images and 100 for a node
// that has at least 1000 MiB for each of them.
func (p *Plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	sum := imageSum{imageStates: node.GetImageStates(), nodes: len(nodes)}
	for image := range imagesOf(pod) {
		sum.add(image)
	}
	return sum.score(), nil
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

// ScoreExtensions returns nil: scores are from 0 to 100 without normalizing.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// imageSum sums up the sizes of a pod's images on one node.
type imageSum struct {
	imageStates map[string]*fwk.ImageStateSummary
	// nodes is the number of nodes in the snapshot.
	nodes int
	// images is the number of images of the pod, whether the node has them or not.
	images int64
	// bytes is the size of the images on the node, each weighted by the share of nodes
	// that have it.
	bytes int64
}

// add counts one image. Its size is weighted by the share of nodes that have it:
// without this, the first node that pulls an image would attract all pods of that
// image.
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
	maxThreshold := maxContainerThreshold * t.images
	// The lower threshold comes first: for a pod without images the upper one is below it.
	bytes := t.bytes
	if bytes < minThreshold {
		bytes = minThreshold
	} else if bytes > maxThreshold {
		bytes = maxThreshold
	}
	return fwk.MaxScore * (bytes - minThreshold) / (maxThreshold - minThreshold)
}

// normalizedImageName returns the name of an image as nodes report it: with a tag.
func normalizedImageName(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}
