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

func TestWhatIsUnderWayAtTheEnd(t *testing.T) {
	const given = 20 * time.Second
	takes := func(d time.Duration) func(context.Context) {
		return func(context.Context) { time.Sleep(d) }
	}
	for sentence, c := range map[string]struct {
		arrange func(w *world)
		given   time.Duration
		// on is where the pod is then, status what it says, took how long the end
		// took.
		on, status string
		took       time.Duration
	}{
		"a bind is finished": {
			func(w *world) {
				w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { time.Sleep(5 * time.Second) }})
			}, given, "n1", "True", 5 * time.Second},
		"what comes before the bind is finished, and the bind": {
			func(w *world) { w.a.Set("PreBindPreFlight", nil); w.a.During = takes(5 * time.Second) }, given, "n1", "True", 5 * time.Second},
		"an attempt is finished, and its bind": {
			func(w *world) {
				w.a.Set("Filter", func() *fwk.Status { time.Sleep(5 * time.Second); return nil })
			}, given, "n1", "True", 5 * time.Second},
		"a refusal is told": {
			func(w *world) {
				w.a.Set("Filter", probe.Reject("full"))
				w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(3 * time.Second) }})
			}, given, "", "False Unschedulable: 0/1 nodes are available: 1 full.", 3 * time.Second},
		"a pod that waits at Permit is given back, and nothing is said of it": {
			func(w *world) { w.a.Waits = time.Hour; w.a.Set("Permit", probe.Wait) }, given, "", "", 0},
		"what ends with its context is taken back when the time is over": {
			func(w *world) {
				w.a.Set("PreBindPreFlight", nil)
				w.a.During = func(ctx context.Context) { <-ctx.Done() }
				w.a.Set("PreBind", probe.Fail(errors.New("too late")))
			}, given, "", "", given},
		"what does not end keeps nobody": {
			func(w *world) { w.a.Set("PreBindPreFlight", nil); w.a.During = takes(time.Hour) }, given, "", "", given + undoing},
		"who leads no more finishes nothing": {
			func(w *world) {
				w.a.Set("PreBindPreFlight", nil)
				w.a.During = func(ctx context.Context) { <-ctx.Done() }
				w.a.Set("PreBind", probe.Fail(errors.New("too late")))
			}, 0, "", "", 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.options.Grace = grace(c.given)
				c.arrange(w)
				w.apply("one")
				end := w.lead()
				w.create(web("a"))
				begin := time.Now()
				end()
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				w.want("node", w.on("a"), c.on)
				w.want("status", w.scheduled("a"), c.status)
				synctest.Wait()
				if _, assumed := w.cache.Assumed(web("a").UID); assumed && c.took <= given {
					t.Error("it stays assumed")
				}
				select {
				case <-w.Ended():
				default:
					t.Error("nobody hears of the end")
				}
				w.create(web("late"))
				w.want("node of a pod that comes later", w.on("late"), "")
				time.Sleep(2 * time.Hour) // until all have come back
			}, node("n1"))
		})
	}
}
