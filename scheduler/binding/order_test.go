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
	"github.com/berthdev/berth/test/probe"
)

var errBroken = errors.New("broken")

// walk is one pod's way through the points, and where it ends.
type bindingCycleTest struct {
	a, b  map[string]probe.StatusFunc
	calls []string
	// begins says that Begin is passed.
	beginSucceeds bool
	// unfit are the plugins that refused; nil when the error is no verdict.
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
	"all agree": {calls: slices.Concat(prebound, []string{"A.PostBind n1", "B.PostBind n1"}), beginSucceeds: true, bound: true},
	"PreBind is not called where there is nothing to do": {
		a:     map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip},
		calls: slices.Concat(preflights, []string{"B.PreBind n1", "A.PostBind n1", "B.PostBind n1"}), beginSucceeds: true, bound: true,
	},
	"Reserve refuses": {
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
	"Permit refuses": {
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
	"the preflight fails": {
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
	"Unreserve panics and the others are called all the same": {
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
	for sentence, c := range bindingCycleTests {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.a.Statuses, w.b.Statuses = c.a, c.b
				f := w.newAssignment()
				w.journal.Take()
				info, _ := framework.NewPodInfo(w.pod)
				w.cache.AddNominatedPod(w.log(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
				err := w.Begin(w.ctx, f)
				if (err == nil) != c.beginSucceeds {
					t.Fatalf("Begin: %v", err)
				}
				if w.cache.Nominations() != 0 {
					t.Error("the pod's nomination outlived its assumption")
				}
				if err == nil {
					err = w.Finish(w.ctx, f)
				}
				wantLines(t, "calls of plugins", w.journal.Take(), c.calls...)
				var unfit *framework.FitError
				if errors.As(err, &unfit) != (c.rejectedBy != nil) {
					t.Fatalf("%T %v, want a verdict of %v", err, err, c.rejectedBy)
				}
				if unfit != nil && !unfit.Diagnosis.UnschedulablePlugins.HasAll(c.rejectedBy...) {
					t.Errorf("refused by %v, want %v", unfit.Diagnosis.UnschedulablePlugins, c.rejectedBy)
				}
				if (err == nil) != c.bound || w.assumed() != c.bound || w.cluster.Pod(w.pod).Spec.NodeName != "" != c.bound {
					t.Errorf("error %v, assumed %v, on %q, want bound: %v", err, w.assumed(), w.cluster.Pod(w.pod).Spec.NodeName, c.bound)
				}
			})
		})
	}
}

func TestThePodStaysAssumedUntilUnreserve(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		w.a.Statuses = map[string]probe.StatusFunc{
			"PreBind": probe.Fail(errBroken),
			"Unreserve": func() *fwk.Status {
				if !w.assumed() {
					t.Error("the pod was forgotten before its claims were taken back")
				}
				return nil
			},
		}
		if _, err := w.bindPod(); err == nil || w.assumed() {
			t.Errorf("error %v, assumed %v", err, w.assumed())
		}
	})
}

func TestAPermitPluginsContextEndsWithTheBindingCycle(t *testing.T) {
	for sentence, c := range map[string]struct {
		on     map[string]probe.StatusFunc
		begins bool
	}{
		"the pod is bound":             {nil, true},
		"the pod is refused at Permit": {map[string]probe.StatusFunc{"Permit": probe.Reject("no")}, false},
		"the pod waits in vain":        {map[string]probe.StatusFunc{"Permit": probe.Wait}, true},
		"PreBind fails":                {map[string]probe.StatusFunc{"PreBind": probe.Fail(errBroken)}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				var given context.Context
				w.a.Statuses, w.a.PermitTimeout = c.on, time.Minute
				w.a.OnPermit = func(ctx context.Context) { given = ctx }
				f := w.newAssignment()
				if err := w.Begin(w.ctx, f); (err == nil) != c.begins {
					t.Fatal(err)
				} else if err == nil {
					if given.Err() != nil {
						t.Error("the context ended while the pod was on its way")
					}
					_ = w.Finish(w.ctx, f) // how it ends is for others to look at
				}
				if given.Err() == nil {
					t.Error("the context outlives the flight")
				}
			})
		})
	}
}

func TestBeginRejectsAnAssumedPod(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		f := w.newAssignment()
		if err := w.Begin(w.ctx, f); err != nil {
			t.Fatal(err)
		}
		w.journal.Take()
		second := w.newAssignment()
		if err := w.Begin(w.ctx, second); err == nil || second.AssignedPod() != nil {
			t.Errorf("began twice: %v, %v", err, second.AssignedPod())
		}
		if lines := w.journal.Take(); len(lines) > 2 || !w.assumed() { // EventsToRegister is not asked here
			t.Errorf("plugins were called: %v; assumed %v", lines, w.assumed())
		}
	})
}

