package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/fixture"
)

// of is a pod of another profile than p.
func podOf(profile, name string) *v1.Pod { return fixture.Pod(name).SchedulerName(profile).Obj() }

// Each plugin is at fault with one pod, again and again; others go on.
func TestAPodAtWhichAPluginPanicsIsQuarantined(t *testing.T) {
	for _, point := range []string{
		"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit", "PreBind",
	} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
				poison := faultyPod("a", point+" panics")
				if point == "PostFilter" {
					poison.Labels["fits nowhere"] = ""
				}
				w.create(poison)
				for i := range 30 {
					w.create(podOf("p", fmt.Sprint("p", i)), podOf("q", fmt.Sprint("q", i)), node(fmt.Sprint("new", i)))
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				if got := w.podScheduled("a"); !strings.HasPrefix(got, fmt.Sprintf("False Quarantined: plugin \"Odd\" panicked repeatedly in %s: the pod is quarantined until ", point)) {
					t.Errorf("condition %q", got)
				}
				w.want("queue", w.counts(), "")
				if c := w.queue.Counts("p"); c.Quarantined != 1 {
					t.Errorf("counts %+v", c)
				}
				for i := range 30 {
					if w.cluster.Pod(podOf("p", fmt.Sprint("p", i))).Spec.NodeName == "" || w.cluster.Pod(podOf("q", fmt.Sprint("q", i))).Spec.NodeName == "" {
						t.Errorf("pods %d: one is not bound", i)
					}
				}
				w.cluster.UpdatePod(poison, func(p *v1.Pod) { delete(p.Labels, "odd"); delete(p.Labels, "fits nowhere") })
				synctest.Wait()
				if w.nodeOf("a") == "" {
					t.Errorf("a change did not help: %s", w.podScheduled("a"))
				}
			})
		})
	}
}

// A plugin hangs at one pod, and comes back when nobody waits for it any more.
func TestAPluginThatHangsIsAbandoned(t *testing.T) {
	for _, point := range []string{"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore"} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
				slow := faultyPod("a", point+" hangs")
				if point == "PostFilter" {
					slow.Labels["fits nowhere"] = ""
				}
				go w.cluster.Apply(slow)
				time.Sleep(time.Second)
				go w.cluster.Apply(podOf("q", "b"))
				time.Sleep(8 * time.Second)
				w.want("node of another while it is waited for", w.nodeOf("b"), "")
				time.Sleep(2 * time.Second)
				if w.nodeOf("b") == "" {
					t.Error("the loop does not go on")
				}
				if point != "PreEnqueue" {
					w.want("condition", w.podScheduled("a"), fmt.Sprintf("False SchedulerError: plugin \"Odd\" did not come back from %s within 10s", point))
				}
				w.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = nil })
				o.unblock()
				time.Sleep(20 * time.Second)
				if w.nodeOf("a") == "" {
					t.Errorf("not bound: %s", w.podScheduled("a"))
				}
			})
		})
	}
}

// Nothing else happens that would have it asked.
func TestASlowGateIsCalledAgain(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		go w.cluster.Apply(faultyPod("a", "PreEnqueue hangs once"))
		time.Sleep(12 * time.Second)
		w.want("queue", w.counts(), "1 gated")
		o.unblock()
		synctest.Wait()
		if w.nodeOf("a") == "" {
			t.Errorf("not bound, queue: %s", w.counts())
		}
	})
}

// The pod is another one by the time that the plugin comes back.
func TestALateResultIsDiscarded(t *testing.T) {
	for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
				slow := faultyPod("a", point+" hangs")
				go w.cluster.Apply(slow)
				time.Sleep(5 * time.Second)
				go w.cluster.Apply(podOf("q", "b"))
				go w.cluster.Apply(podOf("q", "c"))
				go w.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = map[string]string{"fits nowhere": ""} })
				time.Sleep(time.Minute)
				w.want("node of a", w.nodeOf("a"), "")
				w.want("condition", w.podScheduled("a"), "False Unschedulable: 0/2 nodes are available: 2 full.")
				generation, _ := w.Profiles().Acquire("p")
				o.unblock()
				synctest.Wait()
				w.want("node of a", w.nodeOf("a"), "")
				w.want("condition", w.podScheduled("a"), "False Unschedulable: 0/2 nodes are available: 2 full.")
				if pods, assumed := w.cache.Sizes(); pods != 2 || assumed != 0 {
					t.Errorf("%d pods have a node, %d of them are assumed", pods, assumed)
				}
				if point == "Filter" && (len(o.podCounts) != 2 || o.podCounts[0] != o.podCounts[1]) {
					t.Errorf("the plugin saw a node move: pods before and after %v", o.podCounts)
				}
				generation.Release()
			})
		})
	}
}

