package devices_test

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/test/support/fixture"
)

var twoClaims = []runtime.Object{fixture.ResourceClaim("a").Request("r", "gpu").Obj(), fixture.ResourceClaim("b").Request("r", "gpu").Obj()}

// newer returns a version of a claim with devices, which the API server would return
// with this resource version.
func (env *testEnv) newer(name, version string, devices ...string) *resourceapi.ResourceClaim {
	claim := env.claim(name).DeepCopy()
	claim.ResourceVersion, claim.Status.Allocation = version, nil
	if len(devices) > 0 {
		claim.Status.Allocation = allocation(devices...)
	}
	return claim
}

func TestReadsReturnAssumedClaimsUntilRestored(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		claims := env.ResourceClaims()
		if err := claims.AssumeClaimAfterAPICall(env.newer("a", "1000", "d0")); err != nil {
			env.t.Fatal(err)
		}
		env.want("claim", env.state("a"), "d0")
		env.want("devices", env.devices(), []string{"d0"})
		env.wantEvents("of the assumption", "ResourceClaimUpdate a: free -> d0")
		err := claims.AssumeClaimAfterAPICall(env.newer("a", "999"))
		env.wantError("of an older version", err, `ResourceClaim "default/a" is out of sync (stored: 1000, assume: 999)`)
		err = claims.AssumeClaimAfterAPICall(fixture.ResourceClaim("c").Obj())
		env.wantError("of an unknown claim", err, `could not find ResourceClaim "default/c"`)
		if !apierrors.IsNotFound(err) {
			env.t.Errorf("%T is no NotFound error", err)
		}

		claims.AssumedClaimRestore("default", "a")
		env.want("restored claim", env.state("a"), "free")
		env.want("devices after restoring", env.devices(), []string{})
		env.wantEvents("of restoring", "ResourceClaimUpdate a: d0 -> free")
		claims.AssumedClaimRestore("default", "a")
		claims.AssumedClaimRestore("default", "c")
		env.wantEvents("of restoring again")
	}, twoClaims...)
}

func TestTheInformerReplacesAnAssumedClaimOnlyByANewerVersion(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		claims := env.ResourceClaims()
		if err := claims.AssumeClaimAfterAPICall(env.newer("a", "1000", "d0")); err != nil {
			env.t.Fatal(err)
		}
		env.takeEvents()
		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"older": "yes"} })
		synctest.Wait()
		env.want("claim after an older version", env.state("a"), "d0")
		env.wantEvents("of the older version")

		claims.AssumedClaimRestore("default", "a")
		env.want("label of the restored claim", env.claim("a").Labels["older"], "yes")
		env.wantEvents("of restoring", "ResourceClaimUpdate a: d0 -> free")

		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocation("d1") })
		synctest.Wait()
		env.want("claim after a newer version", env.state("a"), "d1")
		env.want("devices", env.devices(), []string{"d1"})
		env.wantEvents("of the newer version", "ResourceClaimUpdate a: free -> d1")

		env.removeClaim("a")
		synctest.Wait()
		env.want("devices after the deletion", env.devices(), []string{})
		env.want("last event", env.takeEvents()[1:], []string{"ResourceClaimDelete a: d1 -> none"})
	}, twoClaims...)
}

func TestADeletionWithUnknownFinalStateFreesTheLastKnownDevices(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		if _, err := env.bind("a", "web", "d0"); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.takeEvents()
		env.gate.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "default/a"})
		env.gate.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "default/b", Obj: env.claim("b")})
		env.gate.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "default/unknown"})
		env.want("devices", env.devices(), []string{})
		env.wantEvents("of deletions", "ResourceClaimDelete a: d0 for web -> none", "ResourceClaimDelete b: free -> none")
	}, twoClaims...)
}

