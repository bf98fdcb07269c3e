package scheduler

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/leadership"
)

const (
	// reconcileTimeout is how long a new leader waits for the reconciles of profiles. A plugin whose
	// build hangs, or a request that fails, must not delay the pods of all other profiles.
	reconcileTimeout = 10 * time.Second
	// relistInterval is how often a new leader checks whether objects that its cache lacks still
	// exist.
	relistInterval = time.Second
)

// profileKinds are the kinds that decide what runs.
var profileKinds = []schema.GroupVersionResource{
	v1alpha1.GroupVersion.WithResource("schedulingprofiles"), v1alpha1.GroupVersion.WithResource("pluginconfigs"),
}

// ProfileCache is the cache from which the controllers reconcile SchedulingProfiles. Its methods
// are safe for concurrent use.
type ProfileCache interface {
	// Versions returns the resource versions of the cached objects of a kind, by UID; none before
	// the controllers run.
	Versions(ctx context.Context, kind schema.GroupVersionResource) map[types.UID]string
	// Unreconciled returns the names of the profiles that were not reconciled as the cache has
	// them. A profile that was reconciled is paused or deleted if it is to be, and what runs is
	// what its spec resolves to, unless that cannot be built or must not run.
	Unreconciled(ctx context.Context) ([]string, error)
}

// waitForProfiles waits until no profile runs here that an earlier leader may have known to be
// changed, paused or deleted: until the controllers' cache holds each profile and PluginConfig
// of a quorum list, and then, for reconcileTimeout at most, until they are reconciled. It returns
// false when ctx ends first.
func (s *Scheduler) waitForProfiles(ctx context.Context) bool {
	if s.options.Handover.ProfileCache == nil {
		return true
	}
	for _, kind := range profileKinds {
		if !s.waitForProfileCache(ctx, kind) {
			return false
		}
	}
	return s.waitForReconciles(ctx)
}

// waitForProfileCache waits until the controllers' cache holds each object of a quorum list at its
// version or a newer one, and none that was deleted before.
func (s *Scheduler) waitForProfileCache(ctx context.Context, kind schema.GroupVersionResource) bool {
	list, ok := s.listServed(ctx, kind)
	if !ok || list.ResourceVersion == "" {
		return ok
	}
	cached := func() map[types.UID]string { return s.options.Handover.ProfileCache.Versions(ctx, kind) }
	listedAt := s.options.Clock.Now()
	if !s.waitForObjects(ctx, slices.Clone(list.Objects), func(listed []leadership.ListedObject) []leadership.ListedObject {
		if s.options.Clock.Since(listedAt) > relistInterval {
			listed, listedAt = s.withoutDeleted(ctx, kind, listed), s.options.Clock.Now()
		}
		versions := cached()
		return slices.DeleteFunc(listed, func(l leadership.ListedObject) bool { return atLeast(versions[l.UID], l.ResourceVersion) })
	}) {
		return false
	}
	var known []leadership.ListedObject
	for uid, version := range cached() {
		known = append(known, leadership.ListedObject{UID: uid, ResourceVersion: version})
	}
	return s.waitForObjects(ctx, unlisted(known, list), func(deleted []leadership.ListedObject) []leadership.ListedObject {
		versions := cached()
		return slices.DeleteFunc(deleted, func(l leadership.ListedObject) bool { return versions[l.UID] == "" })
	})
}

// listServed is a quorum list; the zero value where the API server does not serve the kind.
func (s *Scheduler) listServed(ctx context.Context, kind schema.GroupVersionResource) (leadership.ObjectList, bool) {
	return retry(ctx, s, 0, func(ctx context.Context) (leadership.ObjectList, error) {
		list, err := s.options.Handover.List(ctx, kind, "")
		if apierrors.IsNotFound(err) {
			return leadership.ObjectList{}, nil
		}
		return list, err
	})
}

// withoutDeleted returns the objects that still exist: an object that was deleted before the cache
// had it never comes.
func (s *Scheduler) withoutDeleted(ctx context.Context, kind schema.GroupVersionResource, listed []leadership.ListedObject) []leadership.ListedObject {
	now, ok := s.listServed(ctx, kind)
	if !ok {
		return listed
	}
	return slices.DeleteFunc(listed, func(l leadership.ListedObject) bool {
		return !slices.ContainsFunc(now.Objects, func(other leadership.ListedObject) bool { return other.UID == l.UID })
	})
}

// waitForReconciles waits until the profiles are reconciled, for reconcileTimeout at most. It
// returns false when ctx ends first.
func (s *Scheduler) waitForReconciles(ctx context.Context) bool {
	for start := s.options.Clock.Now(); ; {
		names, err := s.options.Handover.ProfileCache.Unreconciled(ctx)
		switch {
		case err == nil && len(names) == 0:
			return true
		case s.options.Clock.Since(start) >= reconcileTimeout:
			s.options.Log.Error(err, "Scheduling begins although these profiles are not reconciled: what runs may be older than their specs", "schedulingProfiles", names)
			return true
		case !s.sleep(ctx, handoverPollInterval):
			return false
		}
	}
}
