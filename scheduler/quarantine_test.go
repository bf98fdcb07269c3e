package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

// podOf returns a pod of another profile than p.
func podOf(profile, name string) *v1.Pod { return fixture.Pod(name).SchedulerName(profile).Obj() }

// pointsOfQuarantine are the extension points at which the fault of a plugin counts for a pod.
var pointsOfQuarantine = []string{
	"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit", "PreBindPreFlight", "PreBind",
}

// The plugin panics at one pod each time; others are scheduled.
func TestAPodAtWhichAPluginPanicsIsQuarantined(t *testing.T) {
	testQuarantine(t, "panics", "panicked")
}

// A plugin that ends the goroutine which calls it leaves nothing behind, as one that panics.
func TestAPodAtWhichAPluginEndsItsGoroutineIsQuarantined(t *testing.T) {
	testQuarantine(t, "ends its goroutine", "ended its goroutine")
}

func testQuarantine(t *testing.T, does, did string) {
	for _, point := range pointsOfQuarantine {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				poison := faultyPod("a", point+" "+does)
				if point == "PostFilter" {
					poison.Labels["fits nowhere"] = ""
				}
				env.create(poison)
				for i := range 30 {
					env.create(podOf("p", fmt.Sprint("p", i)), podOf("q", fmt.Sprint("q", i)), node(fmt.Sprint("new", i)))
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				if got := env.podScheduled("a"); !strings.HasPrefix(got, fmt.Sprintf("False Quarantined: plugin \"Odd\" %s repeatedly in %s: the pod is quarantined until ", did, point)) {
					t.Errorf("condition %q", got)
				}
				if o.claimed("a") || env.cache.IsAssigned(poison.UID) {
					t.Errorf("claim %v, assumed %v: the quarantined pod holds resources", o.claimed("a"), env.cache.IsAssigned(poison.UID))
				}
				env.want("queue", env.counts(), "")
				if c := env.queue.Counts("p"); c.Quarantined != 1 {
					t.Errorf("counts %+v", c)
				}
				for i := range 30 {
					if env.cluster.Pod(podOf("p", fmt.Sprint("p", i))).Spec.NodeName == "" || env.cluster.Pod(podOf("q", fmt.Sprint("q", i))).Spec.NodeName == "" {
						t.Errorf("pods %d: one is not bound", i)
					}
				}
				env.cluster.UpdatePod(poison, func(p *v1.Pod) { delete(p.Labels, "odd"); delete(p.Labels, "fits nowhere") })
				synctest.Wait()
				if env.nodeOf("a") == "" {
					t.Errorf("a change of the pod did not release it: %s", env.podScheduled("a"))
				}
			})
		})
	}
}

// The plugin panics at one pod of it each time; others are scheduled.
func TestAGangWithAPodAtWhichAPluginPanicsIsQuarantined(t *testing.T) {
	o := newFaultyPlugin()
	registry, err := plugins.With(plugins.InTree(), plugins.Register("Odd", o.build, o, nil))
	if err != nil {
		t.Fatal(err)
	}
	runTestWith(t, registry, func(env *testEnv) {
		env.profile("p", &v1alpha1.Plugins{MultiPoint: gangPlugins.MultiPoint, Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Odd"}}}})
		defer env.startLeading()()
		pods := gang("a", 3, 3)
		poison := pods[1].(*v1.Pod)
		poison.Labels = map[string]string{"odd": "Filter panics"}
		env.create(pods...)
		time.Sleep(time.Minute)
		env.create(gang("b", 2, 2)...)
		env.wantBound(0, "a 0, b 2")
		if c := env.queue.Counts("p"); c.Quarantined != 3 {
			t.Errorf("counts %+v, want 3 quarantined pods", c)
		}
		const want = `False Quarantined: plugin "Odd" panicked repeatedly in Filter: the group of pod a-1 is quarantined until `
		if got := env.podScheduled("a-2"); !strings.HasPrefix(got, want) {
			t.Errorf("condition %q, want it to begin with %q", got, want)
		}
		env.cluster.UpdatePod(poison, func(p *v1.Pod) { p.Labels = nil })
		env.wantBound(0, "a 3, b 2")
	}, nodesWithCPUs(3, 8)...)
}

// The plugin hangs at one pod, and returns after the loop abandoned the call.
func TestAPluginThatHangsIsAbandoned(t *testing.T) {
	for _, point := range []string{"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore"} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				slow := faultyPod("a", point+" hangs")
				if point == "PostFilter" {
					slow.Labels["fits nowhere"] = ""
				}
				go env.cluster.Apply(slow)
				time.Sleep(time.Second)
				go env.cluster.Apply(podOf("q", "b"))
				time.Sleep(8 * time.Second)
				env.want("node of another pod during the call", env.nodeOf("b"), "")
				time.Sleep(2 * time.Second)
				if env.nodeOf("b") == "" {
					t.Error("the loop does not schedule other pods")
				}
				if point != "PreEnqueue" {
					env.want("condition", env.podScheduled("a"), fmt.Sprintf("False SchedulerError: plugin \"Odd\" did not come back from %s within 10s", point))
				}
				env.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = nil })
				o.unblock()
				time.Sleep(20 * time.Second)
				if env.nodeOf("a") == "" {
					t.Errorf("not bound: %s", env.podScheduled("a"))
				}
			})
		})
	}
}

