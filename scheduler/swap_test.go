package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

func TestPodsOlderThanTheirProfileAreAdopted(t *testing.T) {
	inTime(t, func(w *world) {
		defer w.lead()()
		w.create(web("a"), fixture.Pod("b").Scheduler("q").Obj(), fixture.Pod("c").Scheduler("p").On("n1").Obj())
		w.want("queue", w.counts(), "")
		w.apply("one")
		w.want("node of a", w.on("a"), "n1")
		w.want("node of b", w.on("b"), "")
		w.wantLines("calls", w.cluster.Take(), "bind a n1")
	}, node("n1"))
}

// The list of pods that a new profile adopts is older than the moment in which
// they are added: who is gone by then must not stay in the queue for ever.
func TestAPodThatLeavesWhileItIsAdoptedIsNotKept(t *testing.T) {
	for sentence, leave := range map[string]func(w *world){
		"because it is deleted":     func(w *world) { w.cluster.Remove(web("a")) },
		"because somebody binds it": func(w *world) { w.cluster.Change(web("a"), func(p *v1.Pod) { p.Spec.NodeName = "n9" }) },
		"because another takes over": func(w *world) {
			w.cluster.Remove(web("a"))
			synctest.Wait()
			w.cluster.Apply(fixture.Pod("a").UID("another").Scheduler("q").Obj())
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.create(fixture.Pod("a").Scheduler("p").Nominated("n1").Obj())
				for i := range 20 {
					w.create(web(fmt.Sprint("other-", i)))
				}
				// The first of the pods that are adopted, most likely another.
				var once sync.Once
				w.a.Set("PreEnqueue", func() *fwk.Status {
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
	inTime(t, func(w *world) {
		w.a.Set("Filter", probe.Reject("too small"))
		w.apply("one")
		defer w.lead()()
		w.create(web("a"))
		w.want("queue", w.counts(), "1 unschedulable")
		w.a.Set("Filter", nil)
		w.apply("two")
		w.want("node", w.on("a"), "n1")
		page, _ := w.options.Ledger.Page("p", 10)
		if page.Recent[0].Hash != "two" {
			t.Errorf("decided by %s, want two", page.Recent[0].Hash)
		}
	}, node("n1"))
}

func TestAPausedProfilesPodsAreToldAndGoOnAfterwards(t *testing.T) {
	inTime(t, func(w *world) {
		w.Profiles().Pause("p", true)
		w.apply("one")
		defer w.lead()()
		w.create(web("a"))
		w.want("queue", w.counts(), "1 parked")
		w.want("condition", w.scheduled("a"), "False ProfilePaused: SchedulingProfile p is paused: the pod waits until its spec.state is Active")
		w.Profiles().Pause("p", false)
		synctest.Wait()
		w.want("node", w.on("a"), "n1")
	}, node("n1"))
}

func TestADeletedProfilesPodsWaitForItsReturn(t *testing.T) {
	inTime(t, func(w *world) {
		w.a.Set("Filter", probe.Reject("too small"))
		w.apply("one")
		defer w.lead()()
		w.create(web("a"))
		w.Profiles().Delete("p")
		synctest.Wait()
		w.want("condition", w.scheduled("a"), "False ProfileDeleted: SchedulingProfile p was deleted: the pod waits until a profile of that name exists")
		w.a.Set("Filter", nil)
		w.apply("one")
		w.want("node", w.on("a"), "n1")
		if lines := w.journal.Take(); !slices.Contains(lines, "A.Close") {
			t.Error("the deleted generation was not closed")
		}
	}, node("n1"))
}

// A pod that was let in by one generation and popped while the next took over
// has to pass the gates of the next.
func TestAGateThatComesWithASwapIsPassedByNobody(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply("one")
		w.create(web("a"))
		attempt := w.queue.TryPop()
		w.a.Set("PreEnqueue", probe.Reject("shut"))
		w.apply("two")
		w.schedule(w.ctx, attempt)
		synctest.Wait()
		w.want("node", w.on("a"), "")
		w.want("queue", w.counts(), "1 gated")
	}, node("n1"))
}

func TestABindingOutlivesASwap(t *testing.T) {
	inTime(t, func(w *world) {
		w.a.Waits = time.Hour
		w.a.Set("Permit", probe.Wait)
		w.apply("one")
		defer w.lead()()
		w.create(web("a"))
		w.journal.Take()
		w.apply("two")
		if slices.Contains(w.journal.Lines(), "A.Close") {
			t.Error("the old generation was closed while its pod waits on Permit")
		}
		w.waiting.Get(web("a").UID).Allow("A")
		synctest.Wait()
		w.want("node", w.on("a"), "n1")
		page, _ := w.options.Ledger.Page("p", 1)
		w.want("decided by", page.Recent[0].Hash, "one")
		if !slices.Contains(w.journal.Lines(), "A.Close") {
			t.Error("the old generation was not closed after its last binding")
		}
	}, node("n1"))
}
