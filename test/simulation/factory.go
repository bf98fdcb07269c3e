package simulation

import (
	"maps"
	"reflect"
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

// factory returns the informers of pods, nodes and PodGroups that the simulation drives. For other kinds
// it returns client-go's own, which are never started and have empty stores.
type factory struct {
	informers.SharedInformerFactory
	pods, nodes *informer
	// podGroups is nil where the API server serves none.
	podGroups *informer
	// further are the informers that plugins read through client-go's listers, by Go type.
	further map[reflect.Type]*informer
}

func newFactory(c *client, pods, nodes *informer) *factory {
	return &factory{SharedInformerFactory: informers.NewSharedInformerFactory(c, 0), pods: pods, nodes: nodes}
}

// Start does nothing: step drives the watches.
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

func (v coreVersion) Pods() coreinformers.TypedPodInformer { return podInformer{informer: v.f.pods} }
func (v coreVersion) Nodes() coreinformers.TypedNodeInformer {
	return nodeInformer{informer: v.f.nodes}
}
func (v coreVersion) Namespaces() coreinformers.TypedNamespaceInformer {
	return emptyNamespaces{v.Interface.Namespaces()}
}
func (v coreVersion) Services() coreinformers.TypedServiceInformer {
	return emptyServices{v.Interface.Services()}
}
func (v coreVersion) ReplicationControllers() coreinformers.TypedReplicationControllerInformer {
	return emptyControllers{v.Interface.ReplicationControllers()}
}

func (f *factory) Apps() appsgroup.Interface { return appsGroup{f.SharedInformerFactory.Apps()} }

type appsGroup struct{ appsgroup.Interface }

func (g appsGroup) V1() appsinformers.Interface { return appsVersion{g.Interface.V1()} }

type appsVersion struct{ appsinformers.Interface }

func (v appsVersion) ReplicaSets() appsinformers.TypedReplicaSetInformer {
	return emptyReplicaSets{v.Interface.ReplicaSets()}
}
func (v appsVersion) StatefulSets() appsinformers.TypedStatefulSetInformer {
	return emptyStatefulSets{v.Interface.StatefulSets()}
}

func (f *factory) Policy() policygroup.Interface {
	return policyGroup{f.SharedInformerFactory.Policy()}
}

type policyGroup struct{ policygroup.Interface }

func (g policyGroup) V1() policyinformers.Interface { return policyVersion{g.Interface.V1()} }

type policyVersion struct{ policyinformers.Interface }

func (v policyVersion) PodDisruptionBudgets() policyinformers.TypedPodDisruptionBudgetInformer {
	return emptyBudgets{v.Interface.PodDisruptionBudgets()}
}

type (
	emptyNamespaces struct {
		coreinformers.TypedNamespaceInformer
	}
	emptyServices struct {
		coreinformers.TypedServiceInformer
	}
	emptyControllers struct {
		coreinformers.TypedReplicationControllerInformer
	}
	emptyReplicaSets struct {
		appsinformers.TypedReplicaSetInformer
	}
	emptyStatefulSets struct {
		appsinformers.TypedStatefulSetInformer
	}
	emptyBudgets struct {
		policyinformers.TypedPodDisruptionBudgetInformer
	}
)

func (emptyNamespaces) Informer() toolscache.SharedIndexInformer   { return emptyInformer{} }
func (emptyServices) Informer() toolscache.SharedIndexInformer     { return emptyInformer{} }
func (emptyControllers) Informer() toolscache.SharedIndexInformer  { return emptyInformer{} }
func (emptyReplicaSets) Informer() toolscache.SharedIndexInformer  { return emptyInformer{} }
func (emptyStatefulSets) Informer() toolscache.SharedIndexInformer { return emptyInformer{} }
func (emptyBudgets) Informer() toolscache.SharedIndexInformer      { return emptyInformer{} }

// emptyInformer has no object and calls no handler.
type emptyInformer struct{ toolscache.SharedIndexInformer }

func (emptyInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return emptyRegistration{}, nil
}

func (emptyInformer) HasSynced() bool { return true }

type emptyRegistration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (emptyRegistration) HasSynced() bool { return true }

type podInformer struct {
	coreinformers.TypedPodInformer
	informer *informer
}

func (p podInformer) Informer() toolscache.SharedIndexInformer { return p.informer }
func (p podInformer) Lister() corelisters.PodLister            { return podLister{informer: p.informer} }

type nodeInformer struct {
	coreinformers.TypedNodeInformer
	informer *informer
}

func (n nodeInformer) Informer() toolscache.SharedIndexInformer { return n.informer }
func (n nodeInformer) Lister() corelisters.NodeLister           { return nodeLister{informer: n.informer} }

// podLister reads the store, which is ahead of the handlers.
type podLister struct {
	corelisters.PodLister
	informer *informer
}

func (l podLister) Pods(namespace string) corelisters.PodNamespaceLister {
	return namespaceLister{informer: l.informer, namespace: namespace}
}

type namespaceLister struct {
	corelisters.PodNamespaceLister
	informer  *informer
	namespace string
}

func (l namespaceLister) Get(name string) (*v1.Pod, error) {
	if o, ok := l.informer.store[l.namespace+"/"+name]; ok {
		return o.(*v1.Pod), nil
	}
	return nil, apierrors.NewNotFound(podResource, name)
}

func (l podLister) List(labels.Selector) ([]*v1.Pod, error) {
	var pods []*v1.Pod
	for _, key := range slices.Sorted(maps.Keys(l.informer.store)) {
		pods = append(pods, l.informer.store[key].(*v1.Pod))
	}
	return pods, nil
}
