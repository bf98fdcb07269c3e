package binding

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/probe"
)

var errBroken = errors.New("broken")

// bindingCycleTest is the calls of one pod's plugins, and the result.
type bindingCycleTest struct {
	a, b  map[string]probe.StatusFunc
	calls []string
	// beginSucceeds says that Begin returns no error.
	beginSucceeds bool
	// rejectedBy are the plugins in the FitError; nil for no or another error.
	rejectedBy []string
	bound      bool
}

var (
	reserved   = []string{"A.Reserve n1", "B.Reserve n1"}
	undone     = []string{"B.Unreserve n1", "A.Unreserve n1"}
	permit     = slices.Concat(reserved, []string{"A.Permit n1", "B.Permit n1"})
	preflights = slices.Concat(permit, []string{"A.PreBindPreFlight n1", "B.PreBindPreFlight n1"})
	prebound   = slices.Concat(preflights, []string{"A.PreBind n1", "B.PreBind n1"})
)

var bindingCycleTests = map[string]bindingCycleTest{
	"all succeed": {calls: slices.Concat(prebound, []string{"A.PostBind n1", "B.PostBind n1"}), beginSucceeds: true, bound: true},
	"PreBind is not called where there is nothing to do": {
		a:     map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip},
		calls: slices.Concat(preflights, []string{"B.PreBind n1", "A.PostBind n1", "B.PostBind n1"}), beginSucceeds: true, bound: true,
	},
	"Reserve rejects": {
		b:     map[string]probe.StatusFunc{"Reserve": probe.Reject("no")},
		calls: slices.Concat(reserved, undone), rejectedBy: []string{"B"},
	},
	"Reserve fails": {
		b:     map[string]probe.StatusFunc{"Reserve": probe.Fail(errBroken)},
		calls: slices.Concat(reserved, undone),
	},
	"Reserve panics": {
		a:     map[string]probe.StatusFunc{"Reserve": probe.Panic},
		calls: slices.Concat(reserved[:1], undone),
	},
	"Permit rejects": {
		a:     map[string]probe.StatusFunc{"Permit": probe.Reject("no")},
		calls: slices.Concat(permit[:3], undone), rejectedBy: []string{"A"},
	},
	"Permit fails": {
		b:     map[string]probe.StatusFunc{"Permit": probe.Fail(errBroken)},
		calls: slices.Concat(permit, undone),
	},
	"Permit panics": {
		b:     map[string]probe.StatusFunc{"Permit": probe.Panic},
		calls: slices.Concat(permit, undone),
	},
	"PreBindPreFlight fails": {
		b:     map[string]probe.StatusFunc{"PreBindPreFlight": probe.Fail(errBroken)},
		calls: slices.Concat(preflights, undone), beginSucceeds: true,
	},
	"PreBind fails": {
		b:     map[string]probe.StatusFunc{"PreBind": probe.Fail(errBroken)},
		calls: slices.Concat(prebound, undone), beginSucceeds: true,
	},
	"PreBind panics": {
		a:     map[string]probe.StatusFunc{"PreBind": probe.Panic},
		calls: slices.Concat(prebound[:7], undone), beginSucceeds: true,
	},
	"Unreserve panics and the other plugins are called": {
		a:     map[string]probe.StatusFunc{"Reserve": probe.Reject("no")},
		b:     map[string]probe.StatusFunc{"Unreserve": probe.Panic},
		calls: slices.Concat(reserved[:1], undone), rejectedBy: []string{"A"},
	},
	"PostBind panics and the pod is bound": {
		a:     map[string]probe.StatusFunc{"PostBind": probe.Panic},
		calls: slices.Concat(prebound, []string{"A.PostBind n1", "B.PostBind n1"}), beginSucceeds: true, bound: true,
	},
}

