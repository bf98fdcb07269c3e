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

	"github.com/berthdev/berth/api/v1alpha1"
)

// Result is the result of a replay.
type Result struct {
	// Versions is the number of versions of pods and nodes.
	Versions, Pods, Binds int
	// Pending is the number of pods that have no node at the end.
	Pending int
	// ByEpoch is the number of binds by leader epoch.
	ByEpoch map[int64]int
	// MostPods is the largest number of pods that a node ever had, and Capacity what that
	// node takes.
	MostPods, Capacity int64
	// Violations are violations at some version. Unsettled are pods that are pending at the
	// end and should not be, or are not unschedulable: violations unless the history is
	// still changing.
	Violations, Unsettled []string
}

// String returns the result in a line, and a line for each violation.
func (v Result) String() string {
	text := fmt.Sprintf("%d versions replayed: %d pods, %d binds by %d leaders, %d pending at the end; the fullest node had %d pods of %d; %d violations",
		v.Versions, v.Pods, v.Binds, len(v.ByEpoch), v.Pending, v.MostPods, v.Capacity, len(v.Violations)+len(v.Unsettled))
	return strings.Join(slices.Concat([]string{text}, v.Violations, v.Unsettled), "\n  ")
}

// replay is the state of the cluster at a version.
type replay struct {
	Result
	pods    map[types.UID]*corev1.Pod
	boundTo map[types.UID]string // the node of each pod, deleted ones included
	nodes   map[string]*corev1.Node
	used    map[string]corev1.ResourceList
	epoch   int64
}

// Check replays the pods and nodes of a history, of the pods those that name one of the
// schedulers. At its end each pending pod must be unschedulable. The package checker decides
// more, of a whole cluster; this is for suites that look at a part of one.
func Check(changes []Change, schedulers ...string) Result {
	r := &replay{
		Result: Result{ByEpoch: map[int64]int{}}, pods: map[types.UID]*corev1.Pod{}, boundTo: map[types.UID]string{},
		nodes: map[string]*corev1.Node{}, used: map[string]corev1.ResourceList{},
	}
	for _, change := range changes {
		switch o := change.Object.(type) {
		case *corev1.Node:
			r.nodes[o.Name] = o
			if change.Deleted {
				delete(r.nodes, o.Name)
			}
		case *corev1.Pod:
			if slices.Contains(schedulers, o.Spec.SchedulerName) || o.Spec.NodeName != "" {
				r.pod(change, o)
			}
		default:
			continue
		}
		r.Versions++
	}
	r.Pods = len(r.boundTo)
	r.checkPending()
	return r.Result
}

func (r *replay) fail(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

// pod applies a version of a pod.
func (r *replay) pod(change Change, pod *corev1.Pod) {
	before := r.pods[pod.UID]
	node, was := pod.Spec.NodeName, r.boundTo[pod.UID]
	if before != nil && usesResources(before) {
		r.add(before, -1)
	}
	if change.Deleted {
		delete(r.pods, pod.UID)
	} else {
		r.pods[pod.UID] = pod
		if usesResources(pod) {
			r.add(pod, 1)
		}
	}
	r.boundTo[pod.UID] = node
	switch {
	case was != "" && node != was:
		r.fail("version %d: %s/%s was on %s and is on %q", change.Revision, pod.Namespace, pod.Name, was, node)
	case was == "" && node != "":
		r.bind(change.Revision, pod, node)
	}
}

// usesResources reports whether a pod uses resources of its node.
func usesResources(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// add adds the requests of a pod to its node, or subtracts them.
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

// bind checks a bind at its version.
func (r *replay) bind(version int64, pod *corev1.Pod, name string) {
	r.Binds++
	decided, err := readDecision(pod)
	if err != nil || decided.Node != name {
		r.fail("version %d: %s/%s was bound to %s by a decision that says %q", version, pod.Namespace, pod.Name, name, pod.Annotations[v1alpha1.AnnotationDecision])
	}
	if decided.Epoch < r.epoch {
		r.fail("version %d: %s/%s was bound by epoch %d, after epoch %d had bound", version, pod.Namespace, pod.Name, decided.Epoch, r.epoch)
	}
	r.epoch = max(r.epoch, decided.Epoch)
	r.ByEpoch[decided.Epoch]++
	node := r.nodes[name]
	if node == nil {
		r.fail("version %d: %s/%s was bound to %s, which does not exist", version, pod.Namespace, pod.Name, name)
		return
	}
	used := r.used[name]
	if pods := used[corev1.ResourcePods]; pods.Value() > r.MostPods {
		r.MostPods, r.Capacity = pods.Value(), node.Status.Allocatable.Pods().Value()
	}
	if over := exceeds(used, node.Status.Allocatable); over != "" {
		r.fail("version %d: %s/%s was bound to %s, which then had %s", version, pod.Namespace, pod.Name, name, over)
	}
}

// decision is a part of a bound pod's annotation.
type decision struct {
	Node  string
	Epoch int64
}

func readDecision(pod *corev1.Pod) (d decision, err error) {
	return d, json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationDecision]), &d)
}

// exceeds describes the first resource of which more is used than offered; "" if there is
// none.
func exceeds(used, offered corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		has, room := used[name], offered[name]
		if has.Cmp(room) > 0 {
			return fmt.Sprintf("%s of %s %s", has.String(), room.String(), name)
		}
	}
	return ""
}

// checkPending checks the pods that have no node at the end.
func (r *replay) checkPending() {
	for _, pod := range r.pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		r.Pending++
		if !isUnschedulable(pod) {
			r.Unsettled = append(r.Unsettled, fmt.Sprintf("%s/%s has no node, and is not unschedulable: %+v", pod.Namespace, pod.Name, pod.Status.Conditions))
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
				r.Unsettled = append(r.Unsettled, fmt.Sprintf("%s/%s is pending, and %s has room for it", pod.Namespace, pod.Name, name))
			}
		}
	}
}

// isUnschedulable reports whether a pod's condition says that it is unschedulable.
func isUnschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
