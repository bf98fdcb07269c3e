package devices_test

import (
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestALateAllocationByAnEarlierLeaderFails(t *testing.T) {
	// write is what the earlier leader sends for the version of the claim that it knew.
	write := func(env *testEnv, known *resourceapi.ResourceClaim) error {
		late := known.DeepCopy()
		late.Status.Allocation = allocation("d0")
		_, err := env.cluster.ResourceV1().ResourceClaims(known.Namespace).UpdateStatus(t.Context(), late, metav1.UpdateOptions{})
		return err
	}
	for name, c := range map[string]struct {
		claim *fixture.ResourceClaimBuilder
		// arrives says that the write arrives while the claim is fenced, not after it.
		arrives bool
		fault   *fakecluster.Fault
		// late is whether the write conflicts; state is the claim afterwards, and calls are
		// those of FenceClaims.
		late  bool
		err   string
		state string
		calls []string
	}{
		"after the finalizer was written": {claim: fixture.ResourceClaim("a").Finalizer(), late: true, state: "free", calls: []string{"updateclaim a"}},
		"unless it arrives before the fence: then its devices are taken": {
			claim: fixture.ResourceClaim("a").Finalizer(), arrives: true, state: "d0", calls: []string{"updateclaimstatus a", "updateclaim a", "getclaim a"},
		},
		"a claim without the finalizer needs no fence: the finalizer comes first": {claim: fixture.ResourceClaim("a"), state: "d0"},
		"an allocated claim needs none: it cannot be allocated again":             {claim: fixture.ResourceClaim("a").Allocated("n", "gpu/pool/d1"), state: "d1"},
		"without the right to write claims no leader has allocated": {
			claim: fixture.ResourceClaim("a").Finalizer(), fault: &fakecluster.Fault{Verb: "updateclaim", Err: apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "a", errRefused)},
			state: "d0", calls: []string{"updateclaim a"},
		},
		"an error is returned for a retry": {
			claim: fixture.ResourceClaim("a").Finalizer(), fault: &fakecluster.Fault{Verb: "updateclaim", Err: errRefused}, err: "refused", state: "d0", calls: []string{"updateclaim a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				known := env.claim("a")
				if c.fault != nil {
					env.cluster.Inject(*c.fault)
				}
				if c.arrives {
					env.gate.close()
					if err := write(env, known); err != nil {
						t.Error(err)
					}
				}
				env.wantError("of FenceClaims", env.FenceClaims(t.Context()), c.err)
				if calls := env.cluster.TakeCalls(); len(calls) > 0 || len(c.calls) > 0 {
					env.want("calls", calls, c.calls)
				}
				if !c.arrives {
					if err := write(env, known); apierrors.IsConflict(err) != c.late {
						t.Errorf("the late write returns %v, want a conflict: %v", err, c.late)
					}
				}
				env.gate.open()
				synctest.Wait()
				env.want("claim", env.state("a"), c.state)
			}, c.claim.Request("r", "gpu").Obj())
		})
	}
}

func TestAClaimHasBeenSeenAtItsVersion(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.gate.close()
		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": "y"} })
		newer := env.cluster.ResourceClaims()[0].ResourceVersion
		if env.HasSeenClaim("default", "a", newer) {
			t.Error("a version was seen that the informer has not delivered")
		}
		env.gate.open()
		synctest.Wait()
		if !env.HasSeenClaim("default", "a", newer) {
			t.Error("the delivered version was not seen")
		}
		if !env.HasSeenClaim("default", "gone", newer) || env.HasSeenClaim("default", "to-come", newer+"0") {
			t.Error("a claim that is not there was seen if the informer is at its version")
		}
	}, twoClaims...)
}
