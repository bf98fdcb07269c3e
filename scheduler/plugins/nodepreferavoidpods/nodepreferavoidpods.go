// Package nodepreferavoidpods keeps the pods of a controller from nodes that are
// annotated against it, where there are others. kube-scheduler dropped the plugin
// in 1.23; no profile runs it that does not name it.
package nodepreferavoidpods

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is how profiles name the plugin.
const Name = "NodePreferAvoidPods"

// Plugin reads the annotation scheduler.alpha.kubernetes.io/preferAvoidPods of
// nodes. No facet stands for that, so that it is asked about each node anew: it
// declares nothing of what it reads.
type Plugin struct{}

var _ fwk.ScorePlugin = (*Plugin)(nil)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Score is 0 for a node whose annotation names the pod's controller, by kind and
// UID, and 100 for every other. ReplicationControllers and ReplicaSets alone can
// be named; an annotation that cannot be read names none.
//
// Source: pkg/scheduler/framework/plugins/nodepreferavoidpods of Kubernetes 1.22.
func (*Plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicationController" && owner.Kind != "ReplicaSet" {
		return fwk.MaxScore, nil
	}
	text, there := node.Node().Annotations[v1.PreferAvoidPodsAnnotationKey]
	if !there {
		return fwk.MaxScore, nil
	}
	var avoided v1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoided); err != nil {
		return fwk.MaxScore, nil
	}
	for _, entry := range avoided.PreferAvoidPods {
		if c := entry.PodSignature.PodController; c != nil && c.Kind == owner.Kind && c.UID == owner.UID {
			return 0, nil
		}
	}
	return fwk.MaxScore, nil
}

// ScoreExtensions is nil: the score keeps to the range by itself.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
