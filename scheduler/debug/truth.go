package debug

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
)

// Truth is what an API server has, as far as it is compared.
type APIServerState struct {
	nodes map[string]framework.Resource
	pods  map[types.UID]apiServerPod
}

// known is a pod of which the API server knows.
type apiServerPod struct {
	PodRef
	profile, node string
	requests      framework.Resource
	terminating   bool
}

// NewTruth returns that of an empty cluster.
func NewAPIServerState() *APIServerState {
	return &APIServerState{nodes: map[string]framework.Resource{}, pods: map[types.UID]apiServerPod{}}
}

// AddNode adds a node.
func (t *APIServerState) AddNode(node *v1.Node) {
	t.nodes[node.Name] = framework.NewResource(node.Status.Allocatable)
}

// AddPod adds a pod. One that has ended takes no room, and is left out.
func (t *APIServerState) AddPod(pod *v1.Pod) {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return
	}
	info, _ := framework.NewPodInfo(pod) // its requests are good whatever its affinity is
	t.pods[pod.UID] = apiServerPod{
		PodRef: podRef(pod), profile: pod.Spec.SchedulerName, node: pod.Spec.NodeName,
		requests: info.Requests(), terminating: pod.DeletionTimestamp != nil,
	}
}
