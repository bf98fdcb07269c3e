package sandbox

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// maxPendingPods and maxAssignedPods bound the pods of an evaluation.
	maxPendingPods  = 200
	maxAssignedPods = 50
)

// Source is where a ClusterState is read from. Reading blocks nothing: it does not use the
// snapshot of the scheduling loop.
type Source struct {
	Nodes corelisters.NodeLister
	Pods  corelisters.PodLister
	// Cache holds assumed and nominated pods.
	Cache *cache.Cache
	// Unsupported returns the field of a pod that this build does not support, and why;
	// such pods are not evaluated.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Pool keeps copies for reuse; nil makes each anew.
	Pool *Pool
	// Host has the clients, informers, volumes and clock for the plugins. They must not
	// change anything through it. The sandbox sets the other fields.
	Host framework.Host
}

// ClusterState is the cluster at one time and the pods of one profile to evaluate. It is
// immutable, and any number of Clusters can be made from it.
type ClusterState struct {
	nodes       []*v1.Node
	assigned    []*v1.Pod
	nominations []nomination
	pods        []*v1.Pod
	pool        *Pool
	host        framework.Host
}

// nomination is a pod and the node for which it is nominated.
type nomination struct {
	pod  *v1.Pod
	node string
}

// Read returns the current ClusterState for the profile of that name.
func (s Source) Read(profile string) (*ClusterState, error) {
	nodes, err := s.Nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := s.Pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	state := &ClusterState{nodes: nodes, pool: s.Pool, host: s.Host}
	slices.SortFunc(state.nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var pending []*v1.Pod
	var recent newestPods
	for _, pod := range pods {
		ofProfile := pod.Spec.SchedulerName == profile && pod.DeletionTimestamp == nil
		if pod.Spec.NodeName != "" {
			state.assigned = append(state.assigned, pod)
			if ofProfile {
				recent.add(pod)
			}
		} else if assumed := s.Cache.Pod(pod.UID); assumed != nil {
			state.assigned = append(state.assigned, assumed)
		} else if ofProfile && s.maySchedule(pod) {
			pending = append(pending, pod)
		}
	}
	for _, node := range s.Cache.NominatedNodes() {
		for _, info := range s.Cache.NominatedPodsForNode(node) {
			state.nominations = append(state.nominations, nomination{info.GetPod(), node})
		}
	}
	state.pods = slices.Concat(recent, samplePending(pending))
	return state, nil
}

// Pods are the pods to evaluate: first the running ones, the newest first, then the
// pending ones in the order of priority and age.
func (c *ClusterState) Pods() []*v1.Pod { return c.pods }

// maySchedule reports whether a pending pod can be scheduled at all.
func (s Source) maySchedule(pod *v1.Pod) bool {
	field, _ := s.Unsupported(pod)
	return field == "" && len(pod.Spec.SchedulingGates) == 0
}

// newestPods are the pods that were assigned last, the newest first.
type newestPods []*v1.Pod

// add adds a pod unless maxAssignedPods newer ones are there.
func (n *newestPods) add(pod *v1.Pod) {
	if full := len(*n) == maxAssignedPods; full && byAssignmentTime((*n)[maxAssignedPods-1], pod) < 0 {
		return
	} else if full {
		*n = (*n)[:maxAssignedPods-1]
	}
	at, _ := slices.BinarySearchFunc(*n, pod, byAssignmentTime)
	*n = slices.Insert(*n, at, pod)
}

// byAssignmentTime orders running pods, the newest first.
func byAssignmentTime(a, b *v1.Pod) int {
	return cmp.Or(assignedAt(b).Compare(assignedAt(a)), byName(a, b))
}

func assignedAt(pod *v1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// samplePending returns up to maxPendingPods pods at equal distances in the queue order.
// The pods at the head of the queue may have waited long and be unlike the others.
func samplePending(pods []*v1.Pod) []*v1.Pod {
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
	})
	if len(pods) <= maxPendingPods {
		return pods
	}
	chosen := make([]*v1.Pod, maxPendingPods)
	for i := range chosen {
		chosen[i] = pods[i*len(pods)/maxPendingPods]
	}
	return chosen
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
