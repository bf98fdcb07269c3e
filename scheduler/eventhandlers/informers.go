package eventhandlers

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// NonTerminatedPods is the field selector of the pods that are watched.
var NonTerminatedPods = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)),
).String()

// NewInformers returns the factory of the informers that the scheduler and its
// plugins share. Each object passes through trim. Pods that have succeeded or
// failed are left out, since they use no resources: a pod that terminates is seen
// as deleted.
func NewInformers(client clientset.Interface, trim toolscache.TransformFunc) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	factory.InformerFor(&v1.Pod{}, func(client clientset.Interface, resync time.Duration) toolscache.SharedIndexInformer {
		indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
		informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, indexers, func(o *metav1.ListOptions) {
			o.FieldSelector = NonTerminatedPods
		})
		// The error can only be that the informer has started, which it has not.
		_ = informer.SetTransform(trim)
		return informer
	})
	factory.InformerFor(&v1.Node{}, func(client clientset.Interface, resync time.Duration) toolscache.SharedIndexInformer {
		// The factory's own has an index by namespace, and nodes have none.
		informer := coreinformers.NewNodeInformer(client, resync, toolscache.Indexers{})
		_ = informer.SetTransform(trim)
		return informer
	})
	return factory
}

// EventResources are the resources of the events that Register passes to the queue.
func EventResources() []fwk.EventResource {
	events := []fwk.EventResource{
		fwk.WildCard, fwk.Pod, fwk.AssignedPod, fwk.UnscheduledPod, fwk.TargetPod, framework.TerminatingPod, fwk.Node,
		fwk.PodGroup, framework.Namespace, framework.Service, framework.ReplicationController, framework.ReplicaSet, framework.StatefulSet,
	}
	for _, kind := range storageKinds { // a kind that is not served has no events
		events = append(events, kind.event)
	}
	return events
}

// Kinds are the kinds that Register watches beside those of Storage, each as an
// empty object.
func Kinds() []runtime.Object {
	return []runtime.Object{
		&v1.Pod{}, &v1.Node{}, &policyv1.PodDisruptionBudget{}, &v1.Namespace{}, &v1.Service{},
		&v1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
	}
}
