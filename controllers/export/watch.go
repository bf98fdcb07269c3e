package export

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Watch calls f with the profile's name for each ConfigMap that exists, is created,
// changed or deleted, until ctx ends. f must not block.
func (e *Exporter) Watch(ctx context.Context, f func(profile string)) error {
	selector := labelManagedBy + "=" + managedBy + "," + v1alpha1.LabelProfile
	configMaps := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return e.maps.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return e.maps.Watch(ctx, o)
		},
	}
	informer := toolscache.NewSharedInformer(toolscache.ToListWatcherWithWatchListSemantics(configMaps, e.client), &corev1.ConfigMap{}, 0)
	handle := func(object any) {
		if deleted, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = deleted.Obj
		}
		m, ok := object.(*corev1.ConfigMap)
		if !ok || ownerOf(m) == "" {
			return
		}
		e.setKnown(ownerOf(m), m.Name, true)
		f(ownerOf(m))
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: handle,
		UpdateFunc: func(before, after any) {
			handle(before) // its label may have been removed
			handle(after)
		},
		DeleteFunc: handle,
	})
	if err != nil {
		return fmt.Errorf("watching exports: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// knownFor returns the names of a profile's known ConfigMaps, sorted.
func (e *Exporter) knownFor(profile string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.known[profile]))
}

// setKnown remembers a ConfigMap of a profile, or forgets it.
func (e *Exporter) setKnown(profile, name string, exists bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !exists {
		delete(e.known[profile], name)
		if len(e.known[profile]) == 0 {
			delete(e.known, profile)
		}
		return
	}
	if e.known[profile] == nil {
		e.known[profile] = map[string]bool{}
	}
	e.known[profile][name] = true
}
