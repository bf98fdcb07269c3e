package ui

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// Pod is what the page shows of a pod that has not ended.
type Pod struct {
	// Key is namespace/name.
	Key string `json:"key"`
	UID string `json:"uid"`
	// Profile is spec.schedulerName.
	Profile string `json:"profile"`
	// Node is empty for a pending pod.
	Node  string `json:"node"`
	Phase string `json:"phase"`
	// CPU is what the pod requests in millicores, Memory in bytes.
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
	// Extended are the requested extended resources.
	Extended map[string]int64 `json:"extended,omitempty"`
	// Devices is how many devices the pod got, or, where that is not recorded, how many
	// ResourceClaims it has.
	Devices int         `json:"devices,omitempty"`
	Created metav1.Time `json:"created"`
	// Nominated is the node in the pod's status that preemption makes free for a pending pod,
	// or that another component proposes.
	Nominated string `json:"nominated,omitempty"`
	// Queue is the LocalQueue of Kueue that the pod's label names.
	Queue string `json:"queue,omitempty"`
	// Bound is the time of PodScheduled=True, nil for a pending pod.
	Bound *metav1.Time `json:"bound"`
	// Reason and Message are of PodScheduled=False.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Owner is kind/name of the controller, empty for none.
	Owner string `json:"owner"`
	// Annotated: the pod has the annotation with the decision.
	Annotated   bool  `json:"annotated"`
	Priority    int32 `json:"priority"`
	Terminating bool  `json:"terminating,omitempty"`
}

// kueueLabel is the label by which a pod names its LocalQueue.
// Source: Kueue, https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/.
const kueueLabel = "kueue.x-k8s.io/queue-name"

// requestOptions make the requests those that the scheduler counts on nodes.
var requestOptions = resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}

// podRecord returns what the page shows of a pod; nil for one that has ended.
func podRecord(object client.Object) any {
	pod := object.(*corev1.Pod)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	requests := resourcehelper.PodRequests(pod, requestOptions)
	_, annotated := pod.Annotations[v1alpha1.AnnotationDecision]
	record := Pod{
		Key: keyOf(pod), UID: string(pod.UID), Profile: pod.Spec.SchedulerName, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase),
		CPU: requests.Cpu().MilliValue(), Memory: requests.Memory().Value(), Devices: devicesOf(pod),
		Created: pod.CreationTimestamp, Annotated: annotated, Terminating: pod.DeletionTimestamp != nil,
		Queue: pod.Labels[kueueLabel],
	}
	if record.Node == "" {
		record.Nominated = pod.Status.NominatedNodeName
	}
	if pod.Spec.Priority != nil {
		record.Priority = *pod.Spec.Priority
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		record.Owner = owner.Kind + "/" + owner.Name
	}
	for name, quantity := range requests {
		if isExtended(name) {
			if record.Extended == nil {
				record.Extended = map[string]int64{}
			}
			record.Extended[string(name)] = quantity.Value()
		}
	}
	record.setCondition(pod)
	return record
}

// setCondition sets the fields that the condition PodScheduled is about.
func (record *Pod) setCondition(pod *corev1.Pod) {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != corev1.PodScheduled:
		case c.Status == corev1.ConditionTrue:
			record.Bound = &metav1.Time{Time: c.LastTransitionTime.Time}
		default:
			record.Reason, record.Message = c.Reason, c.Message
		}
	}
}

// devicesOf returns how many devices a pod got, which the annotation says; otherwise how many
// ResourceClaims it has.
func devicesOf(pod *corev1.Pod) int {
	claims := len(pod.Spec.ResourceClaims)
	if pod.Status.ExtendedResourceClaimStatus != nil {
		claims++
	}
	text, annotated := pod.Annotations[v1alpha1.AnnotationDecision]
	if claims == 0 || !annotated {
		return claims
	}
	d, err := decision.ParseAnnotation(text)
	if err != nil || d.Node != pod.Spec.NodeName || len(d.Devices) == 0 {
		return claims // users may have changed the annotation
	}
	return len(d.Devices)
}

// keyOf returns namespace/name, or the name of an object without a namespace.
func keyOf(object metav1.Object) string { return toolscache.MetaObjectToName(object).String() }
