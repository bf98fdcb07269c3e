// Package trial asks the plugins of a profile that does not run yet about real
// pods: those that wait for it, and some that run, on a copy of the cluster.
// They are asked by the code that asks for real, up to the chosen node, and
// nothing comes of it: no pod is bound, told or counted.
package trial

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/berthdev/berth/scheduler/cache"
)

const (
	// mostWaiting and mostRecent bound the pods that are asked about.
	maxPendingPods  = 200
	maxAssignedPods = 50
)

// Source is where scenes are taken from. Nothing of it is held up meanwhile:
// the loop's own view of the cluster is not looked at.
type Source struct {
	Nodes corelisters.NodeLister
	Pods  corelisters.PodLister
	// Live knows what is assumed and what is promised.
	Cache *cache.Cache
	// Unsupported names the field of a pod that this build cannot honour; such
	// pods are not tried.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Towns keeps the copies; nil to make each anew.
	Pool *Pool
}

// Scene is the cluster at one time, and the pods of one profile to ask about.
// It does not change; any number of copies of the cluster can be made of it.
type ClusterState struct {
	nodes       []*v1.Node
	assigned    []*v1.Pod
	nominations []nomination
	pods        []*v1.Pod
	pool        *Pool
}

// promise is room on a node that a pod was promised.
type nomination struct {
	pod  *v1.Pod
	node string
}

// Take takes a scene for the profile of that name.
func (s Source) Read(profile string) (*ClusterState, error) {
	nodes, err := s.Nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := s.Pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	scene := &ClusterState{nodes: nodes, pool: s.Pool}
	slices.SortFunc(scene.nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var waiting []*v1.Pod
	var recent newestPods
	for _, pod := range pods {
		ours := pod.Spec.SchedulerName == profile && pod.DeletionTimestamp == nil
		if pod.Spec.NodeName != "" {
			scene.assigned = append(scene.assigned, pod)
			if ours {
				recent.add(pod)
			}
		} else if assumed := s.Cache.Pod(pod.UID); assumed != nil {
			scene.assigned = append(scene.assigned, assumed)
		} else if ours && s.maySchedule(pod) {
			waiting = append(waiting, pod)
		}
	}
	for _, node := range s.Cache.NominatedNodes() {
		for _, info := range s.Cache.NominatedPodsForNode(node) {
			scene.nominations = append(scene.nominations, nomination{info.GetPod(), node})
		}
	}
	scene.pods = slices.Concat(recent, samplePending(waiting))
	return scene, nil
}

// Pods are those to ask about: first those that run, the newest first, then
// those that wait, as they would have their turn.
func (s *ClusterState) Pods() []*v1.Pod { return s.pods }

// maySchedule says whether a pod that waits can be tried at all.
func (s Source) maySchedule(pod *v1.Pod) bool {
	field, _ := s.Unsupported(pod)
	return field == "" && len(pod.Spec.SchedulingGates) == 0
}

// newest are the pods that got their node last, the newest first.
type newestPods []*v1.Pod

// add takes a pod in, unless there are enough that are newer.
func (n *newestPods) add(pod *v1.Pod) {
	if full := len(*n) == maxAssignedPods; full && byAssignmentTime((*n)[maxAssignedPods-1], pod) < 0 {
		return
	} else if full {
		*n = (*n)[:maxAssignedPods-1]
	}
	at, _ := slices.BinarySearchFunc(*n, pod, byAssignmentTime)
	*n = slices.Insert(*n, at, pod)
}

// byAge orders pods that run, the newest first.
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

// spread are pods from all over the line in which they wait: who stands first
// may have stood there for long, and be like none of the others.
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