// No event makes the queue call the gate again.
func TestASlowGateIsCalledAgain(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		go env.cluster.Apply(faultyPod("a", "PreEnqueue hangs once"))
		time.Sleep(12 * time.Second)
		env.want("queue", env.counts(), "1 gated")
		o.unblock()
		synctest.Wait()
		if env.nodeOf("a") == "" {
			t.Errorf("not bound, queue: %s", env.counts())
		}
	})
}

// The pod was replaced by another one before the plugin returns.
func TestALateResultIsDiscarded(t *testing.T) {
	for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				slow := faultyPod("a", point+" hangs")
				go env.cluster.Apply(slow)
				time.Sleep(5 * time.Second)
				go env.cluster.Apply(podOf("q", "b"))
				go env.cluster.Apply(podOf("q", "c"))
				go env.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = map[string]string{"fits nowhere": ""} })
				time.Sleep(time.Minute)
				env.want("node of a", env.nodeOf("a"), "")
				env.want("condition", env.podScheduled("a"), "False Unschedulable: 0/2 nodes are available: 2 full.")
				generation, _ := env.Profiles().Acquire("p")
				o.unblock()
				synctest.Wait()
				env.want("node of a", env.nodeOf("a"), "")
				env.want("condition", env.podScheduled("a"), "False Unschedulable: 0/2 nodes are available: 2 full.")
				if pods, assumed := env.cache.Sizes(); pods != 2 || assumed != 0 {
					t.Errorf("%d pods have a node, %d of them are assumed", pods, assumed)
				}
				if point == "Filter" && (len(o.podCounts) != 2 || o.podCounts[0] != o.podCounts[1]) {
					t.Errorf("the plugin saw a node change: pods before and after %v", o.podCounts)
				}
				generation.Release()
			})
		})
	}
}

// The plugin lists nodes after its late return, while the loop goes on.
func TestALatePluginMayListNodes(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		slow := faultyPod("a", "Filter hangs")
		slow.Labels["lists"] = ""
		go env.cluster.Apply(slow)
		time.Sleep(11 * time.Second)
		env.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = map[string]string{"fits nowhere": ""} })
		env.create(podOf("q", "b"))
		o.unblock()
		synctest.Wait()
		for _, name := range []string{"c", "d", "e"} {
			env.create(podOf("q", name), podOf("p", name+name))
		}
		time.Sleep(30 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if env.nodeOf("ee") == "" || len(o.listedPodCounts) != 2 || o.listedPodCounts[0] != o.listedPodCounts[1] {
			t.Errorf("pods on the listed nodes, at once and later: %v, want the same", o.listedPodCounts)
		}
	})
}

// What Reserve claims must be undone before the pod goes to another node, and Permit may take
// long: the pod stays assumed, and the loop goes on.
func TestASlowReserveDelaysItsPodOnly(t *testing.T) {
	for point, want := range map[string]struct{ meanwhile, then string }{
		"Reserve": {`False SchedulerError: plugin "Odd" did not come back from Reserve within 10s`, `False SchedulerError: running Reserve plugin "Odd": late`},
		"Permit":  {"", "True"},
	} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				slow := faultyPod("a", point+" hangs")
				go env.cluster.Apply(slow)
				time.Sleep(time.Second)
				go env.cluster.Apply(podOf("q", "b"))
				go env.cluster.Apply(podOf("p", "c"))
				time.Sleep(time.Minute)
				if env.nodeOf("b") == "" || env.nodeOf("c") == "" {
					t.Error("the loop does not schedule other pods")
				}
				env.want("condition", env.podScheduled("a"), want.meanwhile)
				env.want("queue", env.counts(), "1 in flight")
				if _, assumed := env.cache.Sizes(); assumed != 1 {
					t.Errorf("%d assumed", assumed)
				}
				env.cluster.TakeCalls()
				env.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = nil })
				synctest.Wait()
				o.unblock()
				synctest.Wait()
				if point == "Reserve" {
					env.want("queue", env.counts(), "1 backoff")
					if o.claimed("a") {
						t.Error("its claim was not undone")
					}
				}
				time.Sleep(10 * time.Second)
				env.want("condition", env.podScheduled("a"), "True")
				if !o.claimed("a") || env.nodeOf("a") == "" {
					t.Errorf("on %q, claimed %v", env.nodeOf("a"), o.claimed("a"))
				}
				if running, _ := env.Profiles().Running("p"); running.Degradations != nil {
					t.Errorf("degradations %v", running.Degradations)
				}
			})
		})
	}
}

