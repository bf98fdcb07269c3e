package scheduler

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/leadership"
)

// fakeProfileCache is a ProfileCache. The versions are those of both kinds.
type fakeProfileCache struct {
	mu           sync.Mutex
	versions     map[types.UID]string
	unreconciled []string
}

func (c *fakeProfileCache) Versions(context.Context, schema.GroupVersionResource) map[types.UID]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.versions)
}

func (c *fakeProfileCache) Unreconciled(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unreconciled, nil
}

// set replaces what the cache holds.
func (c *fakeProfileCache) set(versions map[types.UID]string, unreconciled ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions, c.unreconciled = versions, unreconciled
}

// setProfiles sets what quorum lists of SchedulingProfiles and PluginConfigs return, and what the
// cache holds.
func (env *testEnv) setProfiles(listed map[schema.GroupVersionResource]leadership.ObjectList, cache *fakeProfileCache) {
	env.setHandover(nil, listedNodes("1")[:1])
	env.options.Handover.ProfileCache = cache
	list := env.options.Handover.List
	env.options.Handover.List = func(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, error) {
		if kind != profileKinds[0] && kind != profileKinds[1] {
			return list(ctx, kind, fields)
		}
		if l, served := listed[kind]; served {
			return l, nil
		}
		return leadership.ObjectList{}, apierrors.NewNotFound(kind.GroupResource(), "")
	}
}

// listOf returns a list of one object at version 20, or of none.
func listOf(uids ...types.UID) leadership.ObjectList {
	list := leadership.ObjectList{ResourceVersion: "25"}
	for _, uid := range uids {
		list.Objects = append(list.Objects, leadership.ListedObject{Name: "p", UID: uid, ResourceVersion: "20"})
	}
	return list
}

// An earlier leader may have acted on a version of a profile that the cache of its successor lacks:
// the successor would bind pods of a profile that is paused or deleted, or by an older spec.
func TestANewLeaderWaitsForProfiles(t *testing.T) {
	profiles, configs := profileKinds[0], profileKinds[1]
	type lists = map[schema.GroupVersionResource]leadership.ObjectList
	type versions = map[types.UID]string
	for name, c := range map[string]struct {
		listed       lists
		cached       versions
		unreconciled []string
		// then is what the cache holds in the end; nil where the leader must not wait.
		then versions
	}{
		"a newer version of a profile":              {lists{profiles: listOf("p1")}, versions{"p1": "19"}, nil, versions{"p1": "20"}},
		"a newer version of a PluginConfig":         {lists{configs: listOf("c1")}, versions{"c1": "19"}, nil, versions{"c1": "21"}},
		"a profile that the cache lacks":            {lists{profiles: listOf("p1")}, versions{}, nil, versions{"p1": "20"}},
		"the deletion of a profile":                 {lists{profiles: listOf()}, versions{"p1": "20"}, nil, versions{}},
		"a profile that replaced another one":       {lists{profiles: listOf("p2")}, versions{"p1": "19"}, nil, versions{"p2": "20"}},
		"a reconcile":                               {lists{profiles: listOf("p1")}, versions{"p1": "20"}, []string{"p"}, versions{"p1": "20"}},
		"nothing where the cache is current":        {lists{profiles: listOf("p1")}, versions{"p1": "20"}, nil, nil},
		"nothing where a profile came after that":   {lists{profiles: listOf()}, versions{"p1": "30"}, nil, nil},
		"nothing without CustomResourceDefinitions": {lists{}, versions{"p1": "20"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.apply("one")
				cache := &fakeProfileCache{}
				cache.set(c.cached, c.unreconciled...)
				env.setProfiles(c.listed, cache)
				defer env.startLeading()()
				time.Sleep(reconcileTimeout - time.Second)
				if c.then != nil {
					env.want("node of a before the profiles are current", env.nodeOf("a"), "")
					cache.set(c.then)
					time.Sleep(time.Second / 2)
				}
				env.want("node of a", env.nodeOf("a"), "n")
			}, node("n"), webPod("a"))
		})
	}
}

// Nothing keeps a new leader from scheduling for ever: a profile that was deleted after the list
// never comes, and a reconcile may hang.
func TestANewLeaderDoesNotWaitForProfilesInVain(t *testing.T) {
	for name, c := range map[string]struct {
		again        leadership.ObjectList
		unreconciled []string
	}{
		"a profile is deleted before the cache has it": {listOf(), nil},
		"a reconcile does not end":                     {listOf("p1"), []string{"p"}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.apply("one")
				cache := &fakeProfileCache{}
				if c.unreconciled != nil {
					cache.set(map[types.UID]string{"p1": "20"}, c.unreconciled...)
				}
				env.setProfiles(map[schema.GroupVersionResource]leadership.ObjectList{profileKinds[0]: listOf("p1")}, cache)
				list, isListed := env.options.Handover.List, false
				env.options.Handover.List = func(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, error) {
					if kind == profileKinds[0] && isListed {
						return c.again, nil
					}
					isListed = isListed || kind == profileKinds[0]
					return list(ctx, kind, fields)
				}
				defer env.startLeading()()
				time.Sleep(reconcileTimeout + time.Second)
				env.want("node of a", env.nodeOf("a"), "n")
			}, node("n"), webPod("a"))
		})
	}
}
