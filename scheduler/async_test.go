package scheduler

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// The queue is blocked while Less runs.
func TestASortThatHangsIsReplaced(t *testing.T) {
	o := newFaultyPlugin()
	runTestWith(t, faultyRegistry(o), func(env *testEnv) {
		o.unblocked = make(chan struct{}) // of this bubble
		if err := env.Profiles().Apply(env.ctx, faultyBlueprint("p", "one", true)); err != nil {
			t.Fatal(err)
		}
		env.create(fixture.Pod("low").SchedulerName("p").Priority(1).Obj())
		o.setLessHangs(true)
		env.create(fixture.Pod("high").SchedulerName("p").Priority(2).Obj())
		time.Sleep(9 * time.Second)
		running, _ := env.Profiles().Running("p")
		env.wantLines("degradations during the call", running.Degradations.Messages())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		const broken = `plugin "Odd" did not come back from Less within 10s: its pods are sorted by PrioritySort instead`
		running, _ = env.Profiles().Running("p")
		env.wantReasons(running, profile.QueueSortReplaced, profile.PluginHangs)
		env.wantLines("degradations", running.Degradations.Messages(), broken,
			`1 of at most 16 calls of its plugins have not returned, the last of plugin "Odd" from Less`)
		var order []string
		for a := env.queue.TryPop(); a != nil; a = env.queue.TryPop() {
			order = append(order, a.Pod.Name)
		}
		env.wantLines("order", order, "high", "low")
		o.unblock()
		synctest.Wait()
		running, _ = env.Profiles().Running("p")
		env.wantLines("degradations after the call returned", running.Degradations.Messages(), broken)
	})
}

// An event is not lost when a queueing hint does not return, and the next event is handled.
func TestAHintThatHangsWakesThePod(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		waits := faultyPod("a", "QueueingHint hangs")
		waits.Labels["fits nowhere"] = ""
		env.create(waits)
		time.Sleep(15 * time.Second) // no backoff any more
		o.unblock()                  // the hint was called when a was rejected
		synctest.Wait()
		env.events.take()
		go env.cluster.Apply(node("n3"))
		time.Sleep(9 * time.Second)
		env.wantLines("Events during the call", env.events.take())
		time.Sleep(2 * time.Second)
		env.wantLines("Events", slices.Compact(env.events.take()), "a Warning FailedScheduling: 0/3 nodes are available: 3 full.")
		go env.cluster.Apply(podOf("q", "b"))
		time.Sleep(11 * time.Second) // the loop called it again when a was rejected
		if env.nodeOf("b") == "" {
			t.Error("another profile is not scheduled")
		}
		running, _ := env.Profiles().Running("p")
		if len(running.Degradations) != 1 || !strings.HasSuffix(running.Degradations[0].Message, `have not returned, the last of plugin "Odd" from QueueingHint`) {
			t.Errorf("degradations %v", running.Degradations.Messages())
		}
		env.cluster.UpdatePod(waits, func(p *v1.Pod) { p.Labels = nil })
		o.unblock()
		time.Sleep(20 * time.Second)
		running, _ = env.Profiles().Running("p")
		env.wantLines("degradations after the call returned", running.Degradations.Messages())
		if env.nodeOf("a") == "" {
			t.Errorf("not bound: %s", env.podScheduled("a"))
		}
	})
}

// One event may concern many pods: the loop and the informers wait for one hint only.
func TestTheQueueWaitsForOneOfManyHintsThatHang(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		var pods []*v1.Pod
		for _, name := range []string{"a1", "a2", "a3"} {
			waits := faultyPod(name, "QueueingHint hangs")
			waits.Labels["fits nowhere"] = ""
			env.create(waits)
			pods = append(pods, waits)
		}
		time.Sleep(15 * time.Second) // no backoff any more
		o.unblock()
		synctest.Wait()
		env.events.take()
		go env.cluster.Apply(node("n3"))
		time.Sleep(11 * time.Second)
		const refused = " Warning FailedScheduling: 0/3 nodes are available: 3 full."
		got := env.events.take()
		slices.Sort(got)
		env.wantLines("Events", slices.Compact(got), "a1"+refused, "a2"+refused, "a3"+refused)
		if o.hanging() != 1 {
			t.Errorf("%d hints hang, want 1", o.hanging())
		}
		for _, waits := range pods {
			env.cluster.UpdatePod(waits, func(p *v1.Pod) { p.Labels = nil })
		}
		o.unblock()
		time.Sleep(20 * time.Second)
		for _, waits := range pods {
			if env.nodeOf(waits.Name) == "" {
				t.Errorf("%s is not bound: %s", waits.Name, env.podScheduled(waits.Name))
			}
		}
	})
}

