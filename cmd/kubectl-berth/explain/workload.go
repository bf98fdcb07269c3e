package explain

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
)

// page is how many objects are asked for at a time.
const pageSize = 500

// Workload is what makes pods, and how its pods fare, as -o json has it.
type Workload struct {
	// Kind, Namespace and Name are its own.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Wanted is how many pods it asks for; left out where it does not say.
	Desired *int64 `json:"wanted,omitempty"`
	// Pods is how many it has that have not ended, Bound how many of them have a node.
	Pods  int `json:"pods"`
	Bound int `json:"bound"`
	// Nodes are where they are, the most pods first.
	Nodes []NodePods `json:"nodes,omitempty"`
	// Waiting are the pods without a node, by reason, the largest group first.
	Pending []Group `json:"waiting,omitempty"`
	// NotCreated says why pods that it asks for are not there.
	NotCreated []string `json:"notCreated,omitempty"`
}

// NodePods is how many pods are on a node.
type NodePods struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
}

// Group are pods that wait for one reason.
type Group struct {
	// Pods are their names, the one that waits longest first.
	Pods []string `json:"pods"`
	// First is what is known of that one.
	First Explanation `json:"first"`
	// first is that pod, owner what is known of its scheduler.
	firstPod *corev1.Pod
	info     profileInfo
}

// workload explains the pods that an object makes.
func (o *options) explainWorkload(ctx context.Context, c *cluster.Cluster, k *kind, name string) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(k.apiVersion)
	object.SetKind(k.name)
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no %s %q in namespace %q; -n names another", k.name, name, c.Namespace)
	}
	if err != nil {
		return cluster.UserError(err)
	}
	made := &podOwners{objects: []*unstructured.Unstructured{object}, uids: map[types.UID]bool{object.GetUID(): true}}
	if err := made.addIntermediate(ctx, c, k); err != nil {
		return err
	}
	pods, err := made.pods(ctx, c)
	if err != nil {
		return err
	}
	w := Workload{Kind: k.name, Namespace: c.Namespace, Name: name, Desired: desiredPods(object), NotCreated: made.createFailures()}
	w.countNodes(pods)
	if err := o.groupPending(ctx, c, &w, pods); err != nil {
		return err
	}
	if o.output.Structured() {
		return o.output.Print(o.Out, w)
	}
	return o.printWorkload(&w)
}

// makers are an object and those that it makes pods by: a Deployment's ReplicaSets, a
// CronJob's Jobs.
type podOwners struct {
	objects []*unstructured.Unstructured
	uids    map[types.UID]bool
}

// between adds those that stand between the object and its pods.
func (m *podOwners) addIntermediate(ctx context.Context, c *cluster.Cluster, k *kind) error {
	list := &unstructured.UnstructuredList{}
	switch k.name {
	case "Deployment":
		list.SetAPIVersion("apps/v1")
		list.SetKind("ReplicaSetList")
	case "CronJob":
		list.SetAPIVersion("batch/v1")
		list.SetKind("JobList")
	default:
		return nil
	}
	owner := m.objects[0].GetUID()
	for more := ""; ; {
		if err := c.Client.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(pageSize), client.Continue(more)); err != nil {
			return cluster.UserError(err)
		}
		for i := range list.Items {
			if by := metav1.GetControllerOf(&list.Items[i]); by != nil && by.UID == owner {
				m.objects = append(m.objects, list.Items[i].DeepCopy())
				m.uids[list.Items[i].GetUID()] = true
			}
		}
		if more = list.GetContinue(); more == "" {
			return nil
		}
	}
}

// pods are those that were made and have not ended, the oldest first.
func (m *podOwners) pods(ctx context.Context, c *cluster.Cluster) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	list := &corev1.PodList{}
	for more := ""; ; {
		if err := c.Client.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(pageSize), client.Continue(more)); err != nil {
			return nil, cluster.UserError(err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			by := metav1.GetControllerOf(pod)
			if by != nil && m.uids[by.UID] && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				pods = append(pods, pod.DeepCopy())
			}
		}
		if more = list.Continue; more == "" {
			break
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// failures say why pods could not be created, such as a quota.
func (m *podOwners) createFailures() []string {
	var says []string
	for _, object := range m.objects {
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, c := range conditions {
			condition, ok := c.(map[string]any)
			if !ok || condition["type"] != "ReplicaFailure" || condition["status"] != "True" {
				continue
			}
			if text := fmt.Sprint(condition["message"]); !slices.Contains(says, text) {
				says = append(says, text)
			}
		}
	}
	return says
}

// wanted is how many pods an object asks for; nil where it does not say.
func desiredPods(object *unstructured.Unstructured) *int64 {
	for _, path := range [][]string{{"spec", "replicas"}, {"status", "desiredNumberScheduled"}} {
		if n, there, err := unstructured.NestedInt64(object.Object, path...); there && err == nil {
			return &n
		}
	}
	return nil
}

// place counts pods by node.
func (w *Workload) countNodes(pods []*corev1.Pod) {
	w.Pods = len(pods)
	by := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			w.Bound++
			by[pod.Spec.NodeName]++
		}
	}
	for node, n := range by {
		w.Nodes = append(w.Nodes, NodePods{Node: node, Pods: n})
	}
	slices.SortFunc(w.Nodes, func(a, b NodePods) int { return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Node, b.Node)) })
}

// numbers differ between pods that wait for one reason: nodes came and went between
// their attempts.
var digits = regexp.MustCompile(`[0-9]+`)

// reasonOf is what pods have in common that wait for one reason.
func reasonKey(pod *corev1.Pod) string {
	key := pod.Spec.SchedulerName + "\n"
	if pod.DeletionTimestamp != nil {
		return key + "deleted"
	}
	if c := podScheduled(pod); c != nil {
		key += c.Reason + "\n" + digits.ReplaceAllString(c.Message, "N")
	}
	return key
}

// group puts the pods that wait together by reason, and asks about the first of each.
func (o *options) groupPending(ctx context.Context, c *cluster.Cluster, w *Workload, pods []*corev1.Pod) error {
	at := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		key := reasonKey(pod)
		i, known := at[key]
		if !known {
			i = len(w.Pending)
			at[key] = i
			w.Pending = append(w.Pending, Group{firstPod: pod})
		}
		w.Pending[i].Pods = append(w.Pending[i].Pods, pod.Name)
	}
	if len(w.Pending) == 0 {
		return nil
	}
	slices.SortStableFunc(w.Pending, func(a, b Group) int { return cmp.Compare(len(b.Pods), len(a.Pods)) })
	profiles := o.readProfiles(ctx, c)
	for i := range w.Pending {
		g := &w.Pending[i]
		g.info = profiles.find(g.firstPod)
		g.First = explanationOf(g.firstPod, g.info, o.schedulingDecision(ctx, c, g.firstPod))
	}
	return nil
}