func TestWaitingOnPermit(t *testing.T) {
	for sentence, c := range map[string]struct {
		// verdict is what happens to the waiting pod after a minute.
		verdict func(w *testEnv, f *Assignment, p fwk.WaitingPod)
		bound   bool
		unfit   bool
		waited  time.Duration
	}{
		"all allow": {func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Allow("A"); p.Allow("B") }, true, false, time.Minute},
		"one allows, and the other's time is up": {
			func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Allow("A") }, false, true, 10 * time.Minute,
		},
		"one refuses":       {func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Reject("B", "no") }, false, true, time.Minute},
		"it is preempted":   {func(_ *testEnv, _ *Assignment, p fwk.WaitingPod) { p.Preempt("B", "go") }, false, false, time.Minute},
		"the process ends":  {func(w *testEnv, _ *Assignment, _ fwk.WaitingPod) { w.cancel() }, false, false, time.Minute},
		"nobody ever comes": {func(*testEnv, *Assignment, fwk.WaitingPod) {}, false, true, 5 * time.Minute},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.ctx, w.cancel = context.WithCancel(w.ctx)
				w.a.Statuses, w.a.PermitTimeout = map[string]probe.StatusFunc{"Permit": probe.Wait}, 5*time.Minute
				w.b.Statuses, w.b.PermitTimeout = map[string]probe.StatusFunc{"Permit": probe.Wait}, 10*time.Minute
				f := w.newAssignment()
				if err := w.Begin(w.ctx, f); err != nil {
					t.Fatal(err)
				}
				w.journal.Take()
				begin := time.Now()
				time.AfterFunc(time.Minute, func() { c.verdict(w, f, f.Framework.GetWaitingPod(w.pod.UID)) })
				err := w.Finish(w.ctx, f)
				if waited := time.Since(begin); waited != c.waited {
					t.Errorf("waited %v, want %v", waited, c.waited)
				}
				var unfit *framework.FitError
				if (err == nil) != c.bound || errors.As(err, &unfit) != c.unfit {
					t.Errorf("error %T %v", err, err)
				}
				if lines := w.journal.Take(); slices.Equal(lines[max(0, len(lines)-2):], undone) == c.bound {
					t.Errorf("calls of plugins %v; claims are taken back: %v", lines, !c.bound)
				}
				if c.bound != (w.stoppedRecording == 1) || w.assumed() != c.bound || f.Framework.WaitingPods.Len() != 0 {
					t.Errorf("deaf %d times, assumed %v, %d wait", w.stoppedRecording, w.assumed(), f.Framework.WaitingPods.Len())
				}
			})
		})
	}
}

func TestAFailedPreflightLeavesNoPodWaiting(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		w.a.Statuses = map[string]probe.StatusFunc{"Permit": probe.Wait, "PreBindPreFlight": probe.Fail(errBroken)}
		w.a.PermitTimeout = time.Hour
		f, err := w.bindPod()
		if err == nil || f.Framework.WaitingPods.Len() != 0 {
			t.Errorf("error %v; %d pods wait for ever", err, f.Framework.WaitingPods.Len())
		}
	})
}

func TestPreBindCanBeCancelled(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		var f *Assignment
		w.a.OnPreBind = func(ctx context.Context) {
			p := f.Framework.GetPodInPreBind(w.pod.UID)
			if p == nil || !p.CancelPod("preempted") || !p.CancelPod("again") {
				t.Error("the pod cannot be cancelled")
			}
			<-ctx.Done()
		}
		f = w.newAssignment()
		if err := w.Begin(w.ctx, f); err != nil {
			t.Fatal(err)
		}
		err := w.Finish(w.ctx, f)
		if err == nil || err.Error() != "preempted" {
			t.Errorf("error %v, want preempted", err)
		}
		if calls := w.calls(); len(calls) > 0 || w.assumed() || f.Framework.GetPodInPreBind(w.pod.UID) != nil {
			t.Errorf("calls %v, assumed %v", calls, w.assumed())
		}
	})
}

func TestAPluginMayRemoveThePodFromPreBind(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		var f *Assignment
		w.a.OnPreBind = func(context.Context) { f.Framework.RemovePodInPreBind(w.pod.UID) }
		f = w.newAssignment()
		if err := errors.Join(w.Begin(w.ctx, f), w.Finish(w.ctx, f)); err != nil {
			t.Error(err)
		}
	})
}

func TestTheNominatedNodeIsWrittenBeforeSlowBinds(t *testing.T) {
	for sentence, c := range map[string]struct {
		preflight probe.StatusFunc
		want      []string
	}{
		"before work that takes a while": {nil, []string{"patch web", "bind web n1"}},
		"and not when it goes at once":   {probe.Skip, []string{"bind web n1"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": c.preflight}
				w.b.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				w.a.OnPreBind = func(context.Context) {
					synctest.Wait()
					if got := w.cluster.Pod(w.pod).Status.NominatedNodeName; got != "n1" {
						t.Errorf("nominated for %q", got)
					}
				}
				if _, err := w.bindPod(); err != nil {
					t.Error(err)
				}
				// The Binding knows the version that the patch made: no conflict.
				wantLines(t, "calls", w.cluster.TakeCalls(), c.want...)
			})
		})
	}
}
