package eventhandlers

import (
	"errors"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// +kubebuilder:rbac:groups="",resources=namespaces;services;replicationcontrollers,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets;statefulsets,verbs=list;watch

// addOtherHandlers adds handlers for what plugins read through listers and register
// events for: namespaces, and the objects that select groups of pods. The handlers
// are synced before the first scheduling cycle.
func (h *EventHandlers) addOtherHandlers(factory informers.SharedInformerFactory) ([]toolscache.InformerSynced, error) {
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
	add(addHandler(h, core.Namespaces().Informer(), framework.Namespace, framework.NamespaceLabels,
		func(a, b *v1.Namespace) bool { return !maps.Equal(a.Labels, b.Labels) }))
	if h.options.Profiles != nil {
		add(core.Namespaces().Informer().AddEventHandler(h.namespaceHandler()))
	}
	add(addHandler(h, core.Services().Informer(), framework.Service, framework.PodOwners,
		func(a, b *v1.Service) bool { return !maps.Equal(a.Spec.Selector, b.Spec.Selector) }))
	add(addHandler(h, core.ReplicationControllers().Informer(), framework.ReplicationController, framework.PodOwners,
		func(a, b *v1.ReplicationController) bool { return !maps.Equal(a.Spec.Selector, b.Spec.Selector) }))
	add(addHandler(h, apps.ReplicaSets().Informer(), framework.ReplicaSet, framework.PodOwners,
		func(a, b *appsv1.ReplicaSet) bool {
			return !equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
		}))
	add(addHandler(h, apps.StatefulSets().Informer(), framework.StatefulSet, framework.PodOwners,
		func(a, b *appsv1.StatefulSet) bool {
			return !equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
		}))
	return synced, errors.Join(errs...)
}

// addHandler passes additions and deletions to the cache and the queue, and updates
// for which differ returns true. The many other updates, such as those of a status,
// wake no pod. An update that replaces an object by another one of its name is a deletion and
// an addition: hints of updates do not compare fields that cannot change, and plugins that read
// nothing else register for no updates.
func addHandler[T metav1.Object](
	h *EventHandlers, informer toolscache.SharedIndexInformer, kind fwk.EventResource, facet framework.Facets, differ func(before, after T) bool,
) (toolscache.ResourceEventHandlerRegistration, error) {
	observers := newHandlingObservers(kind)
	handle := func(action fwk.ActionType, observer prometheus.Observer, before, after any) {
		defer h.observeHandling(h.now(), observer)
		h.options.Cache.MarkChanged(facet)
		h.options.Queue.Event(h.options.context(), fwk.ClusterEvent{Resource: kind, ActionType: action}, before, after, nil)
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { handle(fwk.Add, observers.added, nil, obj) },
		UpdateFunc: func(oldObj, newObj any) {
			switch before, after := oldObj.(T), newObj.(T); {
			case before.GetUID() != after.GetUID():
				handle(fwk.Delete, observers.deleted, before, nil)
				handle(fwk.Add, observers.added, nil, after)
			case differ(before, after):
				handle(fwk.Update, observers.updated, before, after)
			}
		},
		DeleteFunc: func(obj any) { handleDeleted(obj, func(known T) { handle(fwk.Delete, observers.deleted, known, nil) }) },
	})
}

// namespaceHandler passes the labels of namespaces to the profiles.
func (h *EventHandlers) namespaceHandler() toolscache.ResourceEventHandler {
	labelsOf := func(namespace *v1.Namespace) labels.Set {
		if namespace.Labels == nil {
			return labels.Set{}
		}
		return namespace.Labels
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			namespace := obj.(*v1.Namespace)
			h.options.Profiles.NamespaceChanged(namespace.Name, nil, labelsOf(namespace))
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, after := oldObj.(*v1.Namespace), newObj.(*v1.Namespace)
			if !maps.Equal(before.Labels, after.Labels) {
				h.options.Profiles.NamespaceChanged(after.Name, labelsOf(before), labelsOf(after))
			}
		},
		DeleteFunc: func(obj any) {
			handleDeleted(obj, func(namespace *v1.Namespace) {
				h.options.Profiles.NamespaceChanged(namespace.Name, labelsOf(namespace), nil)
			})
		},
	}
}
