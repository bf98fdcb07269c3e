package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/probe"
)

// grace returns a ShutdownContext that ends that long after the loop's context.
func grace(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		life, end := context.WithCancelCause(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { end(errors.New("the time is over")) }) })
		return life, func() { stop(); end(context.Canceled) }
	}
}

func TestShutdownFinishesOrUndoesBindings(t *testing.T) {
	const given = 20 * time.Second
	takes := func(d time.Duration) func(context.Context) {
		return func(context.Context) { time.Sleep(d) }
	}
	for name, c := range map[string]struct {
		arrange func(env *testEnv)
		given   time.Duration
		// on is the pod's node at the end, status its condition, took the duration of the
		// shutdown.
		on, status string
		took       time.Duration
	}{
		"a Bind finishes": {
			func(env *testEnv) {
				env.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { time.Sleep(5 * time.Second) }})
			}, given, "n1", "True", 5 * time.Second},
		"PreBind finishes, and Bind after it": {
			func(env *testEnv) { env.a.SetStatus("PreBindPreFlight", nil); env.a.OnPreBind = takes(5 * time.Second) }, given, "n1", "True", 5 * time.Second},
		"an attempt finishes, and its binding cycle": {
			func(env *testEnv) {
				env.a.SetStatus("Filter", func() *fwk.Status { time.Sleep(5 * time.Second); return nil })
			}, given, "n1", "True", 5 * time.Second},
		"a failure is written": {
			func(env *testEnv) {
				env.a.SetStatus("Filter", probe.Reject("full"))
				env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(3 * time.Second) }})
			}, given, "", "False Unschedulable: 0/1 nodes are available: 1 full.", 3 * time.Second},
		"a pod that waits on Permit goes back to the queue, and no failure is written": {
			func(env *testEnv) { env.a.PermitTimeout = time.Hour; env.a.SetStatus("Permit", probe.Wait) }, given, "", "", 0},
		"what ends with its context is undone after the grace period": {
			func(env *testEnv) {
				env.a.SetStatus("PreBindPreFlight", nil)
				env.a.OnPreBind = func(ctx context.Context) { <-ctx.Done() }
				env.a.SetStatus("PreBind", probe.Fail(errors.New("too late")))
			}, given, "", "", given},
		"shutdown does not wait for a call that ignores its context": {
			func(env *testEnv) { env.a.SetStatus("PreBindPreFlight", nil); env.a.OnPreBind = takes(time.Hour) }, given, "", "", given + undoTimeout},
		"without a leadership nothing is finished": {
			func(env *testEnv) {
				env.a.SetStatus("PreBindPreFlight", nil)
				env.a.OnPreBind = func(ctx context.Context) { <-ctx.Done() }
				env.a.SetStatus("PreBind", probe.Fail(errors.New("too late")))
			}, 0, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.options.ShutdownContext = grace(c.given)
				c.arrange(env)
				env.apply("one")
				end := env.startLeading()
				env.create(webPod("a"))
				begin := time.Now()
				end()
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				env.want("node", env.nodeOf("a"), c.on)
				env.want("status", env.podScheduled("a"), c.status)
				synctest.Wait()
				if _, assumed := env.cache.AssumedNode(webPod("a").UID); assumed && c.took <= given {
					t.Error("the pod stays assumed")
				}
				select {
				case <-env.Ended():
				default:
					t.Error("Ended is not closed")
				}
				env.create(webPod("late"))
				env.want("node of a pod created later", env.nodeOf("late"), "")
				time.Sleep(2 * time.Hour) // until all have come back
			}, node("n1"))
		})
	}
}

// The journal is closed once no binding cycle can send a Binding any more, and only then.
func TestShutdownClosesTheJournal(t *testing.T) {
	for name, c := range map[string]struct {
		preBind time.Duration
		closed  bool
	}{
		"after binding cycles that end":         {5 * time.Second, true},
		"but not while a binding cycle goes on": {time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				maps := env.cluster.ConfigMaps()
				leads := func(epoch int64) journal.Leadership { return journal.Leadership{Elected: true, Epoch: epoch} }
				env.options.ShutdownContext = grace(20 * time.Second)
				env.setHandover(nil, listedNodes("1")[:1])
				env.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) { return leads(7), nil }
				env.options.Handover.Journal = newJournal(maps, "this one")
				env.a.SetStatus("PreBindPreFlight", nil)
				env.a.OnPreBind = func(context.Context) { time.Sleep(c.preBind) }
				env.apply("one")
				end := env.startLeading()
				env.create(webPod("a"))
				end()
				if h, _ := newJournal(maps, "the next one").TakeOver(env.ctx, leads(8)); (h.ClosedAt != "") != c.closed {
					t.Errorf("the journal was closed at %q", h.ClosedAt)
				}
				time.Sleep(2 * time.Hour) // until all have come back
			}, node("n"))
		})
	}
}
