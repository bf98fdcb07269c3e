package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// goes deletes the pod, and lets everybody hear of it.
func (w *world) goes() {
	w.cluster.Remove(web("a"))
	time.Sleep(time.Second)
}

// going is an answer during which the pod is deleted.
func (w *world) going(answer probe.Answer) probe.Answer {
	return func() *fwk.Status {
		w.goes()
		if answer == nil {
			return nil
		}
		return answer()
	}
}

// places are the twelve where a pod can be: how it gets there and, where it
// stays there, what the queue counts then.
var places = map[string]struct {
	arrange func(w *world)
	counts  string
	// held says that nobody leads, and that a turn of the loop is played by the
	// test.
	held bool
}{
	"not seen": {arrange: func(w *world) { w.cluster.Apply(leaving()); w.goes() }},
	"gated":    {func(w *world) { w.a.Set("PreEnqueue", probe.Reject("shut")) }, "1 gated", false},
	"active":   {func(*world) {}, "1 active", true},
	"popped":   {func(*world) {}, "1 in flight", true},
	"in the cycle, and it fits": {
		arrange: func(w *world) { w.a.Set("Filter", w.going(nil)) },
	},
	"in the cycle, and it fits nowhere": {
		arrange: func(w *world) { w.a.Set("Filter", w.going(probe.Reject("full"))) },
	},
	"assumed":             {arrange: func(w *world) { w.a.Set("Reserve", w.going(nil)) }},
	"assumed, and undone": {arrange: func(w *world) { w.a.Set("Permit", w.going(probe.Reject("no"))) }},
	"on its way to Permit": {
		arrange: func(w *world) { w.a.Waits = time.Hour; w.a.Set("Permit", w.going(probe.Wait)) },
	},
	"waiting on Permit": {func(w *world) { w.a.Waits = time.Hour; w.a.Set("Permit", probe.Wait) }, "1 in flight", false},
	"in PreBind":        {arrange: func(w *world) { w.a.Set("PreBindPreFlight", nil); w.a.Set("PreBind", w.going(nil)) }},
	"in PreBind, which fails": {
		arrange: func(w *world) {
			w.a.Set("PreBindPreFlight", nil)
			w.a.Set("PreBind", w.going(probe.Fail(errBroken)))
		},
	},
	"binding": {arrange: func(w *world) { w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: w.goes}) }},
	"binding, and bound": {arrange: func(w *world) {
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: errBroken, Committed: true}, fakecluster.Fault{Verb: "get", Before: w.goes})
	}},
	"backing off":   {func(w *world) { w.a.Set("Filter", probe.Fail(errBroken)) }, "1 backoff", false},
	"unschedulable": {func(w *world) { w.a.Set("Filter", probe.Reject("full")) }, "1 unschedulable", false},
	"parked":        {func(w *world) { w.unfit = "spec.resourceClaims" }, "1 parked", false},
}

// leaving is the pod that is deleted; room is promised to it.
func leaving() *v1.Pod { return fixture.Pod("a").Scheduler("p").Nominated("n1").Obj() }

// kept is all that the rooms keep of pods.
type kept struct {
	Queued                                               []string
	Markers, Events, Placed, Assumed, Nominated, Waiting int
	InPreBind                                            bool
	Queue                                                string
}

func (w *world) kept() kept {
	var k kept
	for uid, place := range w.queue.Places() {
		k.Queued = append(k.Queued, fmt.Sprint(uid, " ", place))
	}
	k.Markers, k.Events = w.queue.Kept()
	k.Placed, k.Assumed = w.cache.Sizes()
	k.Nominated, k.Waiting = w.cache.Nominations(), w.waiting.Len()
	if generation, ok := w.Profiles().Acquire("p"); ok {
		k.InPreBind = generation.Framework.GetPodInPreBind(leaving().UID) != nil
		generation.Release()
	}
	if err := w.queue.Check(); err != nil {
		k.Queue = err.Error()
	}
	return k
}

func TestAPodThatIsDeletedLeavesNothingBehind(t *testing.T) {
	for place, c := range places {
		t.Run("where it is "+place, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.apply("one")
				c.arrange(w)
				if !c.held {
					defer w.lead()()
				}
				if w.cluster.Pod(web("a")) == nil && place != "not seen" {
					w.cluster.Apply(leaving())
				}
				time.Sleep(time.Minute)
				var attempt *queue.Attempt
				if c.held && c.counts == "1 in flight" {
					attempt = w.queue.TryPop()
				}
				if c.counts != "" {
					w.want("the queue before", w.counts(), c.counts)
					w.goes()
				}
				if attempt != nil {
					w.schedule(w.ctx, attempt)
				}
				synctest.Wait()
				if diff := cmp.Diff(kept{}, w.kept()); diff != "" {
					t.Errorf("left behind (-want +got):\n%s", diff)
				}
				w.Profiles().Delete("p")
				synctest.Wait()
				if !slices.Contains(w.journal.Lines(), "A.Close") {
					t.Error("somebody still holds the generation")
				}
			}, node("n1"))
		})
	}
}
