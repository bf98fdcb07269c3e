package tenure

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
type Listed struct {
	Namespace, Name string
	UID             types.UID
	Version         string
}

// Roll is all there was of one kind, and the version at which that is known.
type Roll struct {
	Version string
	Objects []Listed
}

// Caller lists, by quorum reads, what there is of a kind, as far as a field
// selector lets it.
type Caller func(ctx context.Context, kind schema.GroupVersionResource, fields string) (Roll, error)

// By returns a Caller that asks for nothing but metadata, in pages.
func By(client metadata.Interface) Caller {
	return func(ctx context.Context, kind schema.GroupVersionResource, fields string) (Roll, error) {
		var roll Roll
		pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
			page, err := client.Resource(kind).List(ctx, options)
			if err != nil {
				return nil, err
			}
			roll.Version = page.ResourceVersion
			return page, nil
		}))
		// Without a resource version a list holds all that was written before it.
		err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: fields}, func(object runtime.Object) error {
			m, err := meta.Accessor(object)
			if err == nil {
				roll.Objects = append(roll.Objects, Listed{m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion()})
			}
			return err
		})
		if err != nil {
			return Roll{}, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		return roll, nil
	}
}

// Names returns what names all there is of a kind; nothing where that is not
// served.
func (call Caller) Names(kind schema.GroupVersionResource) func(ctx context.Context) ([]string, error) {
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
