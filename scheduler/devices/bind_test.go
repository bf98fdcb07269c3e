package devices_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

var errRefused = errors.New("refused")

func TestBindClaimWritesAllocationAndReservation(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.gate.close()
		env.signal("a", "d0")
		bound, err := env.bind("a", "web", "d0")
		if err != nil {
			env.t.Fatal(err)
		}
		env.want("calls", env.cluster.TakeCalls(), []string{"updateclaim a", "updateclaimstatus a"})
		env.want("finalizers", bound.Finalizers, []string{resourceapi.Finalizer})
		env.want("reservations", bound.Status.ReservedFor, []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "web", UID: "default/web"}})
		if at := bound.Status.Allocation.AllocationTimestamp; at == nil || !at.Time.Equal(time.Now()) {
			env.t.Errorf("the allocation's time is %v, want now", at)
		}
		env.want("claim before the informer delivers it", env.state("a"), "d0 for web")
		env.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf("a"), true)
		env.want("devices before the informer delivers it", env.devices(), []string{"d0"})
		env.wantEvents("of the write", "ResourceClaimUpdate a: free -> d0 for web")

		env.gate.open()
		synctest.Wait()
		env.want("claim after the informer has delivered it", env.state("a"), "d0 for web")
		env.want("devices after the informer has delivered it", env.devices(), []string{"d0"})
		env.wantEvents("of the informer")

		bound, err = env.bind("a", "other")
		if err != nil {
			env.t.Fatal(err)
		}
		env.want("calls for a second pod", env.cluster.TakeCalls(), []string{"updateclaimstatus a"})
		env.want("claim of two pods", env.state("a"), "d0 for web for other")
		env.want("version", bound.ResourceVersion, env.claim("a").ResourceVersion)
	}, twoClaims...)
}

func TestBindClaimFailures(t *testing.T) {
	conflict := apierrors.NewConflict(v1.Resource("resourceclaims"), "a", errRefused)
	const exhausted = `add allocation and reservation to claim default/a: Operation cannot be fulfilled on resourceclaims "a": refused`
	type claim = *resourceapi.ResourceClaim
	for name, c := range map[string]struct {
		// before makes the claim that the informer delivers. change is made by another
		// client, and before the informer delivers it.
		before func(c claim)
		change func(env *testEnv)
		fault  *fakecluster.Fault
		// reserve binds without an allocation.
		reserve bool
		want    string
		// written is the state of the returned claim, "" if none is returned.
		written, state string
	}{
		"a conflict is retried with the newest claim": {
			change:  func(env *testEnv) { env.replaceClaim("a", func(c claim) { c.Labels = map[string]string{"x": "y"} }) },
			written: "d0 for web", state: "d0 for web",
		},
		"an allocation by another scheduler stays": {
			change: func(env *testEnv) { env.replaceClaim("a", func(c claim) { c.Status.Allocation = allocation("d9") }) },
			want:   "claim default/a got allocated elsewhere in the meantime", state: "free",
		},
		"a claim that terminates is not bound": {
			change: func(env *testEnv) {
				env.replaceClaim("a", func(c claim) { c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"} })
			},
			want: "claim default/a got deleted in the meantime", state: "free",
		},
		"a claim of the same name is not bound": {
			change: func(env *testEnv) { env.replaceClaim("a", func(c claim) { c.UID = "another" }) },
			want:   "claim default/a got deleted in the meantime", state: "free",
		},
		"a claim that is not allocated is not reserved": {
			reserve: true, want: "claim default/a got deallocated elsewhere in the meantime", state: "free",
		},
		"a claim that was allocated anew is not reserved": {
			before:  func(c claim) { c.Status.Allocation = allocation("d0") },
			change:  func(env *testEnv) { env.replaceClaim("a", func(c claim) { c.Status.Allocation = allocation("d9") }) },
			reserve: true, want: "claim default/a got allocated elsewhere in the meantime", state: "d0",
		},
		"the finalizer is not written": {
			fault: &fakecluster.Fault{Verb: "updateclaim", Err: errRefused},
			want:  "add finalizer to claim default/a: refused", state: "free",
		},
		"the status is not written": {
			fault: &fakecluster.Fault{Verb: "updateclaimstatus", Err: errRefused},
			want:  "add allocation and reservation to claim default/a: refused", written: "free", state: "free",
		},
		"five conflicts end the attempt": {
			fault: &fakecluster.Fault{Verb: "updateclaimstatus", Err: conflict, Times: 5},
			want:  exhausted, written: "free", state: "free",
		},
		"four conflicts do not": {
			fault:   &fakecluster.Fault{Verb: "updateclaimstatus", Err: conflict, Times: 4},
			written: "d0 for web", state: "d0 for web",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				if c.before != nil {
					env.replaceClaim("a", c.before)
					synctest.Wait()
				}
				env.gate.close()
				if c.change != nil {
					c.change(env)
				}
				if c.fault != nil {
					env.cluster.Inject(*c.fault)
				}
				devices := []string{"d0"}
				if c.reserve {
					devices = nil
				}
				bound, err := env.bind("a", "web", devices...)
				env.wantError("of BindClaim", err, c.want)
				written := ""
				if bound != nil {
					_, written = describeObject(bound)
				}
				env.want("returned claim", written, c.written)
				env.want("claim", env.state("a"), c.state)
			}, twoClaims...)
		})
	}
}