// It asks for them when it is back, while the loop goes on.
func TestALatePluginMayListNodes(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		slow := faultyPod("a", "Filter hangs")
		slow.Labels["asks"] = ""
		go w.cluster.Apply(slow)
		time.Sleep(11 * time.Second)
		w.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = map[string]string{"fits nowhere": ""} })
		w.create(podOf("q", "b"))
		o.unblock()
		synctest.Wait()
		for _, name := range []string{"c", "d", "e"} {
			w.create(podOf("q", name), podOf("p", name+name))
		}
		time.Sleep(30 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if w.nodeOf("ee") == "" || len(o.listedPodCounts) != 2 || o.listedPodCounts[0] != o.listedPodCounts[1] {
			t.Errorf("pods on the nodes that it asked for, when it asked and later: %v, want the same", o.listedPodCounts)
		}
	})
}

// What Reserve claims must be taken back before the pod goes elsewhere, and
// Permit may take its time: the pod stays where it is, and the loop goes on.
func TestASlowReserveDelaysItsPodOnly(t *testing.T) {
	for point, want := range map[string]struct{ meanwhile, then string }{
		"Reserve": {`False SchedulerError: plugin "Odd" did not come back from Reserve within 10s`, `False SchedulerError: running Reserve plugin "Odd": late`},
		"Permit":  {"", "True"},
	} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
				slow := faultyPod("a", point+" hangs")
				go w.cluster.Apply(slow)
				time.Sleep(time.Second)
				go w.cluster.Apply(podOf("q", "b"))
				go w.cluster.Apply(podOf("p", "c"))
				time.Sleep(time.Minute)
				if w.nodeOf("b") == "" || w.nodeOf("c") == "" {
					t.Error("the loop does not go on")
				}
				w.want("condition", w.podScheduled("a"), want.meanwhile)
				w.want("queue", w.counts(), "1 in flight")
				if _, assumed := w.cache.Sizes(); assumed != 1 {
					t.Errorf("%d assumed", assumed)
				}
				w.cluster.TakeCalls()
				w.cluster.UpdatePod(slow, func(p *v1.Pod) { p.Labels = nil })
				synctest.Wait()
				o.unblock()
				synctest.Wait()
				if point == "Reserve" {
					w.want("queue", w.counts(), "1 backoff")
					if o.claimed("a") {
						t.Error("its claim is left")
					}
				}
				time.Sleep(10 * time.Second)
				w.want("condition", w.podScheduled("a"), "True")
				if !o.claimed("a") || w.nodeOf("a") == "" {
					t.Errorf("on %q, claimed %v", w.nodeOf("a"), o.claimed("a"))
				}
				if running, _ := w.Profiles().Running("p"); running.Degradations != nil {
					t.Errorf("ailments %v", running.Degradations)
				}
			})
		})
	}
}