// One event may have the gates of many pods checked: the loop waits for one gate only.
func TestTheLoopWaitsForOneOfManyGatesThatHang(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		gated := []*v1.Pod{faultyPod("a1", "PreEnqueue hangs"), faultyPod("a2", "PreEnqueue hangs"), faultyPod("a3", "PreEnqueue hangs")}
		for _, pod := range gated {
			env.create(pod)
		}
		time.Sleep(31 * time.Second)
		env.want("queue", env.counts(), "3 gated")
		go env.cluster.Apply(node("n3"))
		time.Sleep(time.Second)
		go env.cluster.Apply(podOf("q", "b"))
		time.Sleep(10 * time.Second)
		if env.nodeOf("b") == "" {
			t.Error("another profile is not scheduled while gates hang")
		}
		time.Sleep(time.Minute) // until no gate is awaited: a change of the pods ends a quarantine
		for _, pod := range gated {
			env.cluster.UpdatePod(pod, func(p *v1.Pod) { p.Labels = nil })
		}
		synctest.Wait() // the gates are checked again when they return
		o.unblock()
		time.Sleep(time.Minute)
		for _, pod := range gated {
			if env.nodeOf(pod.Name) == "" {
				t.Errorf("%s is not bound: %s", pod.Name, env.podScheduled(pod.Name))
			}
		}
	})
}

// The call may have had its effect, so that the attempt cannot go on without it.
func TestAPluginThatHangsInTheBindingCycleIsNamed(t *testing.T) {
	for point, c := range map[string]struct {
		limit time.Duration
		says  string
	}{
		"PreBindPreFlight": {10 * time.Second, `False SchedulerError: plugin "Odd" did not come back from PreBindPreFlight within 10s`},
		"PreBind":          {10 * time.Minute, `False SchedulerError: plugin "Odd" did not come back from PreBind within 10m0s`},
		"PostBind":         {10 * time.Second, "True"},
	} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				env.create(faultyPod("a", point+" hangs"))
				time.Sleep(c.limit - time.Second)
				running, _ := env.Profiles().Running("p")
				env.wantLines("degradations before the timeout", running.Degradations.Messages())
				env.create(podOf("p", "b"), podOf("q", "c"))
				if env.nodeOf("b") == "" || env.nodeOf("c") == "" {
					t.Error("other pods are not scheduled")
				}
				time.Sleep(12 * time.Second)
				running, _ = env.Profiles().Running("p")
				env.wantLines("degradations", running.Degradations.Messages(),
					fmt.Sprintf(`1 of at most 16 calls of its plugins have not returned, the last of plugin "Odd" from %s`, point))
				env.want("condition", env.podScheduled("a"), c.says)
				o.unblock()
				synctest.Wait()
				running, _ = env.Profiles().Running("p")
				env.wantLines("degradations after the call returned", running.Degradations.Messages())
				if env.nodeOf("a") == "" {
					t.Errorf("not bound: %s", env.podScheduled("a"))
				}
			})
		})
	}
}

// The queue keeps events for the pods in flight, but not those of the hours that a call hangs.
func TestEventsAreNotKeptWhileACallHangs(t *testing.T) {
	// The refusal of the call that hung in Permit counts as well.
	for point, refusals := range map[string]int{"Reserve": 1, "Permit": 2, "PreBindPreFlight": 0} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				assigned := fixture.Pod("assigned").On("n2").Obj()
				env.create(assigned)
				pod := faultyPod("a", point+" hangs once")
				if refusals > 0 {
					pod.Labels["not permitted"] = ""
					// The update with a condition would be one more event, which comes sooner or later.
					env.cluster.Inject(fakecluster.Fault{Verb: "patch", Times: 1000, Err: apierrors.NewForbidden(v1.Resource("pods"), "a", nil)})
				}
				env.create(pod)
				time.Sleep(11 * time.Second)
				for i := range 1000 {
					env.cluster.UpdatePod(assigned, func(p *v1.Pod) { p.Labels = map[string]string{"version": fmt.Sprint(i)} })
				}
				synctest.Wait()
				if _, events := env.queue.InFlightCounts(); events > 100 {
					t.Errorf("%d events are kept", events)
				}
				o.unblock()
				time.Sleep(20 * time.Second)
				if refusals == 0 {
					env.want("condition", env.podScheduled("a"), "True")
					return
				}
				// One of the events might have made room for it.
				const refused = "a Warning FailedScheduling: 0/1 nodes are available: 1 not permitted."
				if n := strings.Count(strings.Join(env.events.take(), "\n"), refused); n != refusals {
					t.Errorf("the pod was refused %d times, want %d", n, refusals)
				}
				env.cluster.ClearFaults()
				time.Sleep(time.Minute) // until the condition is written
			})
		})
	}
}

