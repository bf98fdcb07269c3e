package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
)

// ProfileCache tells a new leader what its reconcilers know and have done, before it schedules: it
// implements scheduler.ProfileCache. The zero ProfileCache is one of controllers that do not run
// yet. It is safe for concurrent use.
type ProfileCache struct {
	reconciler atomic.Pointer[profileReconciler]
}

// Versions returns the resource versions of the cached SchedulingProfiles or PluginConfigs, by UID.
func (c *ProfileCache) Versions(ctx context.Context, kind schema.GroupVersionResource) map[types.UID]string {
	r := c.reconciler.Load()
	if r == nil {
		return nil
	}
	var list client.ObjectList = &v1alpha1.SchedulingProfileList{}
	if kind.Resource == "pluginconfigs" {
		list = &v1alpha1.PluginConfigList{}
	}
	versions := map[types.UID]string{}
	err := r.reader.List(ctx, list)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				versions[object.GetUID()] = object.GetResourceVersion()
			}
			return err
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "The cache could not be listed", "resource", kind.Resource)
	}
	return versions
}

// Unreconciled returns the names of the profiles that were not reconciled as the cache has them,
// sorted, and of those that run and are deleted.
func (c *ProfileCache) Unreconciled(ctx context.Context) ([]string, error) {
	r := c.reconciler.Load()
	if r == nil {
		return nil, nil
	}
	var profiles v1alpha1.SchedulingProfileList
	if err := r.reader.List(ctx, &profiles); err != nil {
		return nil, err
	}
	var names []string
	exists := map[any]bool{}
	for i := range profiles.Items {
		p := &profiles.Items[i]
		exists[p.Name] = true
		configs, err := getPluginConfigs(ctx, r.reader, p)
		if err != nil {
			return nil, err
		}
		if done, _ := r.handled.Load(p.Name); done != inputOf(p, configs) {
			names = append(names, p.Name)
		}
	}
	r.applied.Range(func(name, _ any) bool {
		if !exists[name] {
			names = append(names, name.(string))
		}
		return true
	})
	slices.Sort(names)
	return names, nil
}

// inputOf identifies what a reconcile of a profile acts on.
func inputOf(p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) string {
	parts := []any{p.UID, p.Generation}
	for _, annotation := range permissionAnnotations {
		parts = append(parts, p.Annotations[annotation])
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		parts = append(parts, name, configs[name].UID, configs[name].Generation)
	}
	return fmt.Sprint(parts)
}
