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
func of(profile, name string) *v1.Pod { return fixture.Pod(name).Scheduler(profile).Obj() }

// Each plugin is at fault with one pod, again and again; others go on.
func TestAPodAtWhichAPluginPanicsIsSetAside(t *testing.T) {
	for _, point := range []string{
		"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit", "PreBind",
	} {
		t.Run(point, func(t *testing.T) {
			amongOdds(t, func(w *world, o *odd) {
				poison := oddly("a", point+" panics")
				if point == "PostFilter" {
					poison.Labels["fits nowhere"] = ""
				}
				w.create(poison)
				for i := range 30 {
					w.create(of("p", fmt.Sprint("p", i)), of("q", fmt.Sprint("q", i)), node(fmt.Sprint("new", i)))
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				if got := w.scheduled("a"); !strings.HasPrefix(got, fmt.Sprintf("False SetAside: plugin \"Odd\" panicked in %s, again and again: the pod is set aside until ", point)) {
					t.Errorf("condition %q", got)
				}
				w.want("queue", w.counts(), "")
				if c := w.queue.Counts("p"); c.SetAside != 1 {
					t.Errorf("counts %+v", c)
				}
				for i := range 30 {
					if w.cluster.Pod(of("p", fmt.Sprint("p", i))).Spec.NodeName == "" || w.cluster.Pod(of("q", fmt.Sprint("q", i))).Spec.NodeName == "" {
						t.Errorf("pods %d: one is not bound", i)
					}
				}
				w.cluster.Change(poison, func(p *v1.Pod) { delete(p.Labels, "odd"); delete(p.Labels, "fits nowhere") })
				synctest.Wait()
				if w.on("a") == "" {
					t.Errorf("a change did not help: %s", w.scheduled("a"))
				}
			})
		})
	}
}

// A plugin hangs at one pod, and comes back when nobody waits for it any more.
func TestAPluginThatHangsIsLeftBehind(t *testing.T) {
	for _, point := range []string{"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore"} {
		t.Run(point, func(t *testing.T) {
			amongOdds(t, func(w *world, o *odd) {
				slow := oddly("a", point+" hangs")
				if point == "PostFilter" {
					slow.Labels["fits nowhere"] = ""
				}
				go w.cluster.Apply(slow)
				time.Sleep(time.Second)
				go w.cluster.Apply(of("q", "b"))
				time.Sleep(8 * time.Second)
				w.want("node of another while it is waited for", w.on("b"), "")
				time.Sleep(2 * time.Second)
				if w.on("b") == "" {
					t.Error("the loop does not go on")
				}
				if point != "PreEnqueue" {
					w.want("condition", w.scheduled("a"), fmt.Sprintf("False SchedulerError: plugin \"Odd\" did not come back from %s within 10s", point))
				}
				w.cluster.Change(slow, func(p *v1.Pod) { p.Labels = nil })
				o.open()
				time.Sleep(20 * time.Second)
				if w.on("a") == "" {
					t.Errorf("not bound: %s", w.scheduled("a"))
				}
			})
		})
	}
}

// Nothing else happens that would have it asked.
func TestAGateThatTookItsTimeIsAskedAgain(t *testing.T) {
	amongOdds(t, func(w *world, o *odd) {
		go w.cluster.Apply(oddly("a", "PreEnqueue hangs once"))
		time.Sleep(12 * time.Second)
		w.want("queue", w.counts(), "1 gated")
		o.open()
		synctest.Wait()
		if w.on("a") == "" {
			t.Errorf("not bound, queue: %s", w.counts())
		}
	})
}

// The pod is another one by the time that the plugin comes back.
func TestWhatIsSaidTooLateChangesNothing(t *testing.T) {
	for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"} {
		t.Run(point, func(t *testing.T) {
			amongOdds(t, func(w *world, o *odd) {
				slow := oddly("a", point+" hangs")
				go w.cluster.Apply(slow)
				time.Sleep(5 * time.Second)
				go w.cluster.Apply(of("q", "b"))
				go w.cluster.Apply(of("q", "c"))
				go w.cluster.Change(slow, func(p *v1.Pod) { p.Labels = map[string]string{"fits nowhere": ""} })
				time.Sleep(time.Minute)
				w.want("node of a", w.on("a"), "")
				w.want("condition", w.scheduled("a"), "False Unschedulable: 0/2 nodes are available: 2 full.")
				generation, _ := w.Profiles().Acquire("p")
				o.open()
				synctest.Wait()
				w.want("node of a", w.on("a"), "")
				w.want("condition", w.scheduled("a"), "False Unschedulable: 0/2 nodes are available: 2 full.")
				if pods, assumed := w.cache.Sizes(); pods != 2 || assumed != 0 {
					t.Errorf("%d pods have a node, %d of them are assumed", pods, assumed)
				}
				if point == "Filter" && (len(o.looked) != 2 || o.looked[0] != o.looked[1]) {
					t.Errorf("the plugin saw a node move: pods before and after %v", o.looked)
				}
				generation.Release()
			})
		})
	}
}

