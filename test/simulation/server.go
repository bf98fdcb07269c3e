package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/scheduler/eventhandlers"
)

var podResource = schema.GroupResource{Resource: "pods"}

// object is a Pod, a Node, a PodGroup or of a further kind. Objects in the model are replaced, never changed.
type object interface {
	metav1.Object
	runtime.Object
}

// server is the model of the API server: the objects, and the log of all writes, which watches
// read at their own pace.
type server struct {
	version int
	pods    map[string]*v1.Pod // by namespace/name
	nodes   map[string]*v1.Node
	// sorted has all pods, and podsByNode the live ones of each node, in the order of their
	// keys: checks read them after nearly every step.
	sorted     []*v1.Pod
	podsByNode map[string][]*v1.Pod
	// podGroups are by namespace/name, as pods.
	podGroups map[string]*schedulingv1beta1.PodGroup
	// further are the objects of further kinds: see kinds.go.
	further objects
	log     []change
	// onBind is called for each Binding that is committed, with the pod before and after it.
	onBind func(before, after *v1.Pod)
	// onChange is called for each write of a pod, with the pod before and after it; nil for none.
	onChange func(before, after *v1.Pod)
	// onEvict is called for each deletion by Berth, with the pod before it.
	onEvict func(pod *v1.Pod)
	now     func() time.Time
	// trimmed are pods as informers deliver them, each made once.
	trimmed map[*v1.Pod]*v1.Pod
}

// change is one write: an addition without old, a deletion without new.
type change struct {
	old, new object
	// version is the resource version of the write.
	version int
}

func newServer() *server {
	return &server{
		pods: map[string]*v1.Pod{}, nodes: map[string]*v1.Node{}, podsByNode: map[string][]*v1.Pod{},
		podGroups: map[string]*schedulingv1beta1.PodGroup{}, further: objects{}, trimmed: map[*v1.Pod]*v1.Pod{},
	}
}

// transform is the manager's transform where all plugins are in-tree. Responses to GET and
// PATCH do not pass through it.
var transform = eventhandlers.Trim(false)

// delivered returns an object as an informer delivers it.
func (s *server) delivered(o object) object {
	pod, is := o.(*v1.Pod)
	if !is {
		return o
	}
	if s.trimmed[pod] == nil {
		trimmed, err := transform(pod.DeepCopy())
		if err != nil {
			panic(err)
		}
		s.trimmed[pod] = trimmed.(*v1.Pod)
	}
	return s.trimmed[pod]
}

func keyOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

func (s *server) stamp(o object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
}

// append adds a write at the present version to the log.
func (s *server) append(c change) {
	c.version = s.version
	s.log = append(s.log, c)
}

// putPod stores a pod and takes ownership of it.
func (s *server) putPod(pod *v1.Pod) {
	s.stamp(pod)
	c := change{new: pod}
	old, ok := s.pods[keyOf(pod)]
	if ok {
		c.old = old
	}
	s.pods[keyOf(pod)] = pod
	s.index(old, pod)
	s.append(c)
	s.onChange(old, pod)
}

func (s *server) dropPod(key string) {
	if old, ok := s.pods[key]; ok {
		delete(s.pods, key)
		s.index(old, nil)
		s.version++
		s.append(change{old: old})
		s.onChange(old, nil)
	}
}

// putNode stores a node and takes ownership of it.
func (s *server) putNode(node *v1.Node) {
	s.stamp(node)
	c := change{new: node}
	if old, ok := s.nodes[node.Name]; ok {
		c.old = old
	}
	s.nodes[node.Name] = node
	s.append(c)
}

func (s *server) dropNode(name string) {
	if old, ok := s.nodes[name]; ok {
		delete(s.nodes, name)
		s.version++
		s.append(change{old: old})
	}
}

// editPod stores a changed copy of a pod.
func (s *server) editPod(key string, edit func(*v1.Pod)) *v1.Pod {
	pod := s.pods[key].DeepCopy()
	edit(pod)
	s.putPod(pod)
	return pod
}

func (s *server) editNode(name string, edit func(*v1.Node)) {
	node := s.nodes[name].DeepCopy()
	edit(node)
	s.putNode(node)
}

