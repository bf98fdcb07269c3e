package devices_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// inMemoryClaim is a claim for extended resources as PreFilter makes it.
func inMemoryClaim() *resourceapi.ResourceClaim {
	return fixture.ResourceClaim("<extended-resources>").UID("temporary").Request("r", "gpu").Mutate(func(c *resourceapi.ResourceClaim) {
		c.GenerateName, c.ResourceVersion = "web-extended-resources-", ""
		c.Status.Allocation = allocation("d0")
	}).Obj()
}

// create allocates a claim for extended resources, and writes it.
func (env *testEnv) create() *resourceapi.ResourceClaim {
	env.t.Helper()
	claim := inMemoryClaim()
	if err := env.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim); err != nil {
		env.t.Fatal(err)
	}
	created, err := env.CreateClaim(env.t.Context(), claim)
	if err != nil {
		env.t.Fatal(err)
	}
	bound, err := env.BindClaim(env.t.Context(), created, claim.Status.Allocation, fixture.Pod("web").Obj())
	if err != nil {
		env.t.Fatal(err)
	}
	env.ResourceClaims().MaybeRemoveClaimPendingAllocation(claim.UID, true)
	return bound
}

func TestACreatedClaimIsKnownAtOnce(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.gate.close()
		claim := env.create()
		env.want("claim before the informer delivers it", env.state(claim.Name), "d0 for web")
		env.want("devices before the informer delivers it", env.devices(), []string{"d0"})
		env.ResourceClaims().AssumedClaimRestore("default", claim.Name)
		env.want("devices after restoring", env.devices(), []string{"d0"})
		env.takeEvents()
		env.gate.open()
		synctest.Wait()
		env.want("claim after the informer has delivered it", env.state(claim.Name), "d0 for web")
		env.wantEvents("of the informer")

		if err := env.DeleteClaim(env.t.Context(), claim); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.want("devices after the deletion", env.devices(), []string{})
		list, _ := env.ResourceClaims().List()
		env.want("claims", len(list), 0)
		if err := env.DeleteClaim(env.t.Context(), claim); err != nil {
			env.t.Errorf("a second deletion: %v", err)
		}
	})
}

func TestADeletedClaimIsForgottenBeforeTheInformerDeliversIt(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.gate.close()
		claim := env.create()
		if err := env.DeleteClaim(env.t.Context(), claim); err != nil {
			env.t.Fatal(err)
		}
		env.want("devices", env.devices(), []string{})
		env.gate.open()
		synctest.Wait()
		env.want("devices after the informer has delivered all", env.devices(), []string{})
		list, _ := env.ResourceClaims().List()
		env.want("claims", len(list), 0)
	})
}

// The informer delivers creation and deletion before CreateClaim returns.
func TestAClaimThatIsDeletedWhileItIsCreatedIsNotAssumed(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "createclaim", After: func() {
			synctest.Wait()
			env.removeClaim(env.cluster.ResourceClaims()[0].Name)
			synctest.Wait()
		}})
		if _, err := env.CreateClaim(env.t.Context(), inMemoryClaim()); err != nil {
			env.t.Fatal(err)
		}
		list, _ := env.ResourceClaims().List()
		env.want("claims", len(list), 0)
	})
}

// The informer has no watch while a claim is created and deleted, and does not learn of
// either.
func TestACreatedClaimThatTheInformerNeverSeesIsDropped(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.gate.drop()
		env.gate.setVersion("1")
		claim := env.create()
		env.removeClaim(claim.Name)
		time.Sleep(5 * time.Minute)
		env.want("devices while the informer may still deliver the claim", env.devices(), []string{"d0"})
		env.gate.setVersion("100000")
		time.Sleep(5 * time.Minute)
		env.want("devices after the informer has delivered newer objects", env.devices(), []string{})
	})
}

func TestDeleteClaimLeavesAClaimOfTheSameName(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		stale := env.claim("a")
		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.UID = "another" })
		if err := env.DeleteClaim(env.t.Context(), stale); err != nil {
			env.t.Error(err)
		}
		env.want("claims in the API server", len(env.cluster.ResourceClaims()), 2)
	}, twoClaims...)
}

func TestCreateAndDeleteFailures(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		unnamed := inMemoryClaim()
		unnamed.GenerateName = ""
		_, err := env.CreateClaim(env.t.Context(), unnamed)
		env.wantError("without a name", err, "claim for extended resources in namespace default: metadata.generateName: is empty")

		env.cluster.Inject(fakecluster.Fault{Verb: "createclaim", Err: errRefused})
		_, err = env.CreateClaim(env.t.Context(), inMemoryClaim())
		env.wantError("of the API server", err, "create claim for extended resources default/<extended-resources>: refused")
		list, _ := env.ResourceClaims().List()
		env.want("claims", len(list), 0)

		claim := env.create()
		env.cluster.TakeCalls()
		env.cluster.Inject(fakecluster.Fault{Verb: "updateclaim", Err: apierrors.NewConflict(resourceapi.Resource("resourceclaims"), claim.Name, errRefused)})
		env.cluster.Inject(fakecluster.Fault{Verb: "deleteclaim", Err: errRefused})
		env.wantError("of the deletion", env.DeleteClaim(env.t.Context(), claim), "refused")
		env.want("calls", env.cluster.TakeCalls(), []string{"updateclaim " + claim.Name, "getclaim " + claim.Name, "updateclaim " + claim.Name, "deleteclaim " + claim.Name})
		synctest.Wait()
		env.want("devices of a claim that was not deleted", env.devices(), []string{"d0"})
	})
}

func TestTheClaimInThePodsStatus(t *testing.T) {
	claimOf := func(env *testEnv) string {
		if status := env.cluster.Pod(fixture.Pod("web").Obj()).Status.ExtendedResourceClaimStatus; status != nil {
			return status.ResourceClaimName
		}
		return ""
	}
	label := func(p *v1.Pod) { p.Labels = map[string]string{"x": "y"} }
	for name, c := range map[string]struct {
		// changed says that the pod changes before the write, and replaced that another pod gets its name.
		changed, replaced bool
		err, claim        string
	}{
		"is written":                                {claim: "second"},
		"is written to a pod that has changed":      {changed: true, claim: "second"},
		"is not written to another pod of its name": {replaced: true, err: "update pod default/web ExtendedResourceClaimStatus: it got deleted in the meantime"},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				known := env.cluster.Pod(fixture.Pod("web").Obj())
				first := known.DeepCopy()
				if c.changed {
					env.cluster.UpdatePod(known, label)
				}
				if c.replaced {
					env.cluster.DeletePod(known)
					env.cluster.Apply(fixture.Pod("web").UID("another").Obj())
				}
				err := env.SetExtendedResourceClaimStatus(env.t.Context(), known, &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "second"})
				env.wantError("of the write", err, c.err)
				env.want("claim", claimOf(env), c.claim)

				// The write of an earlier attempt had the version that this one began with.
				env.cluster.Inject(fakecluster.Fault{Verb: "get", Err: errRefused})
				if err := env.SetExtendedResourceClaimStatus(env.t.Context(), first, &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "first"}); err == nil {
					env.t.Error("an earlier write was stored late")
				}
				env.want("claim in the end", claimOf(env), c.claim)
			}, fixture.Pod("web").Obj())
		})
	}
}
