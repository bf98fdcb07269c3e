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
	mostWaiting = 200
	mostRecent  = 50
)

// Source is where scenes are taken from. Nothing of it is held up meanwhile:
// the loop's own view of the cluster is not looked at.
type Source struct {
	Nodes corelisters.NodeLister
	Pods  corelisters.PodLister
	// Live knows what is assumed and what is promised.
	Live *cache.Cache
	// Unsupported names the field of a pod that this build cannot honour; such
	// pods are not tried.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Towns keeps the copies; nil to make each anew.
	Towns *Towns
}

// Scene is the cluster at one time, and the pods of one profile to ask about.
// It does not change; any number of copies of the cluster can be made of it.
type Scene struct {
	nodes    []*v1.Node
	placed   []*v1.Pod
	promises []promise
	pods     []*v1.Pod
	towns    *Towns
}

// promise is room on a node that a pod was promised.
type promise struct {
	pod  *v1.Pod
	node string
}

// Take takes a scene for the profile of that name.
func (s Source) Take(profile string) (*Scene, error) {
	nodes, err := s.Nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := s.Pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	scene := &Scene{nodes: nodes, towns: s.Towns}
	slices.SortFunc(scene.nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var waiting []*v1.Pod
	var recent newest
	for _, pod := range pods {
		ours := pod.Spec.SchedulerName == profile && pod.DeletionTimestamp == nil
		if pod.Spec.NodeName != "" {
			scene.placed = append(scene.placed, pod)
			if ours {
				recent.add(pod)
			}
		} else if assumed := s.Live.Pod(pod.UID); assumed != nil {
			scene.placed = append(scene.placed, assumed)
		} else if ours && s.maySchedule(pod) {
			waiting = append(waiting, pod)
		}
	}
	for _, node := range s.Live.NominatedNodes() {
		for _, info := range s.Live.NominatedPodsForNode(node) {
			scene.promises = append(scene.promises, promise{info.GetPod(), node})
		}
	}
	scene.pods = slices.Concat(recent, spread(waiting))
	return scene, nil
}

// Pods are those to ask about: first those that run, the newest first, then
// those that wait, as they would have their turn.
func (s *Scene) Pods() []*v1.Pod { return s.pods }

// maySchedule says whether a pod that waits can be tried at all.
func (s Source) maySchedule(pod *v1.Pod) bool {
	field, _ := s.Unsupported(pod)
	return field == "" && len(pod.Spec.SchedulingGates) == 0
}

// newest are the pods that got their node last, the newest first.
type newest []*v1.Pod

// add takes a pod in, unless there are enough that are newer.
func (n *newest) add(pod *v1.Pod) {
	if full := len(*n) == mostRecent; full && byAge((*n)[mostRecent-1], pod) < 0 {
		return
	} else if full {
		*n = (*n)[:mostRecent-1]
	}
	at, _ := slices.BinarySearchFunc(*n, pod, byAge)
	*n = slices.Insert(*n, at, pod)
}

// byAge orders pods that run, the newest first.
func byAge(a, b *v1.Pod) int {
	return cmp.Or(placedAt(b).Compare(placedAt(a)), byName(a, b))
}

func placedAt(pod *v1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// spread are pods from all over the line in which they wait: who stands first
// may have stood there for long, and be like none of the others.
func spread(pods []*v1.Pod) []*v1.Pod {
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
	})
	if len(pods) <= mostWaiting {
		return pods
	}
	chosen := make([]*v1.Pod, mostWaiting)
	for i := range chosen {
		chosen[i] = pods[i*len(pods)/mostWaiting]
	}
	return chosen
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