// index replaces a pod in sorted and podsByNode; before or after is nil for none.
func (s *server) index(before, after *v1.Pod) {
	if before != nil {
		s.sorted = removed(s.sorted, before)
		if before.Spec.NodeName != "" && isLivePod(before) {
			s.podsByNode[before.Spec.NodeName] = removed(s.podsByNode[before.Spec.NodeName], before)
		}
	}
	if after != nil {
		s.sorted = inserted(s.sorted, after)
		if after.Spec.NodeName != "" && isLivePod(after) {
			s.podsByNode[after.Spec.NodeName] = inserted(s.podsByNode[after.Spec.NodeName], after)
		}
	}
}

func byKey(a, b *v1.Pod) int { return cmp.Compare(keyOf(a), keyOf(b)) }

func inserted(pods []*v1.Pod, pod *v1.Pod) []*v1.Pod {
	at, _ := slices.BinarySearchFunc(pods, pod, byKey)
	return slices.Insert(pods, at, pod)
}

func removed(pods []*v1.Pod, pod *v1.Pod) []*v1.Pod {
	at, _ := slices.BinarySearchFunc(pods, pod, byKey)
	return slices.Delete(pods, at, at+1)
}

func (s *server) sortedPods() []*v1.Pod { return slices.Clone(s.sorted) }

func (s *server) sortedNodes() []*v1.Node {
	nodes := make([]*v1.Node, 0, len(s.nodes))
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		nodes = append(nodes, s.nodes[name])
	}
	return nodes
}

// get is a quorum read.
func (s *server) get(key string) (*v1.Pod, error) {
	if pod, ok := s.pods[key]; ok {
		return pod, nil
	}
	return nil, apierrors.NewNotFound(podResource, key)
}

// bind is what a Binding does: all checks and the write are atomic.
// Source: k8s.io/kubernetes/pkg/registry/core/pod/storage, BindingREST.
func (s *server) bind(b *v1.Binding) error {
	before, err := s.get(keyOf(b))
	if err != nil {
		return err
	}
	var reason string
	switch {
	case b.UID != "" && b.UID != before.UID:
		reason = "the UID is another"
	case b.ResourceVersion != "" && b.ResourceVersion != before.ResourceVersion:
		reason = "the resource version is another"
	case before.DeletionTimestamp != nil:
		reason = "the pod is being deleted"
	case before.Spec.NodeName != "":
		reason = "the pod is assigned already"
	case len(before.Spec.SchedulingGates) > 0:
		reason = "the pod has scheduling gates"
	}
	if reason != "" {
		return apierrors.NewConflict(podResource, keyOf(b), fmt.Errorf("%s", reason))
	}
	after := s.editPod(keyOf(b), func(pod *v1.Pod) {
		pod.Spec.NodeName = b.Target.Name
		pod.Status.NominatedNodeName = ""
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		maps.Copy(pod.Annotations, b.Annotations)
		setCondition(pod, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now())})
	})
	s.onBind(before, after)
	return nil
}

// statusPatch is what Berth's patches of a pod's status can have.
type statusPatch struct {
	Metadata struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		NominatedNodeName *string           `json:"nominatedNodeName"`
		Conditions        []v1.PodCondition `json:"conditions"`
	} `json:"status"`
	// nominates says that the patch has nominatedNodeName, perhaps as null.
	nominates bool
}

func (s *server) patchStatus(key string, p statusPatch) (*v1.Pod, error) {
	pod, err := s.get(key)
	if err != nil {
		return nil, err
	}
	if p.Metadata.UID != "" && p.Metadata.UID != string(pod.UID) {
		return nil, apierrors.NewConflict(podResource, key, fmt.Errorf("the UID is another"))
	}
	if p.Metadata.ResourceVersion != "" && p.Metadata.ResourceVersion != pod.ResourceVersion {
		return nil, apierrors.NewConflict(podResource, key, fmt.Errorf("the resource version is another"))
	}
	patched := pod.DeepCopy()
	if p.nominates {
		patched.Status.NominatedNodeName = ""
		if p.Status.NominatedNodeName != nil {
			patched.Status.NominatedNodeName = *p.Status.NominatedNodeName
		}
	}
	for _, c := range p.Status.Conditions {
		setCondition(patched, c)
	}
	if equality.Semantic.DeepEqual(pod, patched) {
		return pod, nil // as in the API server, an empty patch is no write
	}
	s.putPod(patched)
	return patched, nil
}

func setCondition(pod *v1.Pod, c v1.PodCondition) {
	i := slices.IndexFunc(pod.Status.Conditions, func(old v1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
		return
	}
	pod.Status.Conditions[i] = c
}
