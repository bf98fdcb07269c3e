package devices_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestAWriteWithUnknownOutcomeKeepsItsDevices(t *testing.T) {
	for name, c := range map[string]struct {
		stored bool
		// deleted says that the claim is deleted while the API server does not answer, and
		// replaced that another one gets its name.
		deleted, replaced bool
		devices           []string
		events            []string
	}{
		"until the API server says that it was stored": {stored: true, devices: []string{"d0"}, events: []string{"ResourceClaimUpdate a: free -> d0 for web"}},
		"until it cannot be stored any more":           {devices: []string{}, events: []string{"ResourceClaimUpdate a: d0 for web -> free"}},
		"until the claim is deleted":                   {deleted: true, devices: []string{}, events: []string{"ResourceClaimDelete a: d0 for web -> none"}},
		"until the claim is replaced":                  {deleted: true, replaced: true, devices: []string{}, events: []string{"ResourceClaimDelete a: d0 for web -> none"}},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.gate.close()
				env.signal("a", "d0")
				var late *resourceapi.ResourceClaim
				env.cluster.Inject(fakecluster.Fault{Verb: "updateclaimstatus", Err: errRefused, Committed: c.stored, Before: func() {
					late = env.cluster.ResourceClaims()[0].DeepCopy()
					env.cluster.Inject(fakecluster.Fault{Verb: "updateclaim", Err: errRefused, Times: 3})
				}})
				if _, err := env.bind("a", "web", "d0"); err == nil {
					env.t.Fatal("BindClaim returned no error")
				}
				env.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf("a"), false)
				env.ResourceClaims().AssumedClaimRestore("default", "a")
				env.takeEvents() // of the finalizer
				time.Sleep(2500 * time.Millisecond)
				env.want("devices while the API server does not answer", env.devices(), []string{"d0"})
				if c.deleted {
					env.removeClaim("a")
				}
				if c.replaced {
					env.cluster.Apply(fixture.ResourceClaim("a").UID("another").Obj())
				}
				time.Sleep(time.Second)
				synctest.Wait()
				env.want("devices after it has answered", env.devices(), c.devices)
				events := env.takeEvents()
				env.want("events", events[max(0, len(events)-1):], c.events)

				late.Status.Allocation = allocation("d0")
				if _, err := env.cluster.ResourceV1().ResourceClaims("default").UpdateStatus(env.t.Context(), late, metav1.UpdateOptions{}); err == nil {
					env.t.Error("the write was stored after its devices were given back")
				}
			}, twoClaims...)
		})
	}
}

// Run with the race detector: reads and writes at the same time, each of which sees
// either none or all of a device.
func TestConcurrentUse(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		var running sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			running.Go(func() {
				device := map[string]string{"a": "d0", "b": "d1"}[name]
				for i := range 20 {
					env.signal(name, device)
					env.replaceClaim(name, func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": fmt.Sprint(i)} })
					if _, err := env.bind(name, "web", device); err != nil {
						env.t.Error(err)
					}
					env.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf(name), true)
					env.DeallocateClaim(env.claim(name))
					time.Sleep(time.Second)
				}
			})
		}
		for range 2 {
			running.Go(func() {
				for range 200 {
					if held := env.devices(); len(held) > 2 {
						env.t.Errorf("devices: %v", held)
					}
					_, _ = env.ResourceClaims().List()
					_, _ = env.ResourceClaims().ListAllAllocatedDevices()
					_, _ = env.ResourceSlices().ListWithDeviceTaintRules()
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		running.Wait()
		synctest.Wait()
		env.want("devices in the end", env.devices(), []string{})
	}, twoClaims...)
}
