package sim

import (
	"k8s.io/client-go/informers"
	appsgroup "k8s.io/client-go/informers/apps"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// nothing is never started: its listers find nothing. The simulated cluster
// has no objects of the kinds that are read through it.
var nothing = informers.NewSharedInformerFactory(nil, 0)

// quiet is the informer of a kind of which there is nothing.
type quiet struct{ toolscache.SharedIndexInformer }

func (quiet) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return heard{}, nil
}

// heard is a registration that has heard of all there was.
type heard struct {
	toolscache.ResourceEventHandlerRegistration
}

func (heard) HasSynced() bool { return true }

func (v coreVersion) Namespaces() coreinformers.TypedNamespaceInformer {
	return quietNamespaces{nothing.Core().V1().Namespaces()}
}

func (v coreVersion) Services() coreinformers.TypedServiceInformer {
	return quietServices{nothing.Core().V1().Services()}
}

func (v coreVersion) ReplicationControllers() coreinformers.TypedReplicationControllerInformer {
	return quietControllers{nothing.Core().V1().ReplicationControllers()}
}

func (f *factory) Apps() appsgroup.Interface { return appsGroup{nothing.Apps()} }

type appsGroup struct{ appsgroup.Interface }

func (g appsGroup) V1() appsinformers.Interface { return appsVersion{g.Interface.V1()} }

type appsVersion struct{ appsinformers.Interface }

func (v appsVersion) ReplicaSets() appsinformers.TypedReplicaSetInformer {
	return quietReplicaSets{v.Interface.ReplicaSets()}
}

func (v appsVersion) StatefulSets() appsinformers.TypedStatefulSetInformer {
	return quietStatefulSets{v.Interface.StatefulSets()}
}

// Each kind keeps its lister and gets a quiet informer.
type (
	quietNamespaces struct {
		coreinformers.TypedNamespaceInformer
	}
	quietServices struct {
		coreinformers.TypedServiceInformer
	}
	quietControllers struct {
		coreinformers.TypedReplicationControllerInformer
	}
	quietReplicaSets struct {
		appsinformers.TypedReplicaSetInformer
	}
	quietStatefulSets struct {
		appsinformers.TypedStatefulSetInformer
	}
)

func (quietNamespaces) Informer() toolscache.SharedIndexInformer   { return quiet{} }
func (quietServices) Informer() toolscache.SharedIndexInformer     { return quiet{} }
func (quietControllers) Informer() toolscache.SharedIndexInformer  { return quiet{} }
func (quietReplicaSets) Informer() toolscache.SharedIndexInformer  { return quiet{} }
func (quietStatefulSets) Informer() toolscache.SharedIndexInformer { return quiet{} }
