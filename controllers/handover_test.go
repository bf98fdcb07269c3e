package controllers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// newProfileCache returns what a new leader asks, of the reconciler of d.
func newProfileCache(d *testEnv) *ProfileCache {
	c := &ProfileCache{}
	c.reconciler.Store(d.profileReconciler)
	return c
}

// A new leader would decide by what runs here, which is not what its cache has.
func TestWhichProfilesANewLeaderWaitsFor(t *testing.T) {
	config := withConfigRef("Own", "shared")
	for name, c := range map[string]struct {
		before func(d *testEnv)
		// change is what the cache has after a first reconcile; nil for the same.
		change fakeReader
		// then, unless nil, is what a second reconcile meets.
		then func(d *testEnv)
		want []string
	}{
		"none that was reconciled":                 {},
		"none whose status was written":            {change: fakeReader{newProfile(1, config, withRunningConfig("shared", 1)), newConfig("shared", 1)}},
		"one whose spec changed":                   {change: fakeReader{newProfile(2, config), newConfig("shared", 1)}, want: []string{"batch"}},
		"one that was approved":                    {change: fakeReader{newProfile(1, config, withManualActivation("hash-1")), newConfig("shared", 1)}, want: []string{"batch"}},
		"one that replaced another":                {change: fakeReader{newProfile(1, config, func(p *v1alpha1.SchedulingProfile) { p.UID = "other" }), newConfig("shared", 1)}, want: []string{"batch"}},
		"one whose PluginConfig changed":           {change: fakeReader{newProfile(1, config), newConfig("shared", 2)}, want: []string{"batch"}},
		"one whose PluginConfig was deleted":       {change: fakeReader{newProfile(1, config)}, want: []string{"batch"}},
		"one that was deleted and runs":            {change: fakeReader{}, want: []string{"batch"}},
		"none whose deletion was reconciled":       {change: fakeReader{}, then: func(*testEnv) {}},
		"none whose change was reconciled":         {change: fakeReader{newProfile(2)}, then: func(*testEnv) {}},
		"none that cannot be built":                {change: fakeReader{newProfile(2)}, then: func(d *testEnv) { d.applier.err = errNoLicence }},
		"none that is refused":                     {change: fakeReader{newProfile(2)}, then: func(d *testEnv) { d.reject = rejectionOf(noSuchPlugin) }},
		"one that has to wait for its place":       {change: fakeReader{newProfile(2)}, then: func(d *testEnv) { d.applier.full = true }, want: []string{"batch"}},
		"one whose history cannot be read":         {change: fakeReader{newProfile(2)}, then: func(d *testEnv) { d.failRevisions("list", 10, errors.New("busy")) }, want: []string{"batch"}},
		"one that a follower leaves to its leader": {before: func(d *testEnv) { d.elected = make(chan struct{}) }, want: []string{"batch"}},
		"one that was not reconciled yet":          {before: func(d *testEnv) { d.cluster = append(d.cluster, newProfile(1, withName("web"))) }, want: []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t)
			d.cluster = fakeReader{newProfile(1, config), newConfig("shared", 1)}
			if c.before != nil {
				c.before(d)
			}
			d.mustReconcile()
			if c.change != nil {
				d.cluster = c.change
			}
			if c.then != nil {
				c.then(d)
				_, _ = d.reconcile()
				d.clock.Step(settlePeriod)
				_, _ = d.reconcile()
			}
			got, err := newProfileCache(d).Unreconciled(t.Context())
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("error %v, profiles (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTheProfileCacheHasTheVersionsOfBothKinds(t *testing.T) {
	d := newTestEnv(t)
	d.cluster = fakeReader{newProfile(1), newConfig("shared", 1)}
	for resource, want := range map[string]map[types.UID]string{
		"schedulingprofiles": {"batch-1": "10"},
		"pluginconfigs":      {"shared-1": "10"},
	} {
		if got := newProfileCache(d).Versions(t.Context(), v1alpha1.GroupVersion.WithResource(resource)); !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", resource, got, want)
		}
	}
}

// Before its kinds are served no profile runs, and there is nothing that a leader could wait for.
func TestAProfileCacheWithoutControllersIsEmpty(t *testing.T) {
	c := &ProfileCache{}
	names, err := c.Unreconciled(t.Context())
	if versions := c.Versions(t.Context(), v1alpha1.GroupVersion.WithResource("schedulingprofiles")); len(names)+len(versions) > 0 || err != nil {
		t.Errorf("profiles %v, versions %v, error %v", names, versions, err)
	}
}

func TestAPauseIsObeyedWhereTheHistoryCannotBeRead(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withPausedState))
	d.failRevisions("list", 10, errors.New("busy"))
	if _, err := d.reconcile(); err == nil {
		t.Error("the reconcile succeeds")
	}
	d.wantCalls("pause batch true")
}