// kube-scheduler forgets the allocation, and gives the device to another claim.
func TestAWrittenAllocationIsNotRestored(t *testing.T) {
	for name, delivered := range map[string]bool{"before the informer delivers it": false, "after the informer has delivered it": true} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.gate.close()
				env.signal("a", "d0")
				if _, err := env.bind("a", "web", "d0"); err != nil {
					env.t.Fatal(err)
				}
				if delivered {
					env.gate.open()
					synctest.Wait()
				}
				env.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf("a"), false)
				env.ResourceClaims().AssumedClaimRestore("default", "a")
				env.want("devices", env.devices(), []string{"d0"})

				if err := env.UnreserveClaim(env.t.Context(), env.claim("a"), fixture.Pod("web").Obj()); err != nil {
					env.t.Fatal(err)
				}
				env.want("unreserved claim", env.state("a"), "d0")
				env.gate.open()
				synctest.Wait()
				env.want("unreserved claim, delivered", env.state("a"), "d0")
			}, twoClaims...)
		})
	}
}

func TestUnreserveClaimKeepsOtherPods(t *testing.T) {
	web, other := fixture.Pod("web").Obj(), fixture.Pod("other").Obj()
	claim := fixture.ResourceClaim("a").Allocated("n1", "gpu.example.com/n1/d0").ReservedFor(web).ReservedFor(other).Obj()
	runInVirtualTime(t, func(env *testEnv) {
		stale := env.claim("a")
		env.replaceClaim("a", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": "y"} })
		if err := env.UnreserveClaim(env.t.Context(), stale, web); err != nil {
			env.t.Fatal(err)
		}
		env.want("claim", env.state("a"), "d0 for other")
		stale = stale.DeepCopy()
		stale.UID = "another"
		if err := env.UnreserveClaim(env.t.Context(), stale, other); err != nil {
			env.t.Errorf("a claim of the same name: %v", err)
		}
		env.want("claim of the same name", env.state("a"), "d0 for other")
	}, claim)
}

// A pod may have its reservation from an earlier attempt. Then nothing but the renewal stops
// a write of that attempt, or of an earlier leader, that arrives when the pod is bound.
func TestARenewedReservationFailsEarlierWrites(t *testing.T) {
	web := fixture.Pod("web").ResourceClaim("a").Obj()
	allocated := fixture.ResourceClaim("a").Allocated("n1", "gpu.example.com/n1/d0").ReservedFor(fixture.Pod("other").Obj()).ReservedFor(web).Obj()
	for name, write := range map[string]func(env *testEnv, stale *resourceapi.ResourceClaim) error{
		"a deallocation": func(env *testEnv, stale *resourceapi.ResourceClaim) error {
			stale.Status = resourceapi.ResourceClaimStatus{}
			_, err := env.cluster.ResourceV1().ResourceClaims("default").UpdateStatus(env.t.Context(), stale, metav1.UpdateOptions{})
			return err
		},
		"the end of a reservation": func(env *testEnv, stale *resourceapi.ResourceClaim) error {
			env.cluster.Inject(fakecluster.Fault{Verb: "getclaim", Err: errRefused})
			return env.UnreserveClaim(env.t.Context(), stale, web)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				stale := env.claim("a").DeepCopy()
				if _, err := env.bind("a", "web"); err != nil {
					env.t.Fatal(err)
				}
				env.want("claim", env.state("a"), "d0 for other for web")
				// The API server refuses any change of an allocation.
				env.want("allocation", env.claim("a").Status.Allocation, stale.Status.Allocation)
				if err := write(env, stale); err == nil {
					env.t.Error("the earlier write was made")
				}
				stored := env.cluster.ResourceClaims()
				_, state := describeObject(&stored[0])
				env.want("claim in the API server", state, "d0 for other for web")
			}, allocated)
		})
	}
}

// kube-scheduler waits for the deallocation, and tries the pod after it.
func TestAPodThatIsBoundWhileItsClaimIsDeallocated(t *testing.T) {
	allocated := fixture.ResourceClaim("a").Allocated("n1", "gpu.example.com/n1/d0").ReservedFor(fixture.Pod("web").Obj()).Obj()
	for name, c := range map[string]struct {
		// first says that the deallocation is stored before the pod's writes.
		first       bool
		err, stored string
	}{
		"keeps its devices if its claim is written first":        {stored: "d0 for web"},
		"is not bound if the deallocation of its claim is first": {first: true, err: "claim default/a got deallocated elsewhere in the meantime", stored: "free"},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.gate.close()
				stale := env.claim("a")
				var err error
				bind := func() { _, err = env.BindClaim(env.t.Context(), stale, nil, fixture.Pod("web").Obj()) }
				if c.first {
					env.DeallocateClaim(stale)
					synctest.Wait()
					bind()
				} else {
					env.cluster.Inject(fakecluster.Fault{Verb: "updateclaimstatus", Before: bind})
					env.DeallocateClaim(stale)
					time.Sleep(time.Second)
					synctest.Wait()
				}
				env.wantError("of BindClaim", err, c.err)
				stored := env.cluster.ResourceClaims()
				_, state := describeObject(&stored[0])
				env.want("claim in the API server", state, c.stored)
			}, allocated)
		})
	}
}