// It asks for them when it is back, while the loop goes on.
func TestALatePluginMayAskForNodes(t *testing.T) {
	amongOdds(t, func(w *world, o *odd) {
		slow := oddly("a", "Filter hangs")
		slow.Labels["asks"] = ""
		go w.cluster.Apply(slow)
		time.Sleep(11 * time.Second)
		w.cluster.Change(slow, func(p *v1.Pod) { p.Labels = map[string]string{"fits nowhere": ""} })
		w.create(of("q", "b"))
		o.open()
		synctest.Wait()
		for _, name := range []string{"c", "d", "e"} {
			w.create(of("q", name), of("p", name+name))
		}
		time.Sleep(30 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if w.on("ee") == "" || len(o.asked) != 2 || o.asked[0] != o.asked[1] {
			t.Errorf("pods on the nodes that it asked for, when it asked and later: %v, want the same", o.asked)
		}
	})
}

// What Reserve claims must be taken back before the pod goes elsewhere, and
// Permit may take its time: the pod stays where it is, and the loop goes on.
func TestAClaimThatTakesItsTimeHoldsUpItsPodAlone(t *testing.T) {
	for point, want := range map[string]struct{ meanwhile, then string }{
		"Reserve": {`False SchedulerError: plugin "Odd" did not come back from Reserve within 10s`, `False SchedulerError: running Reserve plugin "Odd": late`},
		"Permit":  {"", "True"},
	} {
		t.Run(point, func(t *testing.T) {
			amongOdds(t, func(w *world, o *odd) {
				slow := oddly("a", point+" hangs")
				go w.cluster.Apply(slow)
				time.Sleep(time.Second)
				go w.cluster.Apply(of("q", "b"))
				go w.cluster.Apply(of("p", "c"))
				time.Sleep(time.Minute)
				if w.on("b") == "" || w.on("c") == "" {
					t.Error("the loop does not go on")
				}
				w.want("condition", w.scheduled("a"), want.meanwhile)
				w.want("queue", w.counts(), "1 in flight")
				if _, assumed := w.cache.Sizes(); assumed != 1 {
					t.Errorf("%d assumed", assumed)
				}
				w.cluster.Take()
				w.cluster.Change(slow, func(p *v1.Pod) { p.Labels = nil })
				synctest.Wait()
				o.open()
				synctest.Wait()
				if point == "Reserve" {
					w.want("queue", w.counts(), "1 backoff")
					if o.claimed("a") {
						t.Error("its claim is left")
					}
				}
				time.Sleep(10 * time.Second)
				w.want("condition", w.scheduled("a"), "True")
				if !o.claimed("a") || w.on("a") == "" {
					t.Errorf("on %q, claimed %v", w.on("a"), o.claimed("a"))
				}
				if running, _ := w.Profiles().Running("p"); running.Ailments != nil {
					t.Errorf("ailments %v", running.Ailments)
				}
			})
		})
	}
}

// A plugin that hangs at every pod hurts its own profile, and that no longer
// than sixteen calls.
func TestCallsThatDoNotComeBackAreCounted(t *testing.T) {
	amongOdds(t, func(w *world, o *odd) {
		var told atomic.Int32
		w.Profiles().WhenAilmentsChange(func(name string) {
			if w.want("ailing profile", name, "p"); name == "p" {
				told.Add(1)
			}
		})
		for i := range 20 {
			go w.cluster.Apply(oddly(fmt.Sprint("a", i), "Filter hangs"))
		}
		time.Sleep(5 * time.Minute)
		if o.hanging() != 16 || told.Load() != 16 {
			t.Fatalf("%d calls hang, told %d times, want 16", o.hanging(), told.Load())
		}
		const says = `16 calls of the profile's plugins have not come back, the last of plugin "Odd" from Filter: no pod is tried until one does, or Berth is restarted`
		running, _ := w.Profiles().Running("p")
		w.wantLines("ailments", running.Ailments, says)
		w.create(of("p", "b"), of("q", "c"))
		w.want("condition", w.scheduled("b"), "False SetAside: "+says)
		if w.on("c") == "" {
			t.Error("another profile does not go on")
		}
		for i := range 20 {
			w.cluster.Change(oddly(fmt.Sprint("a", i), ""), func(p *v1.Pod) { p.Labels = nil })
		}
		synctest.Wait()
		o.open()
		time.Sleep(20 * time.Second)
		running, _ = w.Profiles().Running("p")
		w.wantLines("ailments", running.Ailments)
		if c := w.queue.Counts("p"); c.SetAside > 0 {
			t.Errorf("%d pods are held", c.SetAside)
		}
		if w.on("b") == "" || w.on("a0") == "" || w.on("a19") == "" {
			t.Errorf("b on %q, a0 on %q, a19 on %q", w.on("b"), w.on("a0"), w.on("a19"))
		}
	})
}

// What runs is closed when its last call is back, and not before.
func TestAPluginIsNotClosedWhileItHangs(t *testing.T) {
	amongOdds(t, func(w *world, o *odd) {
		go w.cluster.Apply(oddly("a", "Filter hangs"))
		time.Sleep(11 * time.Second)
		generation, _ := w.Profiles().Acquire("p")
		generation.Release()
		if err := w.Profiles().Apply(w.ctx, oddBlueprint("p", "two", false)); err != nil {
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
		w.cluster.Change(oddly("a", ""), func(p *v1.Pod) { p.Labels = nil })
		o.open()
		time.Sleep(20 * time.Second)
		if !closed() {
			t.Error("it is not closed")
		}
	})
}

// A sort that panics gives way to PrioritySort until the next generation.
func TestASortThatPanicsIsReplaced(t *testing.T) {
	o := newOdd()
	inTimeWith(t, oddRegistry(o), func(w *world) {
		apply := func(name, hash string) {
			if err := w.Profiles().Apply(w.ctx, oddBlueprint(name, hash, true)); err != nil {
				t.Fatal(err)
			}
		}
		ailments := func(want ...string) {
			running, _ := w.Profiles().Running("p")
			w.wantLines("ailments", running.Ailments, want...)
		}
		arrive := func(profile, name string, priority int32) {
			w.create(fixture.Pod(name).Scheduler(profile).Priority(priority).Obj())
			time.Sleep(time.Millisecond)
		}
		apply("p", "one")
		apply("q", "one")
		for i := range 9 {
			arrive("p", fmt.Sprint("p", i), int32(i%3))
		}
		ailments()
		o.breaks(true)
		arrive("p", "last", 2)
		arrive("q", "q", 1)
		ailments(`plugin "Odd" panicked in Less: odd: its pods are in the order of PrioritySort instead`)
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

		o.breaks(false)
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