// A plugin that hangs at every pod hurts its own profile, and that no longer
// than sixteen calls.
func TestCallsThatDoNotReturnAreCounted(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		var told atomic.Int32
		w.Profiles().OnDegradedChange(func(name string) {
			if w.want("ailing profile", name, "p"); name == "p" {
				told.Add(1)
			}
		})
		for i := range 20 {
			go w.cluster.Apply(faultyPod(fmt.Sprint("a", i), "Filter hangs"))
		}
		time.Sleep(5 * time.Minute)
		if o.hanging() != 16 || told.Load() != 16 {
			t.Fatalf("%d calls hang, told %d times, want 16", o.hanging(), told.Load())
		}
		const says = `16 calls of the profile's plugins have not returned, the last of plugin "Odd" from Filter: no pod is scheduled until one returns or Berth restarts`
		running, _ := w.Profiles().Running("p")
		w.wantLines("ailments", running.Degradations, says)
		w.create(podOf("p", "b"), podOf("q", "c"))
		w.want("condition", w.podScheduled("b"), "False Quarantined: "+says)
		if w.nodeOf("c") == "" {
			t.Error("another profile does not go on")
		}
		for i := range 20 {
			w.cluster.UpdatePod(faultyPod(fmt.Sprint("a", i), ""), func(p *v1.Pod) { p.Labels = nil })
		}
		synctest.Wait()
		o.unblock()
		time.Sleep(20 * time.Second)
		running, _ = w.Profiles().Running("p")
		w.wantLines("ailments", running.Degradations)
		if c := w.queue.Counts("p"); c.Quarantined > 0 {
			t.Errorf("%d pods are held", c.Quarantined)
		}
		if w.nodeOf("b") == "" || w.nodeOf("a0") == "" || w.nodeOf("a19") == "" {
			t.Errorf("b on %q, a0 on %q, a19 on %q", w.nodeOf("b"), w.nodeOf("a0"), w.nodeOf("a19"))
		}
	})
}

// What runs is closed when its last call is back, and not before.
func TestAPluginIsNotClosedWhileItHangs(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		go w.cluster.Apply(faultyPod("a", "Filter hangs"))
		time.Sleep(11 * time.Second)
		generation, _ := w.Profiles().Acquire("p")
		generation.Release()
		if err := w.Profiles().Apply(w.ctx, faultyBlueprint("p", "two", false)); err != nil {
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
		w.cluster.UpdatePod(faultyPod("a", ""), func(p *v1.Pod) { p.Labels = nil })
		o.unblock()
		time.Sleep(20 * time.Second)
		if !closed() {
			t.Error("it is not closed")
		}
	})
}

// A sort that panics gives way to PrioritySort until the next generation.
func TestASortThatPanicsIsReplaced(t *testing.T) {
	o := newFaultyPlugin()
	runTestWith(t, faultyRegistry(o), func(w *testEnv) {
		apply := func(name, hash string) {
			if err := w.Profiles().Apply(w.ctx, faultyBlueprint(name, hash, true)); err != nil {
				t.Fatal(err)
			}
		}
		ailments := func(want ...string) {
			running, _ := w.Profiles().Running("p")
			w.wantLines("ailments", running.Degradations, want...)
		}
		arrive := func(profile, name string, priority int32) {
			w.create(fixture.Pod(name).SchedulerName(profile).Priority(priority).Obj())
			time.Sleep(time.Millisecond)
		}
		apply("p", "one")
		apply("q", "one")
		for i := range 9 {
			arrive("p", fmt.Sprint("p", i), int32(i%3))
		}
		ailments()
		o.setLessPanics(true)
		arrive("p", "last", 2)
		arrive("q", "q", 1)
		ailments(`plugin "Odd" panicked in Less: odd: its pods are sorted by PrioritySort instead`)
		if err := w.queue.Check(); err != nil {
			t.Error(err)
		}
		var order []string
		var attempts []*queue.Attempt
		for a := w.queue.TryPop(); a != nil; a = w.queue.TryPop() {
			order, attempts = append(order, a.Pod.Name), append(attempts, a)
		}
		w.wantLines("order", order, "p2", "p5", "p8", "last", "p1", "p4", "p7", "q", "p0", "p3", "p6")
		for _, a := range attempts {
			a.Return(w.ctx)
		}

		o.setLessPanics(false)
		apply("p", "two")
		ailments()
		order = nil
		for a := w.queue.TryPop(); a != nil; a = w.queue.TryPop() {
			if a.Pod.Name != "q" {
				order = append(order, a.Pod.Name)
			}
		}
		w.wantLines("order of the next generation", order, "last", "p8", "p7", "p6", "p5", "p4", "p3", "p2", "p1", "p0")
	})
}
