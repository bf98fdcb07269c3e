package intake

import (
	"errors"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// +kubebuilder:rbac:groups="",resources=namespaces;services;replicationcontrollers,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch

// watchOthers listens to what plugins read through listers and can wait for:
// which namespaces there are, and who says which pods belong together. No
// decision is made before all of it is known.
func (in *Intake) watchOthers(factory informers.SharedInformerFactory) ([]toolscache.InformerSynced, error) {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	var synced []toolscache.InformerSynced
	var errs []error
	add := func(registration toolscache.ResourceEventHandlerRegistration, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		synced = append(synced, registration.HasSynced)
	}
	add(watch(in, core.Namespaces().Informer(), framework.Namespace,
		func(a, b *v1.Namespace) bool { return !maps.Equal(a.Labels, b.Labels) }))
	add(watch(in, core.Services().Informer(), framework.Service,
		func(a, b *v1.Service) bool { return !maps.Equal(a.Spec.Selector, b.Spec.Selector) }))
	add(watch(in, core.ReplicationControllers().Informer(), framework.ReplicationController,
		func(a, b *v1.ReplicationController) bool { return !maps.Equal(a.Spec.Selector, b.Spec.Selector) }))
	add(watch(in, apps.ReplicaSets().Informer(), framework.ReplicaSet,
		func(a, b *appsv1.ReplicaSet) bool {
			return !equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
		}))
	add(watch(in, apps.StatefulSets().Informer(), framework.StatefulSet,
		func(a, b *appsv1.StatefulSet) bool {
			return !equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
		}))
	// Nobody waits for a budget; but to evict before they are known would be to
	// disregard them.
	synced = append(synced, factory.Policy().V1().PodDisruptionBudgets().Informer().HasSynced)
	return synced, errors.Join(errs...)
}

// watch tells the queue of objects that come and go, and of updates in which
// they differ; the many others, such as those of a status, wake nobody.
func watch[T any](
	in *Intake, informer toolscache.SharedIndexInformer, kind fwk.EventResource, differ func(before, after T) bool,
) (toolscache.ResourceEventHandlerRegistration, error) {
	tell := func(action fwk.ActionType, before, after any) {
		in.options.Queue.Event(in.context(), fwk.ClusterEvent{Resource: kind, ActionType: action}, before, after, nil)
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell(fwk.Add, nil, obj) },
		UpdateFunc: func(oldObj, newObj any) {
			if differ(oldObj.(T), newObj.(T)) {
				tell(fwk.Update, oldObj, newObj)
			}
		},
		DeleteFunc: func(obj any) { ifKnown(obj, func(known T) { tell(fwk.Delete, known, nil) }) },
	})
}
