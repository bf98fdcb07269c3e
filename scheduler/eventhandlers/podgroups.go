package eventhandlers

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// PodGroups are the kinds of PodGroups that the API server serves. The zero value is none:
// groups are those that pods declare themselves.
type PodGroups struct {
	// Native says that PodGroups of scheduling.k8s.io/v1beta1 are served, as they are on
	// Kubernetes 1.37 with the feature gate GenericWorkload.
	Native bool
	// Coscheduling says that PodGroups of kubernetes-sigs/scheduler-plugins are served.
	Coscheduling bool
}

// NewPodGroups asks the API server which kinds it serves. It returns the error of discovery.
func NewPodGroups(server discovery.DiscoveryInterface) (p PodGroups, err error) {
	for version, served := range map[string]*bool{
		schedulingv1beta1.SchemeGroupVersion.String():          &p.Native,
		podgroups.CoschedulingResource.GroupVersion().String(): &p.Coscheduling,
	} {
		list, err := server.ServerResourcesForGroupVersion(version)
		if err != nil && !apierrors.IsNotFound(err) {
			return PodGroups{}, err
		}
		*served = serves(list, "podgroups")
	}
	return p, nil
}

// Kinds returns the kinds of k8s.io/api that are served, each as an empty object.
func (p PodGroups) Kinds() []runtime.Object {
	if !p.Native {
		return nil
	}
	return []runtime.Object{&schedulingv1beta1.PodGroup{}}
}

// Missing returns the kinds of k8s.io/api that are not served, each as an empty object.
func (p PodGroups) Missing() []runtime.Object {
	if p.Native {
		return nil
	}
	return []runtime.Object{&schedulingv1beta1.PodGroup{}}
}

var (
	unscheduledPodAdd = fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}
	podGroupAdd       = fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add}
	podGroupUpdate    = fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}
	podGroupDelete    = fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Delete}

	podGroupObservers = newHandlingObservers(fwk.PodGroup)
)

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=podgroups,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.x-k8s.io,resources=podgroups,verbs=list;watch

// addPodGroupHandlers adds handlers for the kinds of PodGroups that are served.
func (h *EventHandlers) addPodGroupHandlers(factory informers.SharedInformerFactory) (synced []toolscache.InformerSynced, err error) {
	var errs []error
	add := func(informer toolscache.SharedIndexInformer, convert func(any) (*schedulingv1beta1.PodGroup, bool)) {
		registration, err := informer.AddEventHandler(h.podGroupHandler(convert))
		if err != nil {
			errs = append(errs, err)
			return
		}
		synced = append(synced, registration.HasSynced)
	}
	if h.options.PodGroups.Native {
		add(factory.Scheduling().V1beta1().PodGroups().Informer(), func(obj any) (*schedulingv1beta1.PodGroup, bool) {
			podGroup, ok := obj.(*schedulingv1beta1.PodGroup)
			return podGroup, ok
		})
	}
	if client := h.options.Dynamic; h.options.PodGroups.Coscheduling && client != nil {
		// The factory starts it, and waits for it, with the others.
		informer := factory.InformerFor(&unstructured.Unstructured{}, func(_ clientset.Interface, resync time.Duration) toolscache.SharedIndexInformer {
			indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
			return dynamicinformer.NewFilteredDynamicInformer(client, podgroups.CoschedulingResource, metav1.NamespaceAll, resync, indexers, nil).Informer()
		})
		add(informer, func(obj any) (*schedulingv1beta1.PodGroup, bool) {
			object, ok := obj.(*unstructured.Unstructured)
			if !ok {
				return nil, false
			}
			return podgroups.FromCoscheduling(object), true
		})
	}
	return synced, errors.Join(errs...)
}

// podGroupHandler handles the PodGroups that convert makes of the informer's objects.
func (h *EventHandlers) podGroupHandler(convert func(any) (*schedulingv1beta1.PodGroup, bool)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if podGroup, ok := convert(obj); ok {
				defer h.observeHandling(h.now(), podGroupObservers.added)
				h.podGroupSet(podGroupAdd, nil, podGroup)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, okBefore := convert(oldObj)
			after, okAfter := convert(newObj)
			if okBefore && okAfter {
				defer h.observeHandling(h.now(), podGroupObservers.updated)
				h.podGroupSet(podGroupUpdate, before, after)
			}
		},
		DeleteFunc: func(obj any) {
			handleDeleted(obj, func(known any) {
				if podGroup, ok := convert(known); ok {
					defer h.observeHandling(h.now(), podGroupObservers.deleted)
					h.podGroupDeleted(podGroup)
				}
			})
		},
	}
}

// podGroupSet handles a PodGroup that was added or changed. An update that replaces an
// object by one of the same name is the deletion of the first.
func (h *EventHandlers) podGroupSet(happened fwk.ClusterEvent, before, after *schedulingv1beta1.PodGroup) {
	if before != nil && before.UID != after.UID {
		h.podGroupDeleted(before)
		happened, before = podGroupAdd, nil
	}
	ctx, key := h.options.context(), podgroups.KeyOfPodGroup(after)
	h.options.Cache.Groups().SetPodGroup(key.Source, after)
	h.options.Queue.PodGroupChanged(key)
	var old any
	if before != nil {
		old = before
	}
	h.options.Queue.Event(ctx, happened, old, after, nil)
	h.groupChanged(key)
}

func (h *EventHandlers) groupChanged(key podgroups.Key) {
	if h.options.GroupChanged != nil {
		h.options.GroupChanged(key)
	}
}

func (h *EventHandlers) podGroupDeleted(podGroup *schedulingv1beta1.PodGroup) {
	ctx, key := h.options.context(), podgroups.KeyOfPodGroup(podGroup)
	h.options.Cache.Groups().RemovePodGroup(key)
	h.options.Queue.PodGroupDeleted(ctx, key)
	h.options.Queue.Event(ctx, podGroupDelete, podGroup, nil, nil)
}

// setMember stores a version of a pending pod in its group, if it names one and a profile
// serves it; before is its version before, nil for a new pod.
func (p *PendingPods) setMember(before, pod *v1.Pod) {
	if before != nil {
		was, _ := podgroups.KeyOf(before)
		if is, _ := podgroups.KeyOf(pod); is != was {
			p.Cache.Groups().RemovePod(before)
		}
	}
	if p.Queue.Serves(pod.Spec.SchedulerName) {
		p.Cache.Groups().SetPod(pod)
	}
}

// memberAdded wakes the group of a pod that was added to the queue.
func (p *PendingPods) memberAdded(ctx context.Context, pod *v1.Pod) {
	if _, isMember := podgroups.KeyOf(pod); isMember {
		p.Queue.Event(ctx, unscheduledPodAdd, nil, pod, nil)
	}
}

// memberMoved wakes the group that a pod names since its update, if it is another one than
// before: it has one pod more. added is the event of a new pod of this kind.
func (p *PendingPods) memberMoved(ctx context.Context, added fwk.ClusterEvent, oldPod, newPod *v1.Pod) {
	was, _ := podgroups.KeyOf(oldPod)
	is, isMember := podgroups.KeyOf(newPod)
	if !isMember || is == was {
		return
	}
	p.Queue.Event(ctx, added, nil, newPod, func(pod *v1.Pod) bool {
		key, _ := podgroups.KeyOf(pod)
		return key == is
	})
}
