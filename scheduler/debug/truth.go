package debug

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
)

// APIServerState is what the API server has, as far as it is compared.
type APIServerState struct {
	nodes map[string]framework.Resource
	pods  map[types.UID]apiServerPod
}

// apiServerPod is a pod in the API server.
type apiServerPod struct {
	PodRef
	profile, node string
	requests      framework.Resource
	terminating   bool
}

// NewAPIServerState returns the state of an empty cluster.
func NewAPIServerState() *APIServerState {
	return &APIServerState{nodes: map[string]framework.Resource{}, pods: map[types.UID]apiServerPod{}}
}

// AddNode adds a node.
func (s *APIServerState) AddNode(node *v1.Node) {
	s.nodes[node.Name] = framework.NewResource(node.Status.Allocatable)
}

// AddPod adds a pod. It ignores one that has succeeded or failed, which uses no
// resources.
func (s *APIServerState) AddPod(pod *v1.Pod) {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return
	}
	info, _ := framework.NewPodInfo(pod) // an error is about its affinity, not its requests
	s.pods[pod.UID] = apiServerPod{
		PodRef: podRef(pod), profile: pod.Spec.SchedulerName, node: pod.Spec.NodeName,
		requests: info.Requests(), terminating: pod.DeletionTimestamp != nil,
	}
}
