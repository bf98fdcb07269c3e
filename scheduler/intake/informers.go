package intake

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformers returns the factory whose informers hold all that is scheduled,
// once in the process. Pods that have ended are left out, since they take no
// room: one that ends is seen as deleted. managedFields are dropped, because
// nothing in scheduling reads them and they are a third of an object.
func NewInformers(client clientset.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	factory.InformerFor(&v1.Pod{}, func(client clientset.Interface, resync time.Duration) toolscache.SharedIndexInformer {
		indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
		informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, indexers, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.AndSelectors(
				fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
				fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)),
			).String()
		})
		// Refused only once the informer has started, which it has not.
		_ = informer.SetTransform(trim)
		return informer
	})
	return factory
}

func trim(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
