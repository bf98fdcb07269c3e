package simulation

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appsgroup "k8s.io/client-go/informers/apps"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coregroup "k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	policygroup "k8s.io/client-go/informers/policy"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// factory offers the two informers that the simulation moves. Of the other
// kinds that the scheduler watches there is nothing in the model: their
// informers are client-go's own, empty and never started.
type factory struct {
	informers.SharedInformerFactory
	pods, nodes *informer
}

func newFactory(c *client, pods, nodes *informer) *factory {
	return &factory{SharedInformerFactory: informers.NewSharedInformerFactory(c, 0), pods: pods, nodes: nodes}
}

// Start does nothing: the simulation moves the watches.
func (*factory) Start(<-chan struct{}) {}

func (f *factory) Core() coregroup.Interface { return coreGroup{f.SharedInformerFactory.Core(), f} }

type coreGroup struct {
	coregroup.Interface
	f *factory
}

func (g coreGroup) V1() coreinformers.Interface { return coreVersion{g.Interface.V1(), g.f} }

type coreVersion struct {
	coreinformers.Interface
	f *factory
}

func (v coreVersion) Pods() coreinformers.TypedPodInformer   { return podInformer{of: v.f.pods} }
func (v coreVersion) Nodes() coreinformers.TypedNodeInformer { return nodeInformer{of: v.f.nodes} }
func (v coreVersion) Namespaces() coreinformers.TypedNamespaceInformer {
	return stillNamespaces{v.Interface.Namespaces()}
}
func (v coreVersion) Services() coreinformers.TypedServiceInformer {
	return stillServices{v.Interface.Services()}
}
func (v coreVersion) ReplicationControllers() coreinformers.TypedReplicationControllerInformer {
	return stillControllers{v.Interface.ReplicationControllers()}
}

func (f *factory) Apps() appsgroup.Interface { return appsGroup{f.SharedInformerFactory.Apps()} }

type appsGroup struct{ appsgroup.Interface }

func (g appsGroup) V1() appsinformers.Interface { return appsVersion{g.Interface.V1()} }

type appsVersion struct{ appsinformers.Interface }

func (v appsVersion) ReplicaSets() appsinformers.TypedReplicaSetInformer {
	return stillReplicaSets{v.Interface.ReplicaSets()}
}
func (v appsVersion) StatefulSets() appsinformers.TypedStatefulSetInformer {
	return stillStatefulSets{v.Interface.StatefulSets()}
}

func (f *factory) Policy() policygroup.Interface {
	return policyGroup{f.SharedInformerFactory.Policy()}
}

type policyGroup struct{ policygroup.Interface }

func (g policyGroup) V1() policyinformers.Interface { return policyVersion{g.Interface.V1()} }

type policyVersion struct{ policyinformers.Interface }

func (v policyVersion) PodDisruptionBudgets() policyinformers.TypedPodDisruptionBudgetInformer {
	return stillBudgets{v.Interface.PodDisruptionBudgets()}
}

type (
	stillNamespaces struct {
		coreinformers.TypedNamespaceInformer
	}
	stillServices struct {
		coreinformers.TypedServiceInformer
	}
	stillControllers struct {
		coreinformers.TypedReplicationControllerInformer
	}
	stillReplicaSets struct {
		appsinformers.TypedReplicaSetInformer
	}
	stillStatefulSets struct {
		appsinformers.TypedStatefulSetInformer
	}
	stillBudgets struct {
		policyinformers.TypedPodDisruptionBudgetInformer
	}
)

func (stillNamespaces) Informer() toolscache.SharedIndexInformer   { return still{} }
func (stillServices) Informer() toolscache.SharedIndexInformer     { return still{} }
func (stillControllers) Informer() toolscache.SharedIndexInformer  { return still{} }
func (stillReplicaSets) Informer() toolscache.SharedIndexInformer  { return still{} }
func (stillStatefulSets) Informer() toolscache.SharedIndexInformer { return still{} }
func (stillBudgets) Informer() toolscache.SharedIndexInformer      { return still{} }

// still is an informer that has nothing to tell.
type still struct{ toolscache.SharedIndexInformer }

func (still) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return stillRegistration{}, nil
}

func (still) HasSynced() bool { return true }

type stillRegistration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (stillRegistration) HasSynced() bool { return true }

type podInformer struct {
	coreinformers.TypedPodInformer
	of *informer
}

func (p podInformer) Informer() toolscache.SharedIndexInformer { return p.of }
func (p podInformer) Lister() corelisters.PodLister            { return podLister{of: p.of} }

type nodeInformer struct {
	coreinformers.TypedNodeInformer
	of *informer
}

func (n nodeInformer) Informer() toolscache.SharedIndexInformer { return n.of }
func (n nodeInformer) Lister() corelisters.NodeLister           { return nodeLister{of: n.of} }

// podLister reads the store, which is ahead of the handlers.
type podLister struct {
	corelisters.PodLister
	of *informer
}

func (l podLister) Pods(namespace string) corelisters.PodNamespaceLister {
	return namespaceLister{of: l.of, namespace: namespace}
}

type namespaceLister struct {
	corelisters.PodNamespaceLister
	of        *informer
	namespace string
}

func (l namespaceLister) Get(name string) (*v1.Pod, error) {
	if o, ok := l.of.store[l.namespace+"/"+name]; ok {
		return o.(*v1.Pod), nil
	}
	return nil, apierrors.NewNotFound(podResource, name)
}

func (l podLister) List(labels.Selector) ([]*v1.Pod, error) {
	var pods []*v1.Pod
	for _, key := range slices.Sorted(maps.Keys(l.of.store)) {
		pods = append(pods, l.of.store[key].(*v1.Pod))
	}
	return pods, nil
}
