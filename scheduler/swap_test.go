package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/cells"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

func TestPodsOlderThanTheirProfileAreAdopted(t *testing.T) {
	runTest(t, func(w *testEnv) {
		defer w.startLeading()()
		w.create(webPod("a"), fixture.Pod("b").SchedulerName("q").Obj(), fixture.Pod("c").SchedulerName("p").On("n1").Obj())
		w.want("queue", w.counts(), "")
		w.apply("one")
		w.want("node of a", w.nodeOf("a"), "n1")
		w.want("node of b", w.nodeOf("b"), "")
		w.wantLines("calls", w.cluster.TakeCalls(), "bind a n1")
	}, node("n1"))
}

// As after a restart, with the loop running already.
func TestPodsThatAreAdoptedHonourEachOthersNominations(t *testing.T) {
	runTest(t, func(w *testEnv) {
		defer w.startLeading()()
		const pods = 20
		name := func(i int) string { return fmt.Sprint("promised-", i) }
		for i := range pods {
			w.create(fixture.Pod(name(i)).SchedulerName("p").NominatedNodeName("n1").Obj())
		}
		var known []int
		w.a.SetStatus("Filter", func() *fwk.Status {
			placed, _ := w.cache.Sizes()
			known = append(known, w.cache.Nominations()+placed)
			return nil
		})
		// Each is tried before the next one is adopted.
		w.a.SetStatus("PreEnqueue", func() *fwk.Status { synctest.Wait(); return nil })
		w.apply("one")
		if len(known) < pods || slices.ContainsFunc(known, func(n int) bool { return n != pods }) {
			t.Errorf("pods whose promise was known, or kept, attempt by attempt: %v, want %d in all", known, pods)
		}
	}, node("n1"))
}

// The list of pods that a new profile adopts is older than the moment in which
// they are added: what they were promised then may be over.
func TestANominationThatEndsWhileItsPodIsAdoptedIsNotKept(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.create(fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj())
		for i := range 20 {
			w.create(webPod(fmt.Sprint("other-", i)))
		}
		// The first of the pods that are adopted, most likely another.
		var begun atomic.Bool
		w.a.SetStatus("PreEnqueue", func() *fwk.Status {
			if begun.CompareAndSwap(false, true) {
				w.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Status.NominatedNodeName = "" })
				synctest.Wait() // a itself is asked about meanwhile
			}
			return nil
		})
		w.apply("one")
		w.want("what a is promised", w.cache.NominatedNode(webPod("a").UID), "")
	}, node("n1"))
}

// The list of pods that a new profile adopts is older than the moment in which
// they are added: who is gone by then must not stay in the queue for ever.
func TestAPodThatIsDeletedWhileItIsAdoptedIsNotKept(t *testing.T) {
	for sentence, leave := range map[string]func(w *testEnv){
		"because it is deleted":     func(w *testEnv) { w.cluster.DeletePod(webPod("a")) },
		"because somebody binds it": func(w *testEnv) { w.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Spec.NodeName = "n9" }) },
		"because another takes over": func(w *testEnv) {
			w.cluster.DeletePod(webPod("a"))
			synctest.Wait()
			w.cluster.Apply(fixture.Pod("a").UID("another").SchedulerName("q").Obj())
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.create(fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj())
				for i := range 20 {
					w.create(webPod(fmt.Sprint("other-", i)))
				}
				// The first of the pods that are adopted, most likely another.
				var once sync.Once
				w.a.SetStatus("PreEnqueue", func() *fwk.Status {
					once.Do(func() { leave(w); synctest.Wait() })
					return nil
				})
				w.apply("one")
				if places := w.queue.Places(); len(places) != 20 {
					t.Errorf("%d pods in the queue, want the 20 others", len(places))
				}
				if n := w.cache.Nominations(); n != 0 {
					t.Errorf("%d nominations are left", n)
				}
			}, node("n1"))
		})
	}
}

func TestASwapDecidesByTheNewGeneration(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("too small"))
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.want("queue", w.counts(), "1 unschedulable")
		w.a.SetStatus("Filter", nil)
		b := w.blueprint("two")
		b.Args = map[string]runtime.Object{"A": &cells.Args{Mark: "other"}}
		w.must(w.Profiles().Apply(w.ctx, b))
		synctest.Wait()
		w.want("node", w.nodeOf("a"), "n1")
		page, _ := w.options.Ledger.History("p", 10)
		if page.Recent[0].Hash != "two" {
			t.Errorf("decided by %s, want two", page.Recent[0].Hash)
		}
	}, node("n1"))
}

