package binding

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// standing is what a version of a pod says of its scheduling.
type standing struct {
	version   string
	condition *v1.PodCondition
	nominated string
}

func standingOf(pod *v1.Pod) standing {
	return standing{pod.ResourceVersion, scheduled(pod), pod.Status.NominatedNodeName}
}

// news is what is to be written into a pod's status.
type news struct {
	pod       *v1.Pod
	condition *v1.PodCondition
	nominated *string
}

func notScheduled(pod *v1.Pod, reason, message string) *v1.PodCondition {
	return &v1.PodCondition{
		Type:               v1.PodScheduled,
		Status:             v1.ConditionFalse,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: pod.Generation,
	}
}

// patch returns the strategic merge patch that n amounts to, nil when the pod
// has it all already. It carries the UID, so that a pod re-created under the
// same name is left alone.
func (n *news) patch(known standing, now metav1.Time) []byte {
	status := map[string]any{}
	if n.nominated != nil && *n.nominated != known.nominated {
		status["nominatedNodeName"] = *n.nominated
		if *n.nominated == "" {
			status["nominatedNodeName"] = nil
		}
	}
	if c := n.condition; c != nil {
		c.LastTransitionTime = now
		if old := known.condition; old == nil || !sameCondition(old, c) {
			if old != nil && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			status["conditions"] = []*v1.PodCondition{c}
		}
	}
	if len(status) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.pod.UID}, "status": status})
	if err != nil {
		return nil
	}
	return patch
}

func scheduled(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
