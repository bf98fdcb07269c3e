package devices_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	type testCase struct {
		claim *fixture.ResourceClaimBuilder
		// arrives says that the write arrives while the claim is fenced, not after it.
		arrives bool
		fault   *fakecluster.Fault
		// webhook changes the claim when it is written.
		webhook func(*resourceapi.ResourceClaim)
		// late is whether the write conflicts, unfenced what FenceClaims returns; state is the
		// claim afterwards, and calls are those of FenceClaims.
		late     bool
		unfenced []string
		state    string
		calls    []string
	}
	claims, threeUpdates := resourceapi.Resource("resourceclaims"), []string{"updateclaim a", "updateclaim a", "updateclaim a"}
	refused := func(err error) testCase {
		return testCase{
			claim: fixture.ResourceClaim("a").Finalizer(), fault: &fakecluster.Fault{Verb: "updateclaim", Err: err},
			unfenced: []string{"a"}, state: "d0", calls: []string{"updateclaim a"},
		}
	}
	for name, c := range map[string]testCase{
		"after the finalizer was written": {claim: fixture.ResourceClaim("a").Finalizer(), late: true, state: "free", calls: []string{"updateclaim a"}},
		"unless it arrives before the fence: then its devices are taken": {
			claim: fixture.ResourceClaim("a").Finalizer(), arrives: true, state: "d0", calls: []string{"updateclaimstatus a", "updateclaim a", "getclaim a"},
		},
		"a claim without the finalizer needs no fence: the finalizer comes first": {claim: fixture.ResourceClaim("a"), state: "d0"},
		"an allocated claim needs none: it cannot be allocated again":             {claim: fixture.ResourceClaim("a").Allocated("n", "gpu/pool/d1"), state: "d1"},
		"nor is it given up after some errors": {
			claim: fixture.ResourceClaim("a").Finalizer(), fault: &fakecluster.Fault{Verb: "updateclaim", Times: 2, Err: errRefused},
			late: true, state: "free", calls: threeUpdates,
		},
		"unless the API server has errors until the time is over": {
			claim: fixture.ResourceClaim("a").Finalizer(), fault: &fakecluster.Fault{Verb: "updateclaim", Times: 1000, Err: apierrors.NewInternalError(errRefused)},
			unfenced: []string{"a"}, state: "d0", calls: threeUpdates,
		},
		"unless it changes again and again": {
			claim: fixture.ResourceClaim("a").Finalizer(), fault: &fakecluster.Fault{Verb: "updateclaim", Times: 1000, Err: apierrors.NewConflict(claims, "a", errRefused)},
			unfenced: []string{"a"}, state: "d0", calls: slices.Repeat(slices.Concat(slices.Repeat([]string{"updateclaim a", "getclaim a"}, 4), []string{"updateclaim a"}), 3),
		},
		"unless a webhook puts the finalizer back: the claim keeps its version": {
			claim: fixture.ResourceClaim("a").Finalizer(), webhook: addFinalizer,
			unfenced: []string{"a"}, state: "d0", calls: threeUpdates,
		},
		"if a webhook that puts the finalizer back changes something else": {
			claim: fixture.ResourceClaim("a").Finalizer(), webhook: func(claim *resourceapi.ResourceClaim) {
				addFinalizer(claim)
				claim.Labels = map[string]string{"is": "new"}
			},
			late: true, state: "free", calls: []string{"updateclaim a"},
		},
		"unless this leader has no right to write it: it is another right to allocate it": refused(apierrors.NewForbidden(claims, "a", errRefused)),
		"unless a policy denies it":  refused(apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), "a", nil)),
		"unless a webhook denies it": refused(apierrors.NewBadRequest("refused")),
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				known := env.claim("a")
				if c.fault != nil {
					env.cluster.Inject(*c.fault)
				}
				env.cluster.MutateClaims(c.webhook)
				if c.arrives {
					env.gate.close()
					if err := write(env, known); err != nil {
						t.Error(err)
					}
				}
				env.want("unfenced claims", env.unfencedClaims(), c.unfenced)
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

func addFinalizer(claim *resourceapi.ResourceClaim) {
	claim.Finalizers = []string{resourceapi.Finalizer}
}

func TestAClaimThatEndsWithItsFinalizerNeedsNoOtherFence(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.want("unfenced claims", env.unfencedClaims(), []string(nil))
		env.want("calls", env.cluster.TakeCalls(), []string{"updateclaim a"})
	}, fixture.ResourceClaim("a").Finalizer().Terminating().Request("r", "gpu").Obj())
}

// unfencedClaims returns the names of the claims that cannot be fenced with three attempts.
func (env *testEnv) unfencedClaims() (names []string) {
	for _, claim := range env.FenceClaims(env.t.Context(), 2500*time.Millisecond) {
		names = append(names, claim.Name)
	}
	return names
}

func TestAFenceWithoutAnAnswerIsSentAgain(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "updateclaim", Before: func() { time.Sleep(30 * time.Second) }})
		env.want("unfenced claims", len(env.FenceClaims(env.t.Context(), time.Minute)), 0)
		env.want("calls", env.cluster.TakeCalls(), []string{"updateclaim a", "updateclaim a"})
	}, fixture.ResourceClaim("a").Finalizer().Request("r", "gpu").Obj())
}

// One after the other they would take longer than there is time.
func TestManyClaimsAreFencedAtATime(t *testing.T) {
	const many = 100
	var objects []runtime.Object
	for i := range many {
		objects = append(objects, fixture.ResourceClaim(fmt.Sprint("claim-", i)).Finalizer().Request("r", "gpu").Obj())
	}
	runInVirtualTime(t, func(env *testEnv) {
		var running, most atomic.Int32
		env.cluster.Inject(fakecluster.Fault{Verb: "updateclaim", Times: many, Before: func() {
			for n := running.Add(1); ; {
				if before := most.Load(); n <= before || most.CompareAndSwap(before, n) {
					break
				}
			}
			time.Sleep(time.Second)
			running.Add(-1)
		}})
		env.want("unfenced claims", env.unfencedClaims(), []string(nil))
		env.want("requests at a time", most.Load(), int32(64))
	}, objects...)
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