func TestAPausedProfilesPodsSayItAndAreScheduledAfterwards(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.Profiles().SetPaused("p", true)
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.want("queue", w.counts(), "1 parked")
		w.want("condition", w.podScheduled("a"), "False ProfilePaused: SchedulingProfile p is paused: the pod waits until its spec.state is Active")
		w.Profiles().SetPaused("p", false)
		synctest.Wait()
		w.want("node", w.nodeOf("a"), "n1")
	}, node("n1"))
}

func TestADeletedProfilesPodsWaitForItsReturn(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("too small"))
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.Profiles().Delete("p")
		synctest.Wait()
		w.want("condition", w.podScheduled("a"), "False ProfileDeleted: SchedulingProfile p was deleted: the pod waits until a profile of that name exists")
		w.a.SetStatus("Filter", nil)
		w.apply("one")
		w.want("node", w.nodeOf("a"), "n1")
		if lines := w.journal.Take(); !slices.Contains(lines, "A.Close") {
			t.Error("the deleted generation was not closed")
		}
	}, node("n1"))
}

func TestThePodsOfAProfileThatDoesNotRunSayWhy(t *testing.T) {
	runTest(t, func(w *testEnv) {
		defer w.startLeading()()
		w.create(webPod("before"))
		w.Profiles().Hold("p", "SchedulingProfile p does not run: generation 1 was refused")
		w.create(webPod("after"))
		synctest.Wait()
		for _, pod := range []string{"before", "after"} {
			w.want("condition", w.podScheduled(pod), "False ProfileNotRunning: SchedulingProfile p does not run: generation 1 was refused")
		}
		w.apply("one")
		w.want("node", w.nodeOf("before"), "n1")
		w.want("node", w.nodeOf("after"), "n1")

		w.Profiles().Delete("p")
		w.Profiles().Hold("p", "SchedulingProfile p does not run: generation 2 was refused")
		w.create(webPod("again"))
		synctest.Wait()
		w.want("condition", w.podScheduled("again"), "False ProfileNotRunning: SchedulingProfile p does not run: generation 2 was refused")
		w.Profiles().Delete("p")
		synctest.Wait()
		w.want("condition", w.podScheduled("again"), "False ProfileDeleted: SchedulingProfile p was deleted: the pod waits until a profile of that name exists")
	}, node("n1"))
}

// A pod that was let in by one generation and popped while the next took over
// has to pass the gates of the next.
func TestNoPodPassesAGateThatASwapBrings(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.create(webPod("a"))
		attempt := w.queue.TryPop()
		w.a.SetStatus("PreEnqueue", probe.Reject("shut"))
		w.apply("two")
		w.scheduleOne(w.ctx, attempt)
		synctest.Wait()
		w.want("node", w.nodeOf("a"), "")
		w.want("queue", w.counts(), "1 gated")
	}, node("n1"))
}

// backwards lets the least important pod go first.
type reverseSort struct{ *probe.Plugin }

func (b reverseSort) Name() string { return "Backwards" }

func (b reverseSort) Less(a, c fwk.QueuedEntityInfo) bool { return a.GetPriority() < c.GetPriority() }

func TestASwapToAnotherSortPluginReordersThePodsThatWait(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.options.Registry["Backwards"] = framework.Registration{
			Name: "Backwards", Points: framework.Points,
			New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return reverseSort{w.a}, nil },
		}
		w.apply("one")
		for _, priority := range []int32{5, 1, 9, 3, 7} {
			w.create(fixture.Pod(fmt.Sprint("p", priority)).SchedulerName("p").Priority(priority).Obj())
		}
		popped := func() (names []string) {
			for range 2 {
				names = append(names, w.queue.TryPop().Pod.Name)
			}
			return names
		}
		w.wantLines("popped before", popped(), "p9", "p7")
		b := w.blueprint("two")
		b.Chains[framework.QueueSort] = []framework.Entry{{Name: "Backwards"}}
		if err := w.Profiles().Apply(w.ctx, b); err != nil {
			t.Fatal(err)
		}
		w.wantLines("popped after", popped(), "p1", "p3")
	}, node("n1"))
}

func TestABindingOutlivesASwap(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.PermitTimeout = time.Hour
		w.a.SetStatus("Permit", probe.Wait)
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.journal.Take()
		w.apply("two")
		if slices.Contains(w.journal.Lines(), "A.Close") {
			t.Error("the old generation was closed while its pod waits on Permit")
		}
		w.waitingPods.Get(webPod("a").UID).Allow("A")
		synctest.Wait()
		w.want("node", w.nodeOf("a"), "n1")
		page, _ := w.options.Ledger.History("p", 1)
		w.want("decided by", page.Recent[0].Hash, "one")
		if !slices.Contains(w.journal.Lines(), "A.Close") {
			t.Error("the old generation was not closed after its last binding")
		}
	}, node("n1"))
}