// A plugin that hangs at every pod affects its own profile only, for at most sixteen calls.
func TestCallsThatDoNotReturnAreCounted(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		var reported atomic.Int32
		go func() {
			for {
				select {
				case <-env.ctx.Done():
					return
				case <-env.Profiles().DegradedChanged():
				}
				for _, name := range env.Profiles().TakeDegradedChanges() {
					if env.want("degraded profile", name, "p"); name == "p" {
						reported.Add(1)
					}
				}
			}
		}()
		for i := range 20 {
			go env.cluster.Apply(faultyPod(fmt.Sprint("a", i), "Filter hangs"))
		}
		time.Sleep(5 * time.Minute)
		if o.hanging() != 16 || reported.Load() != 16 {
			t.Fatalf("%d calls hang, reported %d times, want 16", o.hanging(), reported.Load())
		}
		const says = `16 calls of the profile's plugins have not returned, the last of plugin "Odd" from Filter: no pod is scheduled until one returns or Berth restarts`
		running, _ := env.Profiles().Running("p")
		env.wantReasons(running, profile.TooManyAbandonedCalls)
		env.wantLines("degradations", running.Degradations.Messages(), says)
		env.create(podOf("p", "b"), podOf("q", "c"))
		env.want("condition", env.podScheduled("b"), "False Quarantined: "+says)
		if env.nodeOf("c") == "" {
			t.Error("another profile is not scheduled")
		}
		for i := range 20 {
			env.cluster.UpdatePod(faultyPod(fmt.Sprint("a", i), ""), func(p *v1.Pod) { p.Labels = nil })
		}
		synctest.Wait()
		o.unblock()
		time.Sleep(20 * time.Second)
		running, _ = env.Profiles().Running("p")
		env.wantLines("degradations", running.Degradations.Messages())
		if c := env.queue.Counts("p"); c.Quarantined > 0 {
			t.Errorf("%d pods are held", c.Quarantined)
		}
		if env.nodeOf("b") == "" || env.nodeOf("a0") == "" || env.nodeOf("a19") == "" {
			t.Errorf("b on %q, a0 on %q, a19 on %q", env.nodeOf("b"), env.nodeOf("a0"), env.nodeOf("a19"))
		}
	})
}

// A generation is closed when its last call has returned, not before.
func TestAPluginIsNotClosedWhileItHangs(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		go env.cluster.Apply(faultyPod("a", "Filter hangs"))
		time.Sleep(11 * time.Second)
		generation, _ := env.Profiles().Acquire("p")
		generation.Release()
		if err := env.Profiles().Apply(env.ctx, faultyBlueprint("p", "two", false)); err != nil {
			t.Fatal(err)
		}
		closed := func() bool {
			synctest.Wait()
			select {
			case <-generation.Closed():
				return true
			default:
				return false
			}
		}
		if closed() {
			t.Error("it is closed")
		}
		env.cluster.UpdatePod(faultyPod("a", ""), func(p *v1.Pod) { p.Labels = nil })
		o.unblock()
		time.Sleep(20 * time.Second)
		if !closed() {
			t.Error("it is not closed")
		}
	})
}

// PrioritySort replaces a QueueSort plugin that panics, until the next generation.
func TestASortThatPanicsIsReplaced(t *testing.T) {
	o := newFaultyPlugin()
	runTestWith(t, faultyRegistry(o), func(env *testEnv) {
		apply := func(name, hash string) {
			if err := env.Profiles().Apply(env.ctx, faultyBlueprint(name, hash, true)); err != nil {
				t.Fatal(err)
			}
		}
		degradations := func(want ...string) {
			running, _ := env.Profiles().Running("p")
			env.wantLines("degradations", running.Degradations.Messages(), want...)
		}
		arrive := func(profile, name string, priority int32) {
			env.create(fixture.Pod(name).SchedulerName(profile).Priority(priority).Obj())
			time.Sleep(time.Millisecond)
		}
		apply("p", "one")
		apply("q", "one")
		for i := range 9 {
			arrive("p", fmt.Sprint("p", i), int32(i%3))
		}
		degradations()
		o.setLessPanics(true)
		arrive("p", "last", 2)
		arrive("q", "q", 1)
		degradations(`plugin "Odd" panicked in Less: odd: its pods are sorted by PrioritySort instead`)
		if err := env.queue.Check(); err != nil {
			t.Error(err)
		}
		var order []string
		var attempts []*queue.Attempt
		for a := env.queue.TryPop(); a != nil; a = env.queue.TryPop() {
			order, attempts = append(order, a.Pod.Name), append(attempts, a)
		}
		env.wantLines("order", order, "p2", "p5", "p8", "last", "p1", "p4", "p7", "q", "p0", "p3", "p6")
		for _, a := range attempts {
			a.Return(env.ctx)
		}

		o.setLessPanics(false)
		apply("p", "two")
		degradations()
		order = nil
		for a := env.queue.TryPop(); a != nil; a = env.queue.TryPop() {
			if a.Pod.Name != "q" {
				order = append(order, a.Pod.Name)
			}
		}
		env.wantLines("order of the next generation", order, "last", "p8", "p7", "p6", "p5", "p4", "p3", "p2", "p1", "p0")
	})
}
