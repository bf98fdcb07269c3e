package scheduler

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// As after a restart, while the loop runs already.
func TestPodsOlderThanTheirProfileAreAdopted(t *testing.T) {
	runTest(t, func(env *testEnv) {
		defer env.startLeading()()
		env.create(webPod("a"), fixture.Pod("b").SchedulerName("q").Obj(), fixture.Pod("c").SchedulerName("p").On("n1").Obj())
		env.want("queue", env.counts(), "")
		env.apply("one")
		env.want("node of a", env.nodeOf("a"), "n1")
		env.want("node of b", env.nodeOf("b"), "")
		env.wantLines("calls", env.cluster.TakeCalls(), "bind a n1")
	}, node("n1"))
}

// As after a restart, while the loop runs already.
func TestPodsThatAreAdoptedHonourEachOthersNominations(t *testing.T) {
	runTest(t, func(env *testEnv) {
		defer env.startLeading()()
		const pods = 20
		name := func(i int) string { return fmt.Sprint("nominated-", i) }
		for i := range pods {
			env.create(fixture.Pod(name(i)).SchedulerName("p").NominatedNodeName("n1").Obj())
		}
		var known []int
		env.a.SetStatus("Filter", func() *fwk.Status {
			placed, _ := env.cache.Sizes()
			known = append(known, env.cache.Nominations()+placed)
			return nil
		})
		// Each is tried before the next one is added.
		env.a.SetStatus("PreEnqueue", func() *fwk.Status { synctest.Wait(); return nil })
		env.apply("one")
		if len(known) < pods || slices.ContainsFunc(known, func(n int) bool { return n != pods }) {
			t.Errorf("nominations that were known, or kept, by attempt: %v, want %d in all", known, pods)
		}
	}, node("n1"))
}

// The list of pods that a new profile adds is older than the moment at which each is added:
// its nomination may have ended.
func TestANominationThatEndsWhileItsPodIsAdoptedIsNotKept(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.create(fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj())
		for i := range 20 {
			env.create(webPod(fmt.Sprint("other-", i)))
		}
		// The first of the pods that are added, most likely another one.
		var begun atomic.Bool
		env.a.SetStatus("PreEnqueue", func() *fwk.Status {
			if begun.CompareAndSwap(false, true) {
				env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Status.NominatedNodeName = "" })
				synctest.Wait() // a itself is looked up meanwhile
			}
			return nil
		})
		env.apply("one")
		env.want("nomination of a", env.cache.NominatedNode(webPod("a").UID), "")
	}, node("n1"))
}

// The list of pods that a new profile adds is older than the moment at which each is added: a
// pod that was deleted meanwhile must not stay in the queue.
func TestAPodThatIsDeletedWhileItIsAdoptedIsNotKept(t *testing.T) {
	for name, leave := range map[string]func(env *testEnv){
		"because it is deleted":              func(env *testEnv) { env.cluster.DeletePod(webPod("a")) },
		"because another scheduler binds it": func(env *testEnv) { env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Spec.NodeName = "n9" }) },
		"because it gets another schedulerName": func(env *testEnv) {
			env.cluster.DeletePod(webPod("a"))
			synctest.Wait()
			env.cluster.Apply(fixture.Pod("a").UID("another").SchedulerName("q").Obj())
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.create(fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj())
				for i := range 20 {
					env.create(webPod(fmt.Sprint("other-", i)))
				}
				// The first of the pods that are added, most likely another one.
				var once sync.Once
				env.a.SetStatus("PreEnqueue", func() *fwk.Status {
					once.Do(func() { leave(env); synctest.Wait() })
					return nil
				})
				env.apply("one")
				if places := env.queue.Places(); len(places) != 20 {
					t.Errorf("%d pods in the queue, want the 20 others", len(places))
				}
				if n := env.cache.Nominations(); n != 0 {
					t.Errorf("%d nominations are left", n)
				}
			}, node("n1"))
		})
	}
}

func TestASwapDecidesByTheNewGeneration(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("too small"))
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.want("queue", env.counts(), "1 unschedulable")
		env.a.SetStatus("Filter", nil)
		b := env.blueprint("two")
		b.Args = map[string]runtime.Object{"A": &swapmatrix.Args{Mark: "other"}}
		env.must(env.Profiles().Apply(env.ctx, b))
		synctest.Wait()
		env.want("node", env.nodeOf("a"), "n1")
		history, _ := env.options.Ledger.History("p", 10)
		if history.Recent[0].Hash != "two" {
			t.Errorf("decided by %s, want two", history.Recent[0].Hash)
		}
	}, node("n1"))
}

