package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/fixture"
)

// Nobody else can ask the queue anything while a sort is asked.
func TestASortThatHangsIsReplaced(t *testing.T) {
	o := newFaultyPlugin()
	runTestWith(t, faultyRegistry(o), func(w *testEnv) {
		o.unblocked = make(chan struct{}) // of this bubble
		if err := w.Profiles().Apply(w.ctx, faultyBlueprint("p", "one", true)); err != nil {
			t.Fatal(err)
		}
		w.create(fixture.Pod("low").SchedulerName("p").Priority(1).Obj())
		o.setLessHangs(true)
		w.create(fixture.Pod("high").SchedulerName("p").Priority(2).Obj())
		time.Sleep(9 * time.Second)
		running, _ := w.Profiles().Running("p")
		w.wantLines("ailments while it is waited for", running.Degradations)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		const broken = `plugin "Odd" did not come back from Less within 10s: its pods are sorted by PrioritySort instead`
		running, _ = w.Profiles().Running("p")
		w.wantLines("ailments", running.Degradations, broken,
			`1 of at most 16 calls of its plugins have not returned, the last of plugin "Odd" from Less`)
		var order []string
		for a := w.queue.TryPop(); a != nil; a = w.queue.TryPop() {
			order = append(order, a.Pod.Name)
		}
		w.wantLines("order", order, "high", "low")
		o.unblock()
		synctest.Wait()
		running, _ = w.Profiles().Running("p")
		w.wantLines("ailments when it is back", running.Degradations, broken)
	})
}

// An event is not lost because a hint does not say what it is worth, and the next
// one is heard.
func TestAHintThatHangsWakesThePod(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		waits := faultyPod("a", "QueueingHint hangs")
		waits.Labels["fits nowhere"] = ""
		w.create(waits)
		time.Sleep(15 * time.Second) // no backoff any more
		o.unblock()                  // it was asked when a was refused
		synctest.Wait()
		w.events.take()
		go w.cluster.Apply(node("n3"))
		time.Sleep(9 * time.Second)
		w.wantLines("told while it is waited for", w.events.take())
		time.Sleep(2 * time.Second)
		w.wantLines("told", slices.Compact(w.events.take()), "a Warning FailedScheduling: 0/3 nodes are available: 3 full.")
		go w.cluster.Apply(podOf("q", "b"))
		time.Sleep(11 * time.Second) // it was asked again by the loop, when a was refused
		if w.nodeOf("b") == "" {
			t.Error("another profile does not go on")
		}
		running, _ := w.Profiles().Running("p")
		if len(running.Degradations) != 1 || !strings.HasSuffix(running.Degradations[0], `have not returned, the last of plugin "Odd" from QueueingHint`) {
			t.Errorf("ailments %v", running.Degradations)
		}
		w.cluster.UpdatePod(waits, func(p *v1.Pod) { p.Labels = nil })
		o.unblock()
		time.Sleep(20 * time.Second)
		running, _ = w.Profiles().Running("p")
		w.wantLines("ailments when it is back", running.Degradations)
		if w.nodeOf("a") == "" {
			t.Errorf("not bound: %s", w.podScheduled("a"))
		}
	})
}

// One event may concern many pods: the loop and the informers wait for one of them.
func TestTheQueueWaitsForOneOfManyHintsThatHang(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		var pods []*v1.Pod
		for _, name := range []string{"a1", "a2", "a3"} {
			waits := faultyPod(name, "QueueingHint hangs")
			waits.Labels["fits nowhere"] = ""
			w.create(waits)
			pods = append(pods, waits)
		}
		time.Sleep(15 * time.Second) // no backoff any more
		o.unblock()
		synctest.Wait()
		w.events.take()
		go w.cluster.Apply(node("n3"))
		time.Sleep(11 * time.Second)
		const refused = " Warning FailedScheduling: 0/3 nodes are available: 3 full."
		told := w.events.take()
		slices.Sort(told)
		w.wantLines("told", slices.Compact(told), "a1"+refused, "a2"+refused, "a3"+refused)
		if o.hanging() != 1 {
			t.Errorf("%d hints hang, want 1", o.hanging())
		}
		for _, waits := range pods {
			w.cluster.UpdatePod(waits, func(p *v1.Pod) { p.Labels = nil })
		}
		o.unblock()
		time.Sleep(20 * time.Second)
		for _, waits := range pods {
			if w.nodeOf(waits.Name) == "" {
				t.Errorf("%s is not bound: %s", waits.Name, w.podScheduled(waits.Name))
			}
		}
	})
}

// It may have done what it was asked to do: nobody can go on without it.
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
			runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
				w.create(faultyPod("a", point+" hangs"))
				time.Sleep(c.limit - time.Second)
				running, _ := w.Profiles().Running("p")
				w.wantLines("ailments before it is late", running.Degradations)
				w.create(podOf("p", "b"), podOf("q", "c"))
				if w.nodeOf("b") == "" || w.nodeOf("c") == "" {
					t.Error("others do not go on")
				}
				time.Sleep(12 * time.Second)
				running, _ = w.Profiles().Running("p")
				w.wantLines("ailments", running.Degradations,
					fmt.Sprintf(`1 of at most 16 calls of its plugins have not returned, the last of plugin "Odd" from %s`, point))
				w.want("condition", w.podScheduled("a"), c.says)
				o.unblock()
				synctest.Wait()
				running, _ = w.Profiles().Running("p")
				w.wantLines("ailments when it is back", running.Degradations)
				if w.nodeOf("a") == "" {
					t.Errorf("not bound: %s", w.podScheduled("a"))
				}
			})
		})
	}
}

// Their pods hold room: a plugin that hangs at each must not have it all.
func TestBindingCyclesThatAPluginBlocksAreBounded(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		for i := range 20 {
			w.create(faultyPod(fmt.Sprint("a", i), "PreBindPreFlight hangs"))
			time.Sleep(20 * time.Second)
		}
		if _, assumed := w.cache.Sizes(); assumed != 16 || o.hanging() != 16 {
			t.Errorf("%d pods are held up, %d have room, want 16", o.hanging(), assumed)
		}
		w.create(podOf("q", "c"))
		if w.nodeOf("c") == "" {
			t.Error("another profile does not go on")
		}
		o.unblock()
		time.Sleep(20 * time.Second)
		o.unblock()
		time.Sleep(time.Minute)
		for i := range 20 {
			if w.nodeOf(fmt.Sprint("a", i)) == "" {
				t.Errorf("a%d is not bound: %s", i, w.podScheduled(fmt.Sprint("a", i)))
			}
		}
	})
}
