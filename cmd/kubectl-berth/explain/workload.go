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
	"github.com/berthdev/berth/scheduler/podgroups"
)

// pageSize is how many objects are listed at a time.
const pageSize = 500

// Workload is the output of -o json for a workload.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Desired is how many pods the workload should have; nil if it does not have that field.
	Desired *int64 `json:"desired,omitempty"`
	// Pods is how many pods it has that have not ended, Bound how many of them are bound.
	Pods  int `json:"pods"`
	Bound int `json:"bound"`
	// Nodes are the nodes of the bound pods, those with the most pods first.
	Nodes []NodePods `json:"nodes,omitempty"`
	// Pending are the pending pods by reason, the largest group first.
	Pending []Group `json:"pending,omitempty"`
	// NotCreated are the reasons why pods could not be created.
	NotCreated []string `json:"notCreated,omitempty"`
}

// NodePods is the number of pods on a node.
type NodePods struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
}

// Group is the pending pods with one reason.
type Group struct {
	// Pods are the names of the pods, the oldest first.
	Pods []string `json:"pods"`
	// Group is the name of the group that the pods are scheduled with; empty for pods on their
	// own.
	Group string `json:"group,omitempty"`
	// First explains the oldest pod.
	First Explanation `json:"first"`
	// firstPod is the oldest pod, info what is known of its profile.
	firstPod *corev1.Pod
	info     profileInfo
}

// explainWorkload explains the pods of a workload.
func (o *options) explainWorkload(ctx context.Context, c *cluster.Cluster, k *kind, name string) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(k.apiVersion)
	object.SetKind(k.name)
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q not found in namespace %q; use -n for another namespace", k.name, name, c.Namespace)
	}
	if err != nil {
		return cluster.UserError(err)
	}
	owners := &podOwners{objects: []*unstructured.Unstructured{object}, uids: map[types.UID]bool{object.GetUID(): true}}
	if err := owners.addIntermediate(ctx, c, k); err != nil {
		return err
	}
	pods, err := owners.pods(ctx, c)
	if err != nil {
		return err
	}
	w := Workload{Kind: k.name, Namespace: c.Namespace, Name: name, Desired: desiredPods(object), NotCreated: owners.createFailures()}
	w.countNodes(pods)
	o.groupPending(ctx, c, &w, pods)
	if o.output.Structured() {
		return o.output.Print(o.Out, w)
	}
	return o.printWorkload(&w)
}

// podOwners are a workload and the objects that own its pods on its behalf: the ReplicaSets
// of a Deployment, the Jobs of a CronJob.
type podOwners struct {
	objects []*unstructured.Unstructured
	uids    map[types.UID]bool
}

// addIntermediate adds the objects between the workload and its pods.
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
	for token := ""; ; {
		if err := c.Client.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(pageSize), client.Continue(token)); err != nil {
			return cluster.UserError(err)
		}
		for i := range list.Items {
			if by := metav1.GetControllerOf(&list.Items[i]); by != nil && by.UID == owner {
				m.objects = append(m.objects, list.Items[i].DeepCopy())
				m.uids[list.Items[i].GetUID()] = true
			}
		}
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}

// pods returns the pods that have not ended, the oldest first.
func (m *podOwners) pods(ctx context.Context, c *cluster.Cluster) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	list := &corev1.PodList{}
	for token := ""; ; {
		if err := c.Client.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(pageSize), client.Continue(token)); err != nil {
			return nil, cluster.UserError(err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			by := metav1.GetControllerOf(pod)
			if by != nil && m.uids[by.UID] && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				pods = append(pods, pod.DeepCopy())
			}
		}
		if token = list.Continue; token == "" {
			break
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// createFailures returns why pods could not be created, such as a quota.
func (m *podOwners) createFailures() []string {
	var messages []string
	for _, object := range m.objects {
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, c := range conditions {
			condition, ok := c.(map[string]any)
			if !ok || condition["type"] != "ReplicaFailure" || condition["status"] != "True" {
				continue
			}
			if text := fmt.Sprint(condition["message"]); !slices.Contains(messages, text) {
				messages = append(messages, text)
			}
		}
	}
	return messages
}

// desiredPods returns how many pods an object should have; nil if it does not have that
// field.
func desiredPods(object *unstructured.Unstructured) *int64 {
	for _, path := range [][]string{{"spec", "replicas"}, {"status", "desiredNumberScheduled"}} {
		if n, there, err := unstructured.NestedInt64(object.Object, path...); there && err == nil {
			return &n
		}
	}
	return nil
}

// countNodes counts pods by node.
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

// digits match the numbers in messages, which differ between pods with the same reason: the
// number of nodes changes between their attempts.
var digits = regexp.MustCompile(`[0-9]+`)

// reasonKey returns a key that pods with the same reason have in common.
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

// groupPending groups the pending pods by reason, and explains the oldest of each group.
func (o *options) groupPending(ctx context.Context, c *cluster.Cluster, w *Workload, pods []*corev1.Pod) {
	at, groups := map[string]int{}, groupLookup{options: o, cluster: c, scheduled: map[podgroups.Key]bool{}}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		key, group := reasonKey(pod), ""
		if named, ok := groups.find(ctx, pod); ok {
			key, group = pod.Spec.SchedulerName+"\n\n"+named.String(), named.Name
		}
		i, known := at[key]
		if !known {
			i = len(w.Pending)
			at[key] = i
			w.Pending = append(w.Pending, Group{firstPod: pod, Group: group})
		}
		w.Pending[i].Pods = append(w.Pending[i].Pods, pod.Name)
	}
	if len(w.Pending) == 0 {
		return
	}
	slices.SortStableFunc(w.Pending, func(a, b Group) int { return cmp.Compare(len(b.Pods), len(a.Pods)) })
	profiles := o.readProfiles(ctx, c)
	for i := range w.Pending {
		g := &w.Pending[i]
		g.info = profiles.find(g.firstPod)
		g.First = o.explanation(ctx, c, g.firstPod, g.info)
	}
}