// Hints compare the status of two versions of a claim. So they do not see that a claim with another
// spec takes the place of one of its name, which the informer delivers as an update after a lost watch.
func TestAClaimThatTakesThePlaceOfAnotherIsADeletionAndAnAddition(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		if _, err := env.bind("a", "web", "d0"); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.takeEvents()
		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.UID, c.Status = "another", resourceapi.ResourceClaimStatus{} })
		synctest.Wait()
		env.wantEvents("of a claim with devices", "ResourceClaimDelete a: d0 for web -> none", "ResourceClaimAdd a: none -> free")
		env.want("devices", env.devices(), []string{})

		env.replaceClaim("b", func(c *resourceapi.ResourceClaim) { c.UID = "another" })
		synctest.Wait()
		env.wantEvents("of a claim without devices", "ResourceClaimDelete b: free -> none", "ResourceClaimAdd b: none -> free")
		env.replaceClaim("b", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocation("d1") })
		synctest.Wait()
		env.wantEvents("of the same claim", "ResourceClaimUpdate b: free -> d1")
	}, twoClaims...)
}

func TestEventsFollowChangesThatTheReceiverMakes(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		claims := env.ResourceClaims()
		env.onEvent = func(fwk.ClusterEvent) {
			env.onEvent = nil
			claims.AssumedClaimRestore("default", "a")
		}
		if err := claims.AssumeClaimAfterAPICall(env.newer("a", "1000", "d0")); err != nil {
			env.t.Fatal(err)
		}
		env.wantEvents("in order", "ResourceClaimUpdate a: free -> d0", "ResourceClaimUpdate a: d0 -> free")
	}, twoClaims...)
}

func TestAllocationsInFlight(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		claims := env.ResourceClaims()
		env.signal("a", "d0")
		changes := env.changes
		env.signal("a", "d1") // a second pod shares the allocation of the first
		env.want("devices", env.devices(), []string{"d0"})
		env.want("claim", env.state("a"), "free")
		env.want("device in flight", claims.GetPendingAllocation(uidOf("a")).Devices.Results[0].Device, "d0")
		env.want("changes by the second pod", env.changes, changes)
		env.want("removed for one of two pods", claims.MaybeRemoveClaimPendingAllocation(uidOf("a"), false), false)
		env.want("devices of the other pod", env.devices(), []string{"d0"})
		env.want("removed for both", claims.MaybeRemoveClaimPendingAllocation(uidOf("a"), false), true)
		env.want("devices of neither", env.devices(), []string{})
		env.want("removed again", claims.MaybeRemoveClaimPendingAllocation(uidOf("a"), true), false)
		if env.changes != changes+2 { // once more before the event
			env.t.Errorf("Changed was called %d times for a removal", env.changes-changes)
		}

		env.signal("a", "d0")
		env.signal("a", "d0")
		env.want("removed by force", claims.MaybeRemoveClaimPendingAllocation(uidOf("a"), true), true)
		env.want("devices after force", env.devices(), []string{})
		env.wantEvents("of allocations in flight that end", "ResourceClaimUpdate a: d0 -> free", "ResourceClaimUpdate a: d0 -> free")
	}, twoClaims...)
}

// What no other attempt saw has refused no pod. An allocation that two pods share was seen if the
// attempt of one of them was.
func TestTheEndOfAnAllocationIsAnEventIfItWasSeen(t *testing.T) {
	event := []string{"ResourceClaimUpdate a: d0 -> free"}
	for name, test := range map[string]struct {
		seen []bool
		want []string
	}{
		"nobody saw it": {[]bool{false}, nil},
		"it was seen":   {[]bool{true}, event},
		"it was seen while the first pod shared it": {[]bool{true, false}, event},
		"nobody saw it while two pods shared it":    {[]bool{false, false}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				for range test.seen {
					env.signal("a", "d0")
				}
				for i, seen := range test.seen {
					env.want("removed", env.EndPending(uidOf("a"), seen), i == len(test.seen)-1)
				}
				env.want("devices", env.devices(), []string{})
				env.wantEvents("of the end", test.want...)
			}, twoClaims...)
		})
	}
}

