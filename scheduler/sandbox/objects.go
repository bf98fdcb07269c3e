package sandbox

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
)

// Objects puts what there is beside pods and nodes where plugins find it: into
// the stores of informers that never start. Handlers do not hear of it.
type Objects struct {
	Factory informers.SharedInformerFactory
}

// SetObject adds or replaces an object. The error says that nothing in
// scheduling reads its kind.
func (o Objects) SetObject(object runtime.Object) error {
	store, err := o.store(object)
	if err != nil {
		return err
	}
	return store.Update(object)
}

// RemoveObject removes an object; one that is not there may be removed.
func (o Objects) RemoveObject(object runtime.Object) error {
	store, err := o.store(object)
	if err != nil {
		return err
	}
	return store.Delete(object)
}

func (o Objects) store(object runtime.Object) (toolscache.Store, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	informer, err := o.Factory.ForResource(resource)
	if err != nil {
		return nil, fmt.Errorf("a %s is nothing that a scheduler reads", kinds[0].Kind)
	}
	return informer.Informer().GetStore(), nil
}
