package try

import (
	"context"
	"fmt"

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

// state is a copy of what is in the cluster, as far as it may be read.
type state struct {
	nodes []*v1.Node
	// pods are those that have not ended.
	pods []*v1.Pod
	// others are whatever else plugins read.
	others []object
	// namespaces are their labels by name; nil where they may not be read.
	namespaces map[string]map[string]string
}

// readable are the kinds beside nodes and pods that plugins read, and what an
// answer leaves out without them.
var readable = []struct {
	list    client.ObjectList
	name    string
	without string
}{
	{&v1.NamespaceList{}, "namespaces", "namespaceSelectors of pod affinity select nothing, and allowedNamespaces is not asked"},
	{&v1.ServiceList{}, "services", "default spreading does not count a Service's pods"},
	{&v1.ReplicationControllerList{}, "replicationcontrollers", "default spreading does not count a ReplicationController's pods"},
	{&appsv1.ReplicaSetList{}, "replicasets.apps", "default spreading does not count a ReplicaSet's pods"},
	{&appsv1.StatefulSetList{}, "statefulsets.apps", "default spreading does not count a StatefulSet's pods"},
	{&policyv1.PodDisruptionBudgetList{}, "poddisruptionbudgets.policy", "no pod counts as kept from preemption"},
	{&resourcev1.DeviceClassList{}, "deviceclasses.resource.k8s.io", "every extended resource counts as the node's own"},
}

// ended leaves out the pods that take no room, as Berth does.
var ended = client.MatchingFieldsSelector{Selector: fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)),
)}

// read reads the cluster. What may not be read is noted, but for nodes and pods,
// without which there is no answer.
func (o *options) read(ctx context.Context) (*state, error) {
	s := &state{}
	err := o.each(ctx, &v1.NodeList{}, func(one object) { s.nodes = append(s.nodes, one.(*v1.Node)) })
	if err != nil {
		return nil, fmt.Errorf("nodes: without them there is no answer: %w", cluster.Plain(err))
	}
	err = o.each(ctx, &v1.PodList{}, func(one object) { s.pods = append(s.pods, one.(*v1.Pod)) }, ended)
	if err != nil {
		return nil, fmt.Errorf("pods of all namespaces: without them nobody knows which room is taken: %w", cluster.Plain(err))
	}
	for _, kind := range readable {
		names := map[string]map[string]string{}
		err := o.each(ctx, kind.list, func(one object) {
			s.others = append(s.others, one)
			names[one.GetName()] = one.GetLabels()
		})
		switch {
		case apierrors.IsForbidden(err):
			o.note("you may not list %s: %s", kind.name, kind.without)
			continue
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			continue // an older API server has none
		case err != nil:
			return nil, fmt.Errorf("%s: %w", kind.name, cluster.Plain(err))
		}
		if _, is := kind.list.(*v1.NamespaceList); is {
			s.namespaces = names
		}
	}
	return s, nil
}

// each hands over the objects of a kind, all namespaces, read in pages.
func (o *options) each(ctx context.Context, kind client.ObjectList, use func(object), selected ...client.ListOption) error {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := kind.DeepCopyObject().(client.ObjectList)
		all := append([]client.ListOption{client.Limit(page.Limit), client.Continue(page.Continue)}, selected...)
		return list, o.cluster.Client.List(ctx, list, all...)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(one runtime.Object) error {
		use(one.(object))
		return nil
	})
}

// find returns the cluster's object of this one's kind and name, nil where there
// is none.
func (s *state) find(like object) object {
	for _, other := range s.others {
		if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", like) && other.GetName() == like.GetName() && other.GetNamespace() == like.GetNamespace() {
			return other
		}
	}
	return nil
}