func TestOrderOfThePluginCalls(t *testing.T) {
	for name, c := range bindingCycleTests {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.a.Statuses, env.b.Statuses = c.a, c.b
				a := env.newAssignment()
				env.journal.Take()
				info, _ := framework.NewPodInfo(env.pod)
				env.cache.AddNominatedPod(env.log(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
				err := env.Begin(env.ctx, a)
				if (err == nil) != c.beginSucceeds {
					t.Fatalf("Begin: %v", err)
				}
				if env.cache.Nominations() != 0 {
					t.Error("the assumed pod is still nominated")
				}
				if err == nil {
					err = env.Finish(env.ctx, a)
				}
				wantLines(t, "calls of plugins", env.journal.Take(), c.calls...)
				var fitErr *framework.FitError
				if errors.As(err, &fitErr) != (c.rejectedBy != nil) {
					t.Fatalf("%T %v, want a FitError of %v", err, err, c.rejectedBy)
				}
				if fitErr != nil && !fitErr.Diagnosis.UnschedulablePlugins.HasAll(c.rejectedBy...) {
					t.Errorf("rejected by %v, want %v", fitErr.Diagnosis.UnschedulablePlugins, c.rejectedBy)
				}
				if (err == nil) != c.bound || env.assumed() != c.bound || env.cluster.Pod(env.pod).Spec.NodeName != "" != c.bound {
					t.Errorf("error %v, assumed %v, on %q, want bound: %v", err, env.assumed(), env.cluster.Pod(env.pod).Spec.NodeName, c.bound)
				}
			})
		})
	}
}

func TestThePodStaysAssumedUntilUnreserve(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.a.Statuses = map[string]probe.StatusFunc{
			"PreBind": probe.Fail(errBroken),
			"Unreserve": func() *fwk.Status {
				if !env.assumed() {
					t.Error("the pod was forgotten before Unreserve")
				}
				return nil
			},
		}
		if _, err := env.bindPod(); err == nil || env.assumed() {
			t.Errorf("error %v, assumed %v", err, env.assumed())
		}
	})
}

func TestAPermitPluginsContextEndsWithTheBindingCycle(t *testing.T) {
	for name, c := range map[string]struct {
		on     map[string]probe.StatusFunc
		begins bool
	}{
		"the pod is bound":              {nil, true},
		"the pod is rejected at Permit": {map[string]probe.StatusFunc{"Permit": probe.Reject("no")}, false},
		"the wait on Permit times out":  {map[string]probe.StatusFunc{"Permit": probe.Wait}, true},
		"PreBind fails":                 {map[string]probe.StatusFunc{"PreBind": probe.Fail(errBroken)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				var given context.Context
				env.a.Statuses, env.a.PermitTimeout = c.on, time.Minute
				env.a.OnPermit = func(ctx context.Context) { given = ctx }
				a := env.newAssignment()
				if err := env.Begin(env.ctx, a); (err == nil) != c.begins {
					t.Fatal(err)
				} else if err == nil {
					if given.Err() != nil {
						t.Error("the context ended during the binding cycle")
					}
					_ = env.Finish(env.ctx, a) // other tests check the error
				}
				if given.Err() == nil {
					t.Error("the context outlives the binding cycle")
				}
			})
		})
	}
}

func TestBeginRejectsAnAssumedPod(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		a := env.newAssignment()
		if err := env.Begin(env.ctx, a); err != nil {
			t.Fatal(err)
		}
		env.journal.Take()
		second := env.newAssignment()
		if err := env.Begin(env.ctx, second); err == nil || second.AssignedPod() != nil {
			t.Errorf("began twice: %v, %v", err, second.AssignedPod())
		}
		if lines := env.journal.Take(); len(lines) > 2 || !env.assumed() { // at most two calls of EventsToRegister
			t.Errorf("plugins were called: %v; assumed %v", lines, env.assumed())
		}
	})
}