// The devices of an allocation in flight are held by its claim, too, from the write on, unless the
// claim was deallocated since: its pod may be deleted in PreBind.
func TestTheEndOfAnAllocationInFlightIsAnEventWhereItsDevicesAreFree(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		claims := env.ResourceClaims()
		env.signal("a", "d0")
		if _, err := env.bind("a", "web", "d0"); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.takeEvents()
		env.signal("b", "d1")
		claims.MaybeRemoveClaimPendingAllocation(uidOf("b"), true)
		env.wantEvents("of a pod that failed before the write", "ResourceClaimUpdate b: d1 -> free")

		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
		synctest.Wait()
		env.takeEvents()
		env.want("devices while the allocation is in flight", env.devices(), []string{"d0"})
		claims.MaybeRemoveClaimPendingAllocation(uidOf("a"), true)
		env.want("devices after that", env.devices(), []string{})
		env.wantEvents("of a claim that was deallocated meanwhile", "ResourceClaimUpdate a: d0 -> free")
	}, twoClaims...)
	runInVirtualTime(t, func(env *testEnv) {
		env.signal("a", "d0")
		if _, err := env.bind("a", "web", "d0"); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.takeEvents()
		env.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf("a"), true)
		env.wantEvents("of a claim that was written")
	}, twoClaims...)
}

func TestNoAllocationIsInFlightForAnAllocatedClaim(t *testing.T) {
	allocated := fixture.ResourceClaim("a").Request("r", "gpu").Allocated("n1", "gpu.example.com/n1/d0").Obj()
	runInVirtualTime(t, func(env *testEnv) {
		env.signal("a", "d1")
		env.want("devices", env.devices(), []string{"d0"})
		if env.ResourceClaims().GetPendingAllocation(uidOf("a")) != nil {
			env.t.Error("an allocation is in flight")
		}
	}, allocated)
}

func TestSignalRejects(t *testing.T) {
	inMemory := fixture.ResourceClaim("<extended-resources>").UID("temporary").Allocated("n1", "gpu.example.com/n1/d7").Obj()
	for name, c := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  string
	}{
		"no claim":                     {nil, "claim with UID u: status.allocation: is empty, want the allocation that is in flight"},
		"a claim without allocation":   {fixture.ResourceClaim("a").Obj(), "claim with UID u: status.allocation: is empty, want the allocation that is in flight"},
		"an unknown claim":             {fixture.ResourceClaim("c").Allocated("n1").Obj(), `look up assumed claim default/c, UID=u: could not find ResourceClaim "default/c"`},
		"no claim that is in memory":   {inMemory, ""},
		"no claim that is unallocated": {fixture.ResourceClaim("a").Allocated("n1").Obj(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.wantError("of Signal", env.ResourceClaims().SignalClaimPendingAllocation("u", c.claim), c.want)
			}, twoClaims...)
		})
	}
}

// kube-scheduler frees the device when one of the claims lets go.
func TestADeviceOfTwoClaimsIsFreeWhenBothLetGo(t *testing.T) {
	held := func(name string) runtime.Object {
		return fixture.ResourceClaim(name).Request("r", "gpu").Allocated("n1", "gpu.example.com/n1/d0").Obj()
	}
	runInVirtualTime(t, func(env *testEnv) {
		env.want("devices", env.devices(), []string{"d0"})
		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil })
		synctest.Wait()
		env.want("devices of one", env.devices(), []string{"d0"})
		env.removeClaim("b")
		synctest.Wait()
		env.want("devices of none", env.devices(), []string{})
	}, held("a"), held("b"))
}