func TestBindClaimRefusesAClaimWithoutVersion(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		claim := env.claim("a").DeepCopy()
		claim.ResourceVersion = ""
		_, err := env.BindClaim(env.t.Context(), claim, allocation("d0"), fixture.Pod("web").Obj())
		env.wantError("of BindClaim", err, "claim default/a: metadata.resourceVersion: is empty, want that of a claim in the API server")
		env.want("calls", env.cluster.TakeCalls(), []string(nil))
	}, twoClaims...)
}

func TestRetriesEndWithTheContext(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		ctx, cancel := context.WithCancelCause(env.t.Context())
		env.cluster.Inject(fakecluster.Fault{Verb: "updateclaim", Err: apierrors.NewConflict(v1.Resource("resourceclaims"), "a", errRefused), Times: 5,
			Before: func() { cancel(errRefused) }})
		_, err := env.BindClaim(ctx, env.claim("a"), allocation("d0"), fixture.Pod("web").Obj())
		if !errors.Is(err, errRefused) && !errors.Is(err, context.Canceled) {
			env.t.Errorf("got %v", err)
		}
		env.want("calls", env.cluster.TakeCalls(), []string{"updateclaim a"})
	}, twoClaims...)
}

func TestDeallocateClaimReturnsAtOnce(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "updateclaimstatus", Before: func() { time.Sleep(time.Minute) }})
		begin := time.Now()
		env.DeallocateClaim(env.claim("a"))
		env.want("it took", time.Since(begin), time.Duration(0))
		time.Sleep(2 * time.Minute)
		env.want("calls", env.cluster.TakeCalls(), []string{"updateclaimstatus a"})
	}, twoClaims...)
}

func TestDeallocateClaim(t *testing.T) {
	conflict := apierrors.NewConflict(v1.Resource("resourceclaims"), "a", errRefused)
	web := fixture.Pod("web").ResourceClaim("a").Obj()
	generated := fixture.Pod("generated").ResourceClaimTemplate("x", "template", "a").Obj()
	extended := fixture.Pod("extended").Obj()
	extended.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "a"}
	allocated := fixture.ResourceClaim("a").Allocated("n1", "gpu.example.com/n1/d0").ReservedFor(web).Obj()
	const failed = "ClaimDeallocationFailed"
	for name, c := range map[string]struct {
		// change is made by another client, and before the informer delivers it.
		change func(c *resourceapi.ResourceClaim)
		fault  *fakecluster.Fault
		// state is what the API server has in the end.
		state  string
		events []string
	}{
		"the status is emptied":                        {state: "free", events: []string{"ResourceClaimUpdate a: d0 for web -> free"}},
		"a conflict is retried":                        {change: func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }, state: "free", events: []string{"ResourceClaimUpdate a: d0 for web -> free"}},
		"a claim whose reservation may be newer stays": {change: func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": "y"} }, state: "d0 for web", events: []string{failed}},
		"a claim that another pod needs stays": {change: func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor[0].UID, c.Status.ReservedFor[0].Name = "other", "other"
		}, state: "d0 for other", events: []string{failed}},
		"a claim with another allocation stays":  {change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocation("d1") }, state: "d1 for web", events: []string{failed}},
		"an error is not retried":                {fault: &fakecluster.Fault{Verb: "updateclaimstatus", Err: errRefused}, state: "d0 for web", events: []string{failed}},
		"conflicts are retried five times":       {fault: &fakecluster.Fault{Verb: "updateclaimstatus", Err: conflict, Times: 5}, state: "d0 for web", events: []string{failed}},
		"a claim that is not allocated any more": {change: func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }, state: "free"},
		"a claim of the same name":               {change: func(c *resourceapi.ResourceClaim) { c.UID = "another" }, state: "d0 for web"},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.gate.close()
				if c.change != nil {
					env.replaceClaim("a", c.change)
				}
				if c.fault != nil {
					env.cluster.Inject(*c.fault)
				}
				env.DeallocateClaim(env.claim("a"))
				time.Sleep(time.Second)
				synctest.Wait()
				stored := env.cluster.ResourceClaims()
				_, state := describeObject(&stored[0])
				env.want("claim in the API server", state, c.state)
				env.wantEvents("of the write", c.events...)
				if len(c.events) > 0 && c.events[0] == failed {
					for _, pod := range []*v1.Pod{web, generated, extended} {
						env.want("requeued "+pod.Name, env.requeued(pod), true)
					}
					for _, pod := range []*v1.Pod{fixture.Pod("none").Obj(), fixture.Pod("else/web").ResourceClaim("a").Obj()} {
						env.want("requeued "+pod.Name, env.requeued(pod), false)
					}
				}
			}, allocated)
		})
	}
}
