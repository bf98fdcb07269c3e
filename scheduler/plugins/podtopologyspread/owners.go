package podtopologyspread

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var _ podclass.LabelSelecting = (*Plugin)(nil)

// ownerListers list the objects whose selectors default constraints use.
type ownerListers struct {
	services     corelisters.ServiceLister
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

func newOwnerListers(factory informers.SharedInformerFactory) ownerListers {
	return ownerListers{
		services:     factory.Core().V1().Services().Lister(),
		controllers:  factory.Core().V1().ReplicationControllers().Lister(),
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
	}
}

// The kinds of controllers whose selectors default constraints use.
var (
	replicationControllerKind = v1.SchemeGroupVersion.WithKind("ReplicationController")
	replicaSetKind            = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	statefulSetKind           = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
)

// defaultSelector merges the selectors of the services that select the pod and of the
// controller that owns it; it is empty when there are none. It ignores a controller
// that is not found or whose selector does not parse.
//
// Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper.
func (o ownerListers) defaultSelector(pod *v1.Pod) labels.Selector {
	merged := o.serviceSelector(pod)
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return merged.AsSelector()
	}
	switch schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind) {
	case replicationControllerKind:
		if found, err := o.controllers.ReplicationControllers(pod.Namespace).Get(owner.Name); err == nil {
			merged = labels.Merge(merged, found.Spec.Selector)
		}
	case replicaSetKind:
		if found, err := o.replicaSets.ReplicaSets(pod.Namespace).Get(owner.Name); err == nil {
			return addRequirements(merged.AsSelector(), found.Spec.Selector)
		}
	case statefulSetKind:
		if found, err := o.statefulSets.StatefulSets(pod.Namespace).Get(owner.Name); err == nil {
			return addRequirements(merged.AsSelector(), found.Spec.Selector)
		}
	}
	return merged.AsSelector()
}

// serviceSelector merges the selectors of the services that select the pod. They agree
// on each label, since the pod has it.
func (o ownerListers) serviceSelector(pod *v1.Pod) labels.Set {
	merged := labels.Set{}
	services, err := o.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		return merged
	}
	for _, service := range services {
		if serviceSelects(service, pod) {
			merged = labels.Merge(merged, service.Spec.Selector)
		}
	}
	return merged
}

// serviceSelects reports whether the service selects the pod. A service without a
// selector selects none.
func serviceSelects(service *v1.Service, pod *v1.Pod) bool {
	return service.Spec.Selector != nil &&
		labels.Set(service.Spec.Selector).AsSelectorPreValidated().Matches(labels.Set(pod.Labels))
}

// addRequirements adds the requirements of by to selector, unless by does not parse.
func addRequirements(selector labels.Selector, by *metav1.LabelSelector) labels.Selector {
	other, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return selector
	}
	if requirements, selects := other.Requirements(); selects {
		selector = selector.Add(requirements...)
	}
	return selector
}

// SelectedLabels adds the label keys in the selectors of services and controllers.
func (p *Plugin) SelectedLabels(keys *podclass.LabelKeys) {
	if len(p.defaults) > 0 {
		p.owners.selectedLabels(keys)
	}
}

func (o ownerListers) selectedLabels(keys *podclass.LabelKeys) {
	services, _ := o.services.List(labels.Everything())
	for _, found := range services {
		insertKeys(keys, found.Spec.Selector)
	}
	controllers, _ := o.controllers.List(labels.Everything())
	for _, found := range controllers {
		insertKeys(keys, found.Spec.Selector)
	}
	replicaSets, _ := o.replicaSets.List(labels.Everything())
	for _, found := range replicaSets {
		insertSelectorKeys(keys, found.Spec.Selector)
	}
	statefulSets, _ := o.statefulSets.List(labels.Everything())
	for _, found := range statefulSets {
		insertSelectorKeys(keys, found.Spec.Selector)
	}
}

func insertKeys(keys *podclass.LabelKeys, selector map[string]string) {
	for key := range selector {
		keys.Insert(key)
	}
}

func insertSelectorKeys(keys *podclass.LabelKeys, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	insertKeys(keys, selector.MatchLabels)
	for i := range selector.MatchExpressions {
		keys.Insert(selector.MatchExpressions[i].Key)
	}
}
