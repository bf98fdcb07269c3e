package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
)

// decisionKey is the annotation on what Berth bound.
const decisionKey = "berth.dev/decision"

// Verdict is what a history was found to be.
type Verdict struct {
	// Versions are those of pods and nodes that were replayed.
	Versions, Pods, Binds int
	// Waiting is how many pods had no node in the end, and were told why.
	Waiting int
	// ByEpoch is how many pods each leadership bound.
	ByEpoch map[int64]int
	// Fullest is the most, in pods, that a node ever held, and Offers what that
	// one takes.
	Fullest, Offers int64
	// Violations say what must never be, Unsettled who waits in the end and should
	// not, or not without having been told: that is one, too, unless it is too early
	// to ask.
	Violations, Unsettled []string
}

// String is the verdict in a line, and a line for each violation.
func (v Verdict) String() string {
	text := fmt.Sprintf("%d versions replayed: %d pods, %d binds by %d leaderships, %d waiting in the end; the fullest node held %d pods of %d; %d violations",
		v.Versions, v.Pods, v.Binds, len(v.ByEpoch), v.Waiting, v.Fullest, v.Offers, len(v.Violations)+len(v.Unsettled))
	return strings.Join(slices.Concat([]string{text}, v.Violations, v.Unsettled), "\n  ")
}

// replay is the state of the cluster as far as it was replayed.
type replay struct {
	Verdict
	pods  map[types.UID]*corev1.Pod
	was   map[types.UID]string // where each pod was bound, for ever
	nodes map[string]*corev1.Node
	used  map[string]corev1.ResourceList
	epoch int64
}

// Check replays a history of pods that name one of the schedulers, version by
// version. The history must have come to rest: who waits at its end is asked why.
func Check(changes []Change, schedulers ...string) Verdict {
	r := &replay{
		Verdict: Verdict{ByEpoch: map[int64]int{}}, pods: map[types.UID]*corev1.Pod{}, was: map[types.UID]string{},
		nodes: map[string]*corev1.Node{}, used: map[string]corev1.ResourceList{},
	}
	for _, change := range changes {
		switch {
		case change.Node != nil && change.Gone:
			delete(r.nodes, change.Node.Name)
		case change.Node != nil:
			r.nodes[change.Node.Name] = change.Node
		case slices.Contains(schedulers, change.Pod.Spec.SchedulerName) || change.Pod.Spec.NodeName != "":
			r.pod(change)
		}
		r.Versions++
	}
	r.Pods = len(r.was)
	r.rest()
	return r.Verdict
}

func (r *replay) fail(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

// pod takes one version of a pod.
func (r *replay) pod(change Change) {
	pod, before := change.Pod, r.pods[change.Pod.UID]
	node, was := pod.Spec.NodeName, r.was[pod.UID]
	if before != nil && takes(before) {
		r.add(before, -1)
	}
	if change.Gone {
		delete(r.pods, pod.UID)
	} else {
		r.pods[pod.UID] = pod
		if takes(pod) {
			r.add(pod, 1)
		}
	}
	r.was[pod.UID] = node
	switch {
	case was != "" && node != was:
		r.fail("version %d: %s/%s was on %s and is on %q", change.Version, pod.Namespace, pod.Name, was, node)
	case was == "" && node != "":
		r.bind(change, node)
	}
}

// takes says whether a pod takes room on its node.
func takes(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// add counts what a pod takes, or gives back.
func (r *replay) add(pod *corev1.Pod, sign int64) {
	used := r.used[pod.Spec.NodeName]
	if used == nil {
		used = corev1.ResourceList{}
		r.used[pod.Spec.NodeName] = used
	}
	for name, quantity := range requests(pod) {
		sum := used[name]
		if sign < 0 {
			sum.Sub(quantity)
		} else {
			sum.Add(quantity)
		}
		used[name] = sum
	}
}

func requests(pod *corev1.Pod) corev1.ResourceList {
	all := resource.PodRequests(pod, resource.PodResourcesOptions{})
	all[corev1.ResourcePods] = *apiresource.NewQuantity(1, apiresource.DecimalSI)
	return all
}

// bind holds a bind to what must be true of it at that version.
func (r *replay) bind(change Change, name string) {
	pod := change.Pod
	r.Binds++
	decided, err := decisionOf(pod)
	if err != nil || decided.Node != name {
		r.fail("version %d: %s/%s was bound to %s by a decision that says %q", change.Version, pod.Namespace, pod.Name, name, pod.Annotations[decisionKey])
	}
	if decided.Epoch < r.epoch {
		r.fail("version %d: %s/%s was bound by epoch %d, after epoch %d had bound", change.Version, pod.Namespace, pod.Name, decided.Epoch, r.epoch)
	}
	r.epoch = max(r.epoch, decided.Epoch)
	r.ByEpoch[decided.Epoch]++
	node := r.nodes[name]
	if node == nil {
		r.fail("version %d: %s/%s was bound to %s, which is not there", change.Version, pod.Namespace, pod.Name, name)
		return
	}
	used := r.used[name]
	if pods := used[corev1.ResourcePods]; pods.Value() > r.Fullest {
		r.Fullest, r.Offers = pods.Value(), node.Status.Allocatable.Pods().Value()
	}
	if over := exceeds(used, node.Status.Allocatable); over != "" {
		r.fail("version %d: %s/%s was bound to %s, which then held %s", change.Version, pod.Namespace, pod.Name, name, over)
	}
}

// decision is what a bound pod says of how it was decided about.
type decision struct {
	Node  string
	Epoch int64
}

func decisionOf(pod *corev1.Pod) (d decision, err error) {
	return d, json.Unmarshal([]byte(pod.Annotations[decisionKey]), &d)
}

// exceeds says of what there is more than a node offers.
func exceeds(used, offered corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		has, room := used[name], offered[name]
		if has.Cmp(room) > 0 {
			return fmt.Sprintf("%s of %s %s", has.String(), room.String(), name)
		}
	}
	return ""
}

// rest holds who has no node in the end to why.
func (r *replay) rest() {
	for _, pod := range r.pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		r.Waiting++
		if !refused(pod) {
			r.Unsettled = append(r.Unsettled, fmt.Sprintf("%s/%s has no node, and was not refused: %+v", pod.Namespace, pod.Name, pod.Status.Conditions))
		}
		for name, node := range r.nodes {
			together := corev1.ResourceList{}
			for _, list := range []corev1.ResourceList{r.used[name], requests(pod)} {
				for what, quantity := range list {
					sum := together[what]
					sum.Add(quantity)
					together[what] = sum
				}
			}
			if exceeds(together, node.Status.Allocatable) == "" {
				r.Unsettled = append(r.Unsettled, fmt.Sprintf("%s/%s waits, and %s has room for it", pod.Namespace, pod.Name, name))
			}
		}
	}
}

// refused says whether a pod was told that it fits nowhere.
func refused(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
