package devices_test

import (
	"context"
	"errors"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestAwaitClaims(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		// done is called for the nth time.
		done func(env *testEnv, n int) (bool, error)
		// cancel is when the caller's context is cancelled; 0 for never.
		cancel time.Duration
		err    error
		took   time.Duration
	}{
		"a condition that holds takes no time": {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return true, nil }},
		"an error ends the wait":               {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return false, errRefused }, err: errRefused},
		"done is called every 5 seconds":       {limit: time.Minute, done: func(_ *testEnv, n int) (bool, error) { return n == 4, nil }, took: 15 * time.Second},
		"a change of the claim wakes at once": {limit: time.Minute, done: func(env *testEnv, n int) (bool, error) {
			if n == 1 {
				go env.label("a", "changed")
			}
			return env.claim("a").Labels["x"] == "changed", nil
		}},
		"a change of another claim does not wake": {limit: time.Minute, took: 5 * time.Second, done: func(env *testEnv, n int) (bool, error) {
			if n == 1 {
				go env.label("b", "changed")
			}
			return n == 2, nil
		}},
		"the wait has a limit":           {limit: 12 * time.Second, done: func(*testEnv, int) (bool, error) { return false, nil }, err: context.DeadlineExceeded, took: 12 * time.Second},
		"the wait ends with the context": {limit: time.Minute, done: func(*testEnv, int) (bool, error) { return false, nil }, cancel: 7 * time.Second, err: context.Canceled, took: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				ctx, cancel := context.WithCancel(env.t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				n, begin := 0, time.Now()
				err := env.AwaitClaims(ctx, c.limit, []*resourceapi.ResourceClaim{env.claim("a")}, func() (bool, error) {
					n++
					return c.done(env, n)
				})
				if !errors.Is(err, c.err) {
					env.t.Errorf("got %v, want %v", err, c.err)
				}
				env.want("it took", time.Since(begin), c.took)
			}, twoClaims...)
		})
	}
}

func (env *testEnv) label(claim, value string) {
	env.replaceClaim(claim, func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": value} })
}

func TestReadOnlyDevicesWriteNothing(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.signal("b", "d1")
		readOnly, ctx := env.ReadOnly(), env.t.Context()
		claims, claim, web := readOnly.ResourceClaims(), env.claim("a").DeepCopy(), fixture.Pod("web").Obj()
		claim.Status.Allocation = allocation("d0")
		_, bindErr := readOnly.BindClaim(ctx, claim, allocation("d0"), web)
		_, createErr := readOnly.CreateClaim(ctx, inMemoryClaim())
		readOnly.DeallocateClaim(claim)
		for what, err := range map[string]error{
			"SignalClaimPendingAllocation": claims.SignalClaimPendingAllocation(claim.UID, claim), "AssumeClaimAfterAPICall": claims.AssumeClaimAfterAPICall(claim),
			"BindClaim": bindErr, "CreateClaim": createErr, "UnreserveClaim": readOnly.UnreserveClaim(ctx, claim, web), "DeleteClaim": readOnly.DeleteClaim(ctx, claim),
		} {
			if err == nil {
				env.t.Errorf("%s: no error", what)
			}
		}
		env.want("removed", claims.MaybeRemoveClaimPendingAllocation(uidOf("b"), true), false)
		claims.AssumedClaimRestore("default", "a")
		time.Sleep(time.Second)
		env.want("calls", env.cluster.TakeCalls(), []string(nil))
		env.want("devices", env.devices(), []string{"d1"})
		state, err := claims.GatherAllocatedState()
		if err != nil || len(state.AllocatedDevices) != 1 {
			env.t.Errorf("read-only Devices do not show the allocation in flight: %v, %v", state, err)
		}
	}, twoClaims...)
}
