package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// deletePod deletes the pod, and waits until the informers have reported it.
func (env *testEnv) deletePod() {
	env.cluster.DeletePod(webPod("a"))
	time.Sleep(time.Second)
}

// deletePodThen returns an answer that deletes the pod first.
func (env *testEnv) deletePodThen(answer probe.StatusFunc) probe.StatusFunc {
	return func() *fwk.Status {
		env.deletePod()
		if answer == nil {
			return nil
		}
		return answer()
	}
}

// podStates are the places where a pod can be: how it gets there and, where it stays there,
// the queue's counts.
var podStates = map[string]struct {
	arrange func(env *testEnv)
	counts  string
	// held says that no process leads, and that the test runs the iteration of the loop.
	held bool
}{
	"not seen": {arrange: func(env *testEnv) { env.cluster.Apply(nominatedPod()); env.deletePod() }},
	"gated":    {func(env *testEnv) { env.a.SetStatus("PreEnqueue", probe.Reject("shut")) }, "1 gated", false},
	"active":   {func(*testEnv) {}, "1 active", true},
	"popped":   {func(*testEnv) {}, "1 in flight", true},
	"in the cycle, with a node that fits": {
		arrange: func(env *testEnv) { env.a.SetStatus("Filter", env.deletePodThen(nil)) },
	},
	"in the cycle, without a node that fits": {
		arrange: func(env *testEnv) { env.a.SetStatus("Filter", env.deletePodThen(probe.Reject("full"))) },
	},
	"assumed":             {arrange: func(env *testEnv) { env.a.SetStatus("Reserve", env.deletePodThen(nil)) }},
	"assumed, and undone": {arrange: func(env *testEnv) { env.a.SetStatus("Permit", env.deletePodThen(probe.Reject("no"))) }},
	"at Permit": {
		arrange: func(env *testEnv) {
			env.a.PermitTimeout = time.Hour
			env.a.SetStatus("Permit", env.deletePodThen(probe.Wait))
		},
	},
	"waiting on Permit": {func(env *testEnv) { env.a.PermitTimeout = time.Hour; env.a.SetStatus("Permit", probe.Wait) }, "1 in flight", false},
	"in PreBind": {arrange: func(env *testEnv) {
		env.a.SetStatus("PreBindPreFlight", nil)
		env.a.SetStatus("PreBind", env.deletePodThen(nil))
	}},
	"in PreBind, which fails": {
		arrange: func(env *testEnv) {
			env.a.SetStatus("PreBindPreFlight", nil)
			env.a.SetStatus("PreBind", env.deletePodThen(probe.Fail(errPlugin)))
		},
	},
	"binding": {arrange: func(env *testEnv) { env.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: env.deletePod}) }},
	"binding, and bound": {arrange: func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: errPlugin, Committed: true}, fakecluster.Fault{Verb: "get", Before: env.deletePod})
	}},
	"backing off":   {func(env *testEnv) { env.a.SetStatus("Filter", probe.Fail(errPlugin)) }, "1 backoff", false},
	"unschedulable": {func(env *testEnv) { env.a.SetStatus("Filter", probe.Reject("full")) }, "1 unschedulable", false},
	"held":          {func(env *testEnv) { env.unsupported = "spec.resourceClaims" }, "1 held", false},
}

// nominatedPod returns the pod that is deleted; it is nominated for n1.
func nominatedPod() *v1.Pod { return fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj() }

// leftovers is all that queue and cache keep of pods.
type leftovers struct {
	Queued                                               []string
	Markers, Events, Placed, Assumed, Nominated, Waiting int
	InPreBind                                            bool
	Queue                                                string
}

func (env *testEnv) leftovers() leftovers {
	var k leftovers
	for uid, place := range env.queue.Places() {
		k.Queued = append(k.Queued, fmt.Sprint(uid, " ", place))
	}
	k.Markers, k.Events = env.queue.InFlightCounts()
	k.Placed, k.Assumed = env.cache.Sizes()
	k.Nominated, k.Waiting = env.cache.Nominations(), env.QueueCounts("p").Waiting
	if generation, ok := env.Profiles().Acquire("p"); ok {
		k.InPreBind = generation.Framework.GetPodInPreBind(nominatedPod().UID) != nil
		generation.Release()
	}
	if err := env.queue.Check(); err != nil {
		k.Queue = err.Error()
	}
	return k
}

func TestAPodThatIsDeletedLeavesNothingBehind(t *testing.T) {
	for place, c := range podStates {
		t.Run(place, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.apply("one")
				c.arrange(env)
				if !c.held {
					defer env.startLeading()()
				}
				if env.cluster.Pod(webPod("a")) == nil && place != "not seen" {
					env.cluster.Apply(nominatedPod())
				}
				time.Sleep(time.Minute)
				var attempt *queue.Attempt
				if c.held && c.counts == "1 in flight" {
					attempt = env.queue.TryPop()
				}
				if c.counts != "" {
					env.want("the queue before", env.counts(), c.counts)
					env.deletePod()
				}
				if attempt != nil {
					env.scheduleOne(env.ctx, attempt, nil)
				}
				synctest.Wait()
				if diff := cmp.Diff(leftovers{}, env.leftovers()); diff != "" {
					t.Errorf("left behind (-want +got):\n%s", diff)
				}
				env.Profiles().Delete("p")
				synctest.Wait()
				if !slices.Contains(env.journal.Lines(), "A.Close") {
					t.Error("the generation was not closed")
				}
			}, node("n1"))
		})
	}
}

// The event handler of the deletion runs before the pod is assumed, or after Permit.
func TestATerminatingPodInPreBindHoldsNoResources(t *testing.T) {
	terminate := func(env *testEnv) {
		env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		time.Sleep(time.Second)
	}
	for _, point := range []string{"Filter", "Reserve", "PreBind"} {
		t.Run("since "+point, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				goOn := make(chan struct{})
				env.a.SetStatus("PreBindPreFlight", nil)
				env.a.SetStatus("PreBind", func() *fwk.Status { <-goOn; return nil })
				env.apply("one")
				defer env.startLeading()()
				if point != "PreBind" {
					env.a.SetStatus(point, func() *fwk.Status { terminate(env); return nil })
				}
				env.cluster.Apply(webPod("a"))
				time.Sleep(10 * time.Second)
				if point == "PreBind" {
					terminate(env)
				}
				synctest.Wait()
				if _, assumed := env.cache.Sizes(); assumed != 0 {
					t.Errorf("%d pods are assumed", assumed)
				}
				close(goOn)
				synctest.Wait()
				env.want("node", env.nodeOf("a"), "")
				env.want("queue", env.counts(), "")
				if n := strings.Count(strings.Join(env.journal.Lines(), " "), "Unreserve"); n != 1 {
					t.Errorf("Unreserve was called %d times, want 1", n)
				}
			}, node("n1"))
		})
	}
}
