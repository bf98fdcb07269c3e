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

// Watch tells the name of each profile one of whose ConfigMaps was made, changed
// or deleted, those that are there first, until ctx ends. tell must not block.
func (k *Exporter) Watch(ctx context.Context, tell func(profile string)) error {
	selector := labelManagedBy + "=" + managedBy + "," + v1alpha1.LabelProfile
	maps := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return k.maps.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return k.maps.Watch(ctx, o)
		},
	}
	informer := toolscache.NewSharedInformer(toolscache.ToListWatcherWithWatchListSemantics(maps, k.client), &corev1.ConfigMap{}, 0)
	told := func(object any) {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		m, ok := object.(*corev1.ConfigMap)
		if !ok || ownerOf(m) == "" {
			return
		}
		k.setKnown(ownerOf(m), m.Name, true)
		tell(ownerOf(m))
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: told,
		UpdateFunc: func(before, after any) {
			told(before) // whose label may have been taken away
			told(after)
		},
		DeleteFunc: told,
	})
	if err != nil {
		return fmt.Errorf("watching exports: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// of are the ConfigMaps that are known of a profile, by name.
func (k *Exporter) knownFor(profile string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.known[profile]))
}

// note remembers a ConfigMap of a profile, or that it is gone.
func (k *Exporter) setKnown(profile, name string, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !there {
		delete(k.known[profile], name)
		if len(k.known[profile]) == 0 {
			delete(k.known, profile)
		}
		return
	}
	if k.known[profile] == nil {
		k.known[profile] = map[string]bool{}
	}
	k.known[profile][name] = true
}
