// Package state is the live state of a cluster as far as it may be read, and the
// profiles that run there: what a verb puts before the scheduler offline. What
// could not be read is noted, with what the answer lacks without it.
package state

import (
	"context"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
)

// Object is one of the API.
type Object interface {
	runtime.Object
	metav1.Object
}

// State is a copy of what is in the cluster, as far as it may be read.
type State struct {
	Nodes []*v1.Node
	// Pods are those that have not ended.
	Pods []*v1.Pod
	// Others are whatever else plugins read.
	Others []Object
	// Namespaces are their labels by name; nil where they may not be read.
	Namespaces map[string]map[string]string
}

// Reader reads a cluster, and finds out which profile is asked.
type Reader struct {
	Cluster *cluster.Cluster
	// In is what files that are named - are read from.
	In io.Reader
	// Preempts says that the answer is about who may have to leave, too.
	Preempts bool
	// Note is told what is to be known of an answer, in a sentence without a full
	// stop.
	Note func(format string, args ...any)
}

// Kind is one beside nodes and pods that plugins read, and what an answer leaves
// out without it.
type ReadableKind struct {
	List         client.ObjectList
	Name         string
	IfUnreadable string
}

// Readable are those kinds.
var Readable = append([]ReadableKind{
	{&v1.NamespaceList{}, "namespaces", "namespaceSelectors of pod affinity select nothing, and allowedNamespaces is not asked"},
	{&v1.ServiceList{}, "services", "default spreading does not count a Service's pods"},
	{&v1.ReplicationControllerList{}, "replicationcontrollers", "default spreading does not count a ReplicationController's pods"},
	{&appsv1.ReplicaSetList{}, "replicasets.apps", "default spreading does not count a ReplicaSet's pods"},
	{&appsv1.StatefulSetList{}, "statefulsets.apps", "default spreading does not count a StatefulSet's pods"},
	{&policyv1.PodDisruptionBudgetList{}, "poddisruptionbudgets.policy", "no pod counts as kept from preemption"},
	{&resourcev1.DeviceClassList{}, "deviceclasses.resource.k8s.io", "every extended resource counts as the node's own"},
}, storageKinds...)

// Ended leaves out the pods that take no room, as Berth does.
var NotEnded = client.MatchingFieldsSelector{Selector: fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)),
)}

// Read reads the cluster. What may not be read is noted, but for nodes and pods,
// without which there is no answer.
func (r Reader) Read(ctx context.Context) (*State, error) {
	s := &State{}
	err := r.ListEach(ctx, &v1.NodeList{}, func(one Object) { s.Nodes = append(s.Nodes, one.(*v1.Node)) })
	if err != nil {
		return nil, fmt.Errorf("nodes: without them there is no answer: %w", cluster.UserError(err))
	}
	err = r.ListEach(ctx, &v1.PodList{}, func(one Object) { s.Pods = append(s.Pods, one.(*v1.Pod)) }, NotEnded)
	if err != nil {
		return nil, fmt.Errorf("pods of all namespaces: without them nobody knows which room is taken: %w", cluster.UserError(err))
	}
	for _, kind := range Readable {
		if _, budgets := kind.List.(*policyv1.PodDisruptionBudgetList); budgets && !r.Preempts {
			continue
		}
		names := map[string]map[string]string{}
		err := r.ListEach(ctx, kind.List, func(one Object) {
			s.Others = append(s.Others, one)
			names[one.GetName()] = one.GetLabels()
		})
		switch {
		case apierrors.IsForbidden(err):
			r.Note("you may not list %s: %s", kind.Name, kind.IfUnreadable)
			continue
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			continue // an older API server has none
		case err != nil:
			return nil, fmt.Errorf("%s: %w", kind.Name, cluster.UserError(err))
		}
		if _, is := kind.List.(*v1.NamespaceList); is {
			s.Namespaces = names
		}
	}
	return s, nil
}

// Each hands over the objects of a kind, all namespaces, read in pages.
func (r Reader) ListEach(ctx context.Context, kind client.ObjectList, use func(Object), selected ...client.ListOption) error {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := kind.DeepCopyObject().(client.ObjectList)
		all := append([]client.ListOption{client.Limit(page.Limit), client.Continue(page.Continue)}, selected...)
		return list, r.Cluster.Client.List(ctx, list, all...)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(one runtime.Object) error {
		use(one.(Object))
		return nil
	})
}

// Find returns the cluster's object of this one's kind and name, nil where there
// is none.
func (s *State) Find(like Object) Object {
	for _, other := range s.Others {
		if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", like) && other.GetName() == like.GetName() && other.GetNamespace() == like.GetNamespace() {
			return other
		}
	}
	return nil
}
