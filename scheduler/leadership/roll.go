package leadership

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

// Listed is an object that was there, as of a version of it.
type ListedObject struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
}

// Roll is all there was of one kind, and the version at which that is known.
type ObjectList struct {
	ResourceVersion string
	Objects         []ListedObject
}

// Caller lists, by quorum reads, what there is of a kind, as far as a field
// selector lets it.
type QuorumLister func(ctx context.Context, kind schema.GroupVersionResource, fields string) (ObjectList, error)

// By returns a Caller that asks for nothing but metadata, in pages.
func NewQuorumLister(client metadata.Interface) QuorumLister {
	return func(ctx context.Context, kind schema.GroupVersionResource, fields string) (ObjectList, error) {
		var roll ObjectList
		pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
			page, err := client.Resource(kind).List(ctx, options)
			if err != nil {
				return nil, err
			}
			roll.ResourceVersion = page.ResourceVersion
			return page, nil
		}))
		// Without a resource version a list holds all that was written before it.
		err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: fields}, func(object runtime.Object) error {
			m, err := meta.Accessor(object)
			if err == nil {
				roll.Objects = append(roll.Objects, ListedObject{m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion()})
			}
			return err
		})
		if err != nil {
			return ObjectList{}, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		return roll, nil
	}
}

// Names returns what names all there is of a kind; nothing where that is not
// served.
func (call QuorumLister) Names(kind schema.GroupVersionResource) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		roll, err := call(ctx, kind, "")
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		names := make([]string, len(roll.Objects))
		for i, l := range roll.Objects {
			names[i] = l.Name
		}
		return names, err
	}
}
