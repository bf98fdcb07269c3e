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
func (w *testEnv) deletePod() {
	w.cluster.DeletePod(webPod("a"))
	time.Sleep(time.Second)
}

// going is an answer during which the pod is deleted.
func (w *testEnv) deletePodThen(answer probe.StatusFunc) probe.StatusFunc {
	return func() *fwk.Status {
		w.deletePod()
		if answer == nil {
			return nil
		}
		return answer()
	}
}

// places are the twelve where a pod can be: how it gets there and, where it
// stays there, what the queue counts then.
var podStates = map[string]struct {
	arrange func(w *testEnv)
	counts  string
	// held says that nobody leads, and that a turn of the loop is played by the
	// test.
	held bool
}{
	"not seen": {arrange: func(w *testEnv) { w.cluster.Apply(nominatedPod()); w.deletePod() }},
	"gated":    {func(w *testEnv) { w.a.SetStatus("PreEnqueue", probe.Reject("shut")) }, "1 gated", false},
	"active":   {func(*testEnv) {}, "1 active", true},
	"popped":   {func(*testEnv) {}, "1 in flight", true},
	"in the cycle, and it fits": {
		arrange: func(w *testEnv) { w.a.SetStatus("Filter", w.deletePodThen(nil)) },
	},
	"in the cycle, and it fits nowhere": {
		arrange: func(w *testEnv) { w.a.SetStatus("Filter", w.deletePodThen(probe.Reject("full"))) },
	},
	"assumed":             {arrange: func(w *testEnv) { w.a.SetStatus("Reserve", w.deletePodThen(nil)) }},
	"assumed, and undone": {arrange: func(w *testEnv) { w.a.SetStatus("Permit", w.deletePodThen(probe.Reject("no"))) }},
	"on its way to Permit": {
		arrange: func(w *testEnv) { w.a.PermitTimeout = time.Hour; w.a.SetStatus("Permit", w.deletePodThen(probe.Wait)) },
	},
	"waiting on Permit": {func(w *testEnv) { w.a.PermitTimeout = time.Hour; w.a.SetStatus("Permit", probe.Wait) }, "1 in flight", false},
	"in PreBind": {arrange: func(w *testEnv) {
		w.a.SetStatus("PreBindPreFlight", nil)
		w.a.SetStatus("PreBind", w.deletePodThen(nil))
	}},
	"in PreBind, which fails": {
		arrange: func(w *testEnv) {
			w.a.SetStatus("PreBindPreFlight", nil)
			w.a.SetStatus("PreBind", w.deletePodThen(probe.Fail(errPlugin)))
		},
	},
	"binding": {arrange: func(w *testEnv) { w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: w.deletePod}) }},
	"binding, and bound": {arrange: func(w *testEnv) {
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: errPlugin, Committed: true}, fakecluster.Fault{Verb: "get", Before: w.deletePod})
	}},
	"backing off":   {func(w *testEnv) { w.a.SetStatus("Filter", probe.Fail(errPlugin)) }, "1 backoff", false},
	"unschedulable": {func(w *testEnv) { w.a.SetStatus("Filter", probe.Reject("full")) }, "1 unschedulable", false},
	"parked":        {func(w *testEnv) { w.unsupported = "spec.resourceClaims" }, "1 parked", false},
}

// leaving is the pod that is deleted; room is promised to it.
func nominatedPod() *v1.Pod { return fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj() }

// kept is all that the rooms keep of pods.
type leftovers struct {
	Queued                                               []string
	Markers, Events, Placed, Assumed, Nominated, Waiting int
	InPreBind                                            bool
	Queue                                                string
}

func (w *testEnv) leftovers() leftovers {
	var k leftovers
	for uid, place := range w.queue.Places() {
		k.Queued = append(k.Queued, fmt.Sprint(uid, " ", place))
	}
	k.Markers, k.Events = w.queue.InFlightCounts()
	k.Placed, k.Assumed = w.cache.Sizes()
	k.Nominated, k.Waiting = w.cache.Nominations(), w.waitingPods.Len()
	if generation, ok := w.Profiles().Acquire("p"); ok {
		k.InPreBind = generation.Framework.GetPodInPreBind(nominatedPod().UID) != nil
		generation.Release()
	}
	if err := w.queue.Check(); err != nil {
		k.Queue = err.Error()
	}
	return k
}

func TestAPodThatIsDeletedLeavesNothingBehind(t *testing.T) {
	for place, c := range podStates {
		t.Run("where it is "+place, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.apply("one")
				c.arrange(w)
				if !c.held {
					defer w.startLeading()()
				}
				if w.cluster.Pod(webPod("a")) == nil && place != "not seen" {
					w.cluster.Apply(nominatedPod())
				}
				time.Sleep(time.Minute)
				var attempt *queue.Attempt
				if c.held && c.counts == "1 in flight" {
					attempt = w.queue.TryPop()
				}
				if c.counts != "" {
					w.want("the queue before", w.counts(), c.counts)
					w.deletePod()
				}
				if attempt != nil {
					w.scheduleOne(w.ctx, attempt)
				}
				synctest.Wait()
				if diff := cmp.Diff(leftovers{}, w.leftovers()); diff != "" {
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
