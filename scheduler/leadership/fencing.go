package leadership

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

// PageTimeout is how long the request of one page may take, since it may be lost. The API server
// works no longer on one: its default --request-timeout.
const PageTimeout = time.Minute

// ListedObject is the metadata of an object in a list.
type ListedObject struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
}

// ObjectList is all objects of one kind, and the resource version of the list.
type ObjectList struct {
	ResourceVersion string
	Objects         []ListedObject
}

// QuorumLister lists the objects of a kind that match a field selector, by a quorum
// read.
type QuorumLister func(ctx context.Context, kind schema.GroupVersionResource, fields string) (ObjectList, error)

// NewQuorumLister returns a QuorumLister that reads metadata only, in pages. Each has a time of
// its own, since a large cluster has hundreds.
func NewQuorumLister(client metadata.Interface) QuorumLister {
	return func(ctx context.Context, kind schema.GroupVersionResource, fields string) (ObjectList, error) {
		var list ObjectList
		pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, PageTimeout)
			defer cancel()
			page, err := client.Resource(kind).List(ctx, options)
			if err != nil {
				return nil, err
			}
			list.ResourceVersion = page.ResourceVersion
			return page, nil
		}))
		// A list without a resource version contains every write that preceded it.
		err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: fields}, func(object runtime.Object) error {
			m, err := meta.Accessor(object)
			if err == nil {
				list.Objects = append(list.Objects, ListedObject{m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion()})
			}
			return err
		})
		if err != nil {
			return ObjectList{}, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		return list, nil
	}
}

// NewVersionReader returns a function that returns a resource version of a kind by a quorum
// read: no earlier write of the kind has a newer one.
func NewVersionReader(client metadata.Interface) func(ctx context.Context, kind schema.GroupVersionResource) (string, error) {
	return func(ctx context.Context, kind schema.GroupVersionResource) (string, error) {
		list, err := client.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return "", fmt.Errorf("reading a version of %s: %w", kind.Resource, err)
		}
		return list.ResourceVersion, nil
	}
}

// Names returns a function that lists the names of all objects of a kind; none when
// the API server does not serve the kind.
func (lister QuorumLister) Names(kind schema.GroupVersionResource) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := lister(ctx, kind, "")
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		names := make([]string, len(list.Objects))
		for i, object := range list.Objects {
			names[i] = object.Name
		}
		return names, err
	}
}