func TestAPausedProfilesPodsSayItAndAreScheduledAfterwards(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.Profiles().SetPaused("p", true)
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.want("queue", env.counts(), "1 held")
		env.want("condition", env.podScheduled("a"), "False ProfilePaused: SchedulingProfile p is paused: the pod waits until its spec.state is Active")
		env.Profiles().SetPaused("p", false)
		synctest.Wait()
		env.want("node", env.nodeOf("a"), "n1")
	}, node("n1"))
}

func TestADeletedProfilesPodsWaitForItsReturn(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("too small"))
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.Profiles().Delete("p")
		synctest.Wait()
		env.want("condition", env.podScheduled("a"), "False ProfileDeleted: SchedulingProfile p was deleted: the pod waits until a profile of that name exists")
		env.a.SetStatus("Filter", nil)
		env.apply("one")
		env.want("node", env.nodeOf("a"), "n1")
		if lines := env.journal.Take(); !slices.Contains(lines, "A.Close") {
			t.Error("the deleted generation was not closed")
		}
	}, node("n1"))
}

func TestThePodsOfAProfileThatDoesNotRunSayWhy(t *testing.T) {
	runTest(t, func(env *testEnv) {
		defer env.startLeading()()
		env.create(webPod("before"))
		env.Profiles().Hold("p", "SchedulingProfile p does not run: generation 1 was refused")
		env.create(webPod("after"))
		synctest.Wait()
		for _, pod := range []string{"before", "after"} {
			env.want("condition", env.podScheduled(pod), "False ProfileNotRunning: SchedulingProfile p does not run: generation 1 was refused")
		}
		env.apply("one")
		env.want("node", env.nodeOf("before"), "n1")
		env.want("node", env.nodeOf("after"), "n1")

		env.Profiles().Delete("p")
		env.Profiles().Hold("p", "SchedulingProfile p does not run: generation 2 was refused")
		env.create(webPod("again"))
		synctest.Wait()
		env.want("condition", env.podScheduled("again"), "False ProfileNotRunning: SchedulingProfile p does not run: generation 2 was refused")
		env.Profiles().Delete("p")
		synctest.Wait()
		env.want("condition", env.podScheduled("again"), "False ProfileDeleted: SchedulingProfile p was deleted: the pod waits until a profile of that name exists")
	}, node("n1"))
}

// Another scheduler writes the conditions of those pods from then on.
func TestPodsThatAreLeftToAnotherSchedulerGetNothingFromBerth(t *testing.T) {
	runTest(t, func(env *testEnv) {
		defer env.startLeading()()
		env.create(webPod("before"))
		env.Profiles().Hold("p", "SchedulingProfile p does not run: generation 1 was refused")
		synctest.Wait()
		if env.status("before") == nil {
			t.Error("a held pod is not explained")
		}
		env.Profiles().Release("p")
		env.create(webPod("after"))
		synctest.Wait()
		env.want("queue", env.counts(), "")
		env.wantStatus("before", nil)
		env.wantStatus("after", nil)
		env.want("condition", env.podScheduled("after"), "")
		env.Profiles().Hold("p", "SchedulingProfile p does not run: generation 2 was refused")
		synctest.Wait()
		for _, pod := range []string{"before", "after"} {
			env.want("condition", env.podScheduled(pod), "False ProfileNotRunning: SchedulingProfile p does not run: generation 2 was refused")
		}
		env.Profiles().Release("p")
		env.apply("one")
		env.want("node", env.nodeOf("before"), "n1")
		env.want("node", env.nodeOf("after"), "n1")
	}, node("n1"))
}

func TestAPodInABindingCycleFindsBackToAProfileThatWasReleased(t *testing.T) {
	for name, c := range map[string]struct {
		comesBack       func(env *testEnv)
		node, condition string
	}{
		"which runs again": {func(env *testEnv) { env.apply("one") }, "n1", "True"},
		"which is held again": {
			func(env *testEnv) { env.Profiles().Hold("p", "it does not run") }, "", "False ProfileNotRunning: it does not run",
		},
		"which stays released": {func(*testEnv) {}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				fails := make(chan struct{})
				env.a.SetStatus("PreBindPreFlight", nil)
				env.a.SetStatus("PreBind", func() *fwk.Status {
					<-fails
					return fwk.AsStatus(errors.New("no"))
				})
				env.apply("one")
				defer env.startLeading()()
				env.create(webPod("a"))
				env.Profiles().Delete("p")
				env.Profiles().Hold("p", "it does not run")
				env.Profiles().Release("p")
				env.a.SetStatus("PreBind", nil)
				c.comesBack(env)
				close(fails)
				synctest.Wait()
				env.want("node", env.nodeOf("a"), c.node)
				env.want("condition", env.podScheduled("a"), c.condition)
			}, node("n1"))
		})
	}
}