func TestWaitingOnPermit(t *testing.T) {
	for name, c := range map[string]struct {
		// verdict runs on the waiting pod after a minute.
		verdict func(env *testEnv, a *Assignment, p fwk.WaitingPod)
		bound   bool
		fitErr  bool
		waited  time.Duration
	}{
		"all allow": {func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Allow("A"); p.Allow("B") }, true, false, time.Minute},
		"one allows, and the other times out": {
			func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Allow("A") }, false, true, 10 * time.Minute,
		},
		"one rejects":       {func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Reject("B", "no") }, false, true, time.Minute},
		"it is preempted":   {func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Preempt("B", "go") }, false, false, time.Minute},
		"the process ends":  {func(env *testEnv, _ *Assignment, _ fwk.WaitingPod) { env.cancel() }, false, false, time.Minute},
		"no plugin decides": {func(*testEnv, *Assignment, fwk.WaitingPod) {}, false, true, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.ctx, env.cancel = context.WithCancel(env.ctx)
				env.a.Statuses, env.a.PermitTimeout = map[string]probe.StatusFunc{"Permit": probe.Wait}, 5*time.Minute
				env.b.Statuses, env.b.PermitTimeout = map[string]probe.StatusFunc{"Permit": probe.Wait}, 10*time.Minute
				a := env.newAssignment()
				if err := env.Begin(env.ctx, a); err != nil {
					t.Fatal(err)
				}
				env.journal.Take()
				begin := time.Now()
				time.AfterFunc(time.Minute, func() { c.verdict(env, a, a.Framework.GetWaitingPod(env.pod.UID)) })
				err := env.Finish(env.ctx, a)
				if waited := time.Since(begin); waited != c.waited {
					t.Errorf("waited %v, want %v", waited, c.waited)
				}
				var fitErr *framework.FitError
				if (err == nil) != c.bound || errors.As(err, &fitErr) != c.fitErr {
					t.Errorf("error %T %v", err, err)
				}
				if lines := env.journal.Take(); slices.Equal(lines[max(0, len(lines)-2):], undone) == c.bound {
					t.Errorf("calls of plugins %v, want Unreserve: %v", lines, !c.bound)
				}
				if c.bound != (env.stoppedRecording == 1) || env.assumed() != c.bound || countWaiting(a.Framework.WaitingPods) != 0 {
					t.Errorf("StopRecordingEvents called %d times, assumed %v, %d pods wait", env.stoppedRecording, env.assumed(), countWaiting(a.Framework.WaitingPods))
				}
			})
		})
	}
}

func TestAFailedPreflightLeavesNoPodWaiting(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.a.Statuses = map[string]probe.StatusFunc{"Permit": probe.Wait, "PreBindPreFlight": probe.Fail(errBroken)}
		env.a.PermitTimeout = time.Hour
		a, err := env.bindPod()
		if err == nil || countWaiting(a.Framework.WaitingPods) != 0 {
			t.Errorf("error %v; %d pods still wait", err, countWaiting(a.Framework.WaitingPods))
		}
	})
}

func TestPreBindCanBeCancelled(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		var a *Assignment
		env.a.OnPreBind = func(ctx context.Context) {
			p := a.Framework.GetPodInPreBind(env.pod.UID)
			if p == nil || !p.CancelPod("preempted") || !p.CancelPod("again") {
				t.Error("the pod cannot be cancelled")
			}
			<-ctx.Done()
		}
		a = env.newAssignment()
		if err := env.Begin(env.ctx, a); err != nil {
			t.Fatal(err)
		}
		err := env.Finish(env.ctx, a)
		if err == nil || err.Error() != "preempted" {
			t.Errorf("error %v, want preempted", err)
		}
		if calls := env.calls(); len(calls) > 0 || env.assumed() || a.Framework.GetPodInPreBind(env.pod.UID) != nil {
			t.Errorf("calls %v, assumed %v", calls, env.assumed())
		}
	})
}

func TestAPluginMayRemoveThePodFromPreBind(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		var a *Assignment
		env.a.OnPreBind = func(context.Context) { a.Framework.RemovePodInPreBind(env.pod.UID) }
		a = env.newAssignment()
		if err := errors.Join(env.Begin(env.ctx, a), env.Finish(env.ctx, a)); err != nil {
			t.Error(err)
		}
	})
}

func TestTheNominatedNodeIsWrittenBeforeSlowBinds(t *testing.T) {
	for name, c := range map[string]struct {
		preflight probe.StatusFunc
		want      []string
	}{
		"before a PreBind with work to do":    {nil, []string{"patch web", "bind web n1"}},
		"not before a bind without such work": {probe.Skip, []string{"bind web n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": c.preflight}
				env.b.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				env.a.OnPreBind = func(context.Context) {
					synctest.Wait()
					if got := env.cluster.Pod(env.pod).Status.NominatedNodeName; got != "n1" {
						t.Errorf("nominated for %q", got)
					}
				}
				if _, err := env.bindPod(); err != nil {
					t.Error(err)
				}
				// The Binding has the resource version of the patch: no conflict.
				wantLines(t, "calls", env.cluster.TakeCalls(), c.want...)
			})
		})
	}
}

func countWaiting(pods *framework.WaitingPods) (n int) {
	pods.Each(func(fwk.WaitingPod) { n++ })
	return n
}