// Assumed pods hold resources: a plugin that hangs for each pod must not hold them all.
func TestBindingCyclesThatAPluginBlocksAreBounded(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		for i := range 20 {
			env.create(faultyPod(fmt.Sprint("a", i), "PreBindPreFlight hangs"))
			time.Sleep(20 * time.Second)
		}
		if _, assumed := env.cache.Sizes(); assumed != 16 || o.hanging() != 16 {
			t.Errorf("%d pods are blocked, %d are assumed, want 16", o.hanging(), assumed)
		}
		env.create(podOf("q", "c"))
		if env.nodeOf("c") == "" {
			t.Error("another profile is not scheduled")
		}
		o.unblock()
		time.Sleep(20 * time.Second)
		o.unblock()
		time.Sleep(time.Minute)
		for i := range 20 {
			if env.nodeOf(fmt.Sprint("a", i)) == "" {
				t.Errorf("a%d is not bound: %s", i, env.podScheduled(fmt.Sprint("a", i)))
			}
		}
	})
}

// maxYields is how often the test yields to other goroutines before it fails. The virtual
// clock stands still meanwhile: a goroutine that holds a lock does not wait for time.
const maxYields = 1_000_000

// waitingFaultRecorder is a PluginFaultRecorder that calls wait.
type waitingFaultRecorder struct{ wait func() }

func (r waitingFaultRecorder) RecordPluginFault(types.UID, framework.PluginFault) { r.wait() }

// What gets the report of a late call may wait for anything, even for the pod of the call.
func TestAPodIsBoundWhileItsAbandonedCallIsReported(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		bound := func() bool {
			history, _ := env.options.Ledger.History("p", 0)
			return history.Totals.Bound > 0
		}
		var reported, landed atomic.Bool
		generation, _ := env.Profiles().Acquire("p")
		defer generation.Release()
		generation.Framework.PluginFaults = waitingFaultRecorder{func() {
			if !reported.CompareAndSwap(false, true) {
				return
			}
			o.unblock()
			for range maxYields {
				if bound() {
					landed.Store(true)
					return
				}
				runtime.Gosched()
			}
		}}
		env.create(faultyPod("a", "PreBindPreFlight hangs once"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !reported.Load() {
			t.Fatal("the late call was not reported")
		}
		if !landed.Load() {
			t.Error("the pod was not bound while its late call was reported: a lock is held during the report")
		}
		running, _ := env.Profiles().Running("p")
		env.wantLines("degradations after the call returned", running.Degradations.Messages())
	})
}

// Without a result the pod is not bound, and what it holds is given back.
func TestAPluginThatEndsItsGoroutineFailsTheAttempt(t *testing.T) {
	for _, point := range []string{"PreFilter", "Filter", "Reserve", "Permit", "PreBindPreFlight", "PreBind"} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				ends, prefix := faultyPod("a", point+" ends its goroutine"), "a Warning FailedScheduling: "
				if point == "PreBind" {
					prefix += `running PreBind plugin "Odd": `
				}
				go env.cluster.Apply(ends)
				synctest.Wait()
				env.wantLines("Events", env.events.take(), prefix+fmt.Sprintf(`plugin "Odd" ended its goroutine (runtime.Goexit) in %s`, point))
				if env.nodeOf("a") != "" || o.claimed("a") || env.cache.IsAssigned(ends.UID) {
					t.Errorf("bound to %q, claim %v, assumed %v", env.nodeOf("a"), o.claimed("a"), env.cache.IsAssigned(ends.UID))
				}
				env.cluster.UpdatePod(ends, func(p *v1.Pod) { p.Labels = nil })
				time.Sleep(20 * time.Second)
				if env.nodeOf("a") == "" {
					t.Error("not bound by its next attempt")
				}
			})
		})
	}
}
