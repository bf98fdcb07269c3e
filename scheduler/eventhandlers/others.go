package eventhandlers

import (
	"errors"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// +kubebuilder:rbac:groups="",resources=namespaces;services;replicationcontrollers,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets;statefulsets,verbs=list;watch

// watchOthers listens to what plugins read through listers and can wait for:
// which namespaces there are, and who says which pods belong together. No
// decision is made before all of it is known.
func (in *EventHandlers) addOtherHandlers(factory informers.SharedInformerFactory) ([]toolscache.InformerSynced, error) {
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
	add(addHandler(in, core.Namespaces().Informer(), framework.Namespace, framework.NamespaceLabels,
		func(a, b *v1.Namespace) bool { return !maps.Equal(a.Labels, b.Labels) }))
	if in.options.OnNamespaceLabels != nil {
		add(core.Namespaces().Informer().AddEventHandler(in.namespaceHandler()))
	}
	add(addHandler(in, core.Services().Informer(), framework.Service, framework.PodOwners,
		func(a, b *v1.Service) bool { return !maps.Equal(a.Spec.Selector, b.Spec.Selector) }))
	add(addHandler(in, core.ReplicationControllers().Informer(), framework.ReplicationController, framework.PodOwners,
		func(a, b *v1.ReplicationController) bool { return !maps.Equal(a.Spec.Selector, b.Spec.Selector) }))
	add(addHandler(in, apps.ReplicaSets().Informer(), framework.ReplicaSet, framework.PodOwners,
		func(a, b *appsv1.ReplicaSet) bool {
			return !equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
		}))
	add(addHandler(in, apps.StatefulSets().Informer(), framework.StatefulSet, framework.PodOwners,
		func(a, b *appsv1.StatefulSet) bool {
			return !equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
		}))
	return synced, errors.Join(errs...)
}

// watch tells the cache and the queue of objects that come and go, and of
// updates in which they differ; the many others, such as those of a status,
// wake nobody.
func addHandler[T any](
	in *EventHandlers, informer toolscache.SharedIndexInformer, kind fwk.EventResource, facet framework.Facets, differ func(before, after T) bool,
) (toolscache.ResourceEventHandlerRegistration, error) {
	observers := newHandlingObservers(kind)
	tell := func(action fwk.ActionType, observer prometheus.Observer, before, after any) {
		defer in.observeHandling(in.now(), observer)
		in.options.Cache.MarkChanged(facet)
		in.options.Queue.Event(in.context(), fwk.ClusterEvent{Resource: kind, ActionType: action}, before, after, nil)
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell(fwk.Add, observers.added, nil, obj) },
		UpdateFunc: func(oldObj, newObj any) {
			if differ(oldObj.(T), newObj.(T)) {
				tell(fwk.Update, observers.updated, oldObj, newObj)
			}
		},
		DeleteFunc: func(obj any) { handleDeleted(obj, func(known T) { tell(fwk.Delete, observers.deleted, known, nil) }) },
	})
}

// Elsewhere tells the queue of what happened to a resource that is watched for
// plugins alone. No decision of the house depends on it.
func (in *EventHandlers) PluginResourceEvent(happened fwk.ClusterEvent, before, after any) {
	in.options.Queue.Event(in.context(), happened, before, after, nil)
}

// namespaces tells whose pods profiles may take.
func (in *EventHandlers) namespaceHandler() toolscache.ResourceEventHandler {
	labelsOf := func(namespace *v1.Namespace) labels.Set {
		if namespace.Labels == nil {
			return labels.Set{}
		}
		return namespace.Labels
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			is := obj.(*v1.Namespace)
			in.options.OnNamespaceLabels(is.Name, nil, labelsOf(is))
		},
		UpdateFunc: func(oldObj, newObj any) {
			was, is := oldObj.(*v1.Namespace), newObj.(*v1.Namespace)
			if !maps.Equal(was.Labels, is.Labels) {
				in.options.OnNamespaceLabels(is.Name, labelsOf(was), labelsOf(is))
			}
		},
		DeleteFunc: func(obj any) {
			handleDeleted(obj, func(was *v1.Namespace) { in.options.OnNamespaceLabels(was.Name, labelsOf(was), nil) })
		},
	}
}
