// Package nodepreferavoidpods avoids nodes whose annotation names the controller of the
// pod. kube-scheduler removed the plugin in 1.23. It runs only in profiles that name
// it.
package nodepreferavoidpods

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the name of the plugin in profiles.
const Name = "NodePreferAvoidPods"

// Plugin reads the annotation scheduler.alpha.kubernetes.io/preferAvoidPods of nodes.
// No facet describes this annotation, so the plugin does not declare what it reads and
// is called for each node in each attempt.
type Plugin struct{}

var _ fwk.ScorePlugin = (*Plugin)(nil)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Score is 0 for a node whose annotation names the pod's controller by kind and UID,
// and 100 for every other node. Only ReplicationControllers and ReplicaSets can be
// named. An annotation that does not parse names no controller.
//
// Source: pkg/scheduler/framework/plugins/nodepreferavoidpods of Kubernetes 1.22.
func (*Plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicationController" && owner.Kind != "ReplicaSet" {
		return fwk.MaxScore, nil
	}
	text, ok := node.Node().Annotations[v1.PreferAvoidPodsAnnotationKey]
	if !ok {
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

// ScoreExtensions returns nil: scores are from 0 to 100 without normalizing.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
