package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/probe"
)

// grace lets what is under way go on for so long after the loop's context ended.
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
	for sentence, c := range map[string]struct {
		arrange func(w *testEnv)
		given   time.Duration
		// on is where the pod is then, status what it says, took how long the end
		// took.
		on, status string
		took       time.Duration
	}{
		"a bind is finished": {
			func(w *testEnv) {
				w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { time.Sleep(5 * time.Second) }})
			}, given, "n1", "True", 5 * time.Second},
		"what comes before the bind is finished, and the bind": {
			func(w *testEnv) { w.a.SetStatus("PreBindPreFlight", nil); w.a.OnPreBind = takes(5 * time.Second) }, given, "n1", "True", 5 * time.Second},
		"an attempt is finished, and its bind": {
			func(w *testEnv) {
				w.a.SetStatus("Filter", func() *fwk.Status { time.Sleep(5 * time.Second); return nil })
			}, given, "n1", "True", 5 * time.Second},
		"a refusal is told": {
			func(w *testEnv) {
				w.a.SetStatus("Filter", probe.Reject("full"))
				w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(3 * time.Second) }})
			}, given, "", "False Unschedulable: 0/1 nodes are available: 1 full.", 3 * time.Second},
		"a pod that waits at Permit is given back, and nothing is said of it": {
			func(w *testEnv) { w.a.PermitTimeout = time.Hour; w.a.SetStatus("Permit", probe.Wait) }, given, "", "", 0},
		"what ends with its context is taken back when the time is over": {
			func(w *testEnv) {
				w.a.SetStatus("PreBindPreFlight", nil)
				w.a.OnPreBind = func(ctx context.Context) { <-ctx.Done() }
				w.a.SetStatus("PreBind", probe.Fail(errors.New("too late")))
			}, given, "", "", given},
		"what does not end keeps nobody": {
			func(w *testEnv) { w.a.SetStatus("PreBindPreFlight", nil); w.a.OnPreBind = takes(time.Hour) }, given, "", "", given + undoTimeout},
		"who leads no more finishes nothing": {
			func(w *testEnv) {
				w.a.SetStatus("PreBindPreFlight", nil)
				w.a.OnPreBind = func(ctx context.Context) { <-ctx.Done() }
				w.a.SetStatus("PreBind", probe.Fail(errors.New("too late")))
			}, 0, "", "", 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.options.ShutdownContext = grace(c.given)
				c.arrange(w)
				w.apply("one")
				end := w.startLeading()
				w.create(webPod("a"))
				begin := time.Now()
				end()
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				w.want("node", w.nodeOf("a"), c.on)
				w.want("status", w.podScheduled("a"), c.status)
				synctest.Wait()
				if _, assumed := w.cache.AssumedNode(webPod("a").UID); assumed && c.took <= given {
					t.Error("it stays assumed")
				}
				select {
				case <-w.Ended():
				default:
					t.Error("nobody hears of the end")
				}
				w.create(webPod("late"))
				w.want("node of a pod that comes later", w.nodeOf("late"), "")
				time.Sleep(2 * time.Hour) // until all have come back
			}, node("n1"))
		})
	}
}