func TestSharesOfADevice(t *testing.T) {
	share := func(name, id, memory string) *resourceapi.ResourceClaim {
		return fixture.ResourceClaim(name).Request("r", "gpu").Allocated("n1", "gpu.example.com/n1/d0").Mutate(func(c *resourceapi.ResourceClaim) {
			fixture.Share(c, id, "memory", memory)
		}).Obj()
	}
	admin := fixture.ResourceClaim("admin").Request("r", "gpu").AdminAccess().Allocated("n1", "gpu.example.com/n1/d1").Mutate(func(c *resourceapi.ResourceClaim) {
		yes := true
		c.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	}).Obj()
	runInVirtualTime(t, func(env *testEnv) {
		claims := env.ResourceClaims()
		state, _ := claims.GatherAllocatedState()
		check := func(what string, shares int, memory string) {
			env.t.Helper()
			state, _ := claims.GatherAllocatedState()
			env.want(what+": shares", len(state.AllocatedSharedDeviceIDs), shares)
			for _, consumed := range state.AggregatedCapacity {
				env.want(what+": memory", consumed["memory"].String(), memory)
			}
		}
		check("two claims", 2, "3Gi")
		env.want("exclusive devices", env.devices(), []string{})
		all, _ := claims.ListAllAllocatedDevices()
		env.want("devices in part", len(all), 1)

		// The same share is in flight for a claim that is being written.
		if err := claims.SignalClaimPendingAllocation("temporary", share("<extended-resources>", "s1", "1Gi")); err != nil {
			env.t.Fatal(err)
		}
		check("one of them in flight too", 2, "3Gi")
		env.removeClaim("one")
		synctest.Wait()
		check("one of them only in flight", 2, "3Gi")
		claims.MaybeRemoveClaimPendingAllocation("temporary", false)
		check("one claim", 1, "2Gi")
		env.removeClaim("two")
		synctest.Wait()
		check("no claim", 0, "")
		env.want("an earlier result is as it was", len(state.AllocatedSharedDeviceIDs), 2)
	}, share("one", "s1", "1Gi"), share("two", "s2", "2Gi"), admin)
}

func TestDevicesAreEmptyWithoutInformers(t *testing.T) {
	empty := devices.New(devices.Options{Clock: clock.RealClock{}})
	_, claimErr := empty.ResourceClaims().Get("default", "a")
	_, classErr := empty.DeviceClasses().Get("gpu")
	if !apierrors.IsNotFound(claimErr) || !apierrors.IsNotFound(classErr) {
		t.Errorf("got %v and %v, want NotFound", claimErr, classErr)
	}
	claims, err := empty.ResourceClaims().List()
	slices, sliceErr := empty.ResourceSlices().ListWithDeviceTaintRules()
	classes, classesErr := empty.DeviceClasses().List()
	if len(claims)+len(slices)+len(classes) > 0 || err != nil || sliceErr != nil || classesErr != nil {
		t.Errorf("got %v %v, %v %v, %v %v", claims, err, slices, sliceErr, classes, classesErr)
	}
	state, err := empty.ResourceClaims().GatherAllocatedState()
	if err != nil || len(state.AllocatedDevices) > 0 {
		t.Errorf("got %v, %v", state, err)
	}
	if class := empty.DeviceClassResolver().GetDeviceClass("example.com/gpu"); class != nil {
		t.Errorf("got the class %s", class.Name)
	}
	if _, err := empty.UseInformers(devices.Informers{}); err == nil {
		t.Error("UseInformers accepts no informers")
	}
}

func TestClaimsAreFoundByTheirController(t *testing.T) {
	p, q := fixture.Pod("p").Obj(), fixture.Pod("q").Obj()
	names := func(env *testEnv, pod *v1.Pod) []string {
		found := []string{}
		for _, claim := range env.ControlledClaims(pod.UID) {
			found = append(found, claim.Name)
		}
		return found
	}
	runInVirtualTime(t, func(env *testEnv) {
		env.want("claims of p", names(env, p), []string{"first", "second"})
		env.replaceClaim("first", func(c *resourceapi.ResourceClaim) {
			c.OwnerReferences = fixture.ResourceClaim("x").OwnedBy(q).Obj().OwnerReferences
		})
		synctest.Wait()
		env.want("claims of p after one got another controller", names(env, p), []string{"second"})
		env.want("claims of q", names(env, q), []string{"first"})
		env.removeClaim("second")
		synctest.Wait()
		env.want("claims of p after the deletion", names(env, p), []string{})
	}, fixture.ResourceClaim("first").OwnedBy(p).Obj(), fixture.ResourceClaim("second").OwnedBy(p).Obj(), fixture.ResourceClaim("free").Obj())
}