// A pod that one generation admitted, and that was popped after the swap, has to pass the
// PreEnqueue plugins of the new generation.
func TestNoPodPassesAGateThatASwapBrings(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.create(webPod("a"))
		attempt := env.queue.TryPop()
		env.a.SetStatus("PreEnqueue", probe.Reject("shut"))
		env.apply("two")
		env.scheduleOne(env.ctx, attempt, nil)
		synctest.Wait()
		env.want("node", env.nodeOf("a"), "")
		env.want("queue", env.counts(), "1 gated")
	}, node("n1"))
}

// reverseSort sorts the pod with the lowest priority first.
type reverseSort struct{ *probe.Plugin }

func (b reverseSort) Name() string { return "Backwards" }

func (b reverseSort) Less(a, c fwk.QueuedEntityInfo) bool { return a.GetPriority() < c.GetPriority() }

func TestASwapToAnotherSortPluginReordersThePodsThatWait(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.options.Registry["Backwards"] = framework.Registration{
			Name: "Backwards", Points: framework.Points,
			New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return reverseSort{env.a}, nil },
		}
		env.apply("one")
		for _, priority := range []int32{5, 1, 9, 3, 7} {
			env.create(fixture.Pod(fmt.Sprint("p", priority)).SchedulerName("p").Priority(priority).Obj())
		}
		popped := func() (names []string) {
			for range 2 {
				names = append(names, env.queue.TryPop().Pod.Name)
			}
			return names
		}
		env.wantLines("popped before", popped(), "p9", "p7")
		b := env.blueprint("two")
		b.Chains[framework.QueueSort] = []framework.Entry{{Name: "Backwards"}}
		if err := env.Profiles().Apply(env.ctx, b); err != nil {
			t.Fatal(err)
		}
		env.wantLines("popped after", popped(), "p1", "p3")
	}, node("n1"))
}

func TestABindingOutlivesASwap(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.PermitTimeout = time.Hour
		env.a.SetStatus("Permit", probe.Wait)
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.journal.Take()
		env.apply("two")
		if slices.Contains(env.journal.Lines(), "A.Close") {
			t.Error("the old generation was closed while its pod waits on Permit")
		}
		env.waitingPods.Get(webPod("a").UID).Allow("A")
		synctest.Wait()
		env.want("node", env.nodeOf("a"), "n1")
		history, _ := env.options.Ledger.History("p", 1)
		env.want("decided by", history.Recent[0].Hash, "one")
		if !slices.Contains(env.journal.Lines(), "A.Close") {
			t.Error("the old generation was not closed after its last binding")
		}
	}, node("n1"))
}

// A binding may hold a generation long after its replacement, and eight generations may be
// alive; their equivalence caches are released at once.
func TestAReplacedGenerationReleasesItsEquivalenceCache(t *testing.T) {
	for name, replace := range map[string]func(env *testEnv){
		"a swap": func(env *testEnv) { env.apply("two") },
		"the profile is deleted": func(env *testEnv) {
			env.Profiles().Delete("p")
			other := env.blueprint("other")
			other.Name = "q"
			env.must(env.Profiles().Apply(env.ctx, other))
			env.create(fixture.Pod("q").SchedulerName("q").Obj()) // what is closed is freed at the next pod
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.SetStatus("Permit", func() *fwk.Status { return fwk.NewStatus(fwk.Wait) })
				env.apply("one")
				defer env.startLeading()()
				env.create(webPod("a")) // which waits, and holds the generation
				old, _ := env.Profiles().Acquire("p")
				memo := weak.Make(old.EquivalenceCache())
				if memo.Value() == nil {
					t.Fatal("the generation has no equivalence cache")
				}
				replace(env)
				env.create(webPod("b")) // the loop is at another pod
				time.Sleep(time.Second)
				goruntime.GC()
				if old.EquivalenceCache() != nil || memo.Value() != nil {
					t.Error("the equivalence cache of the old generation is still in memory")
				}
				select {
				case <-old.Closed():
					t.Error("the old generation is closed, though a pod of it waits on Permit")
				default:
				}
				old.Release()
			}, node("n1"))
		})
	}
}
