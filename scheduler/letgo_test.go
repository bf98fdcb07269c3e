package scheduler

import (
	"runtime"
	"testing"
	"time"
	"weak"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

// A binding may hold a generation for long after it was replaced, and eight may
// be alive: their equivalence caches are let go of at once.
func TestAReplacedGenerationReleasesItsEquivalenceCache(t *testing.T) {
	for sentence, replace := range map[string]func(w *testEnv){
		"by another": func(w *testEnv) { w.apply("two") },
		"its profile is deleted": func(w *testEnv) {
			w.Profiles().Delete("p")
			other := w.blueprint("other")
			other.Name = "q"
			w.must(w.Profiles().Apply(w.ctx, other))
			w.create(fixture.Pod("q").SchedulerName("q").Obj()) // what is closed is freed at the next pod
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.SetStatus("Permit", func() *fwk.Status { return fwk.NewStatus(fwk.Wait) })
				w.apply("one")
				defer w.startLeading()()
				w.create(webPod("a")) // which waits, and holds the generation
				old, _ := w.Profiles().Acquire("p")
				memo := weak.Make(old.EquivalenceCache())
				if memo.Value() == nil {
					t.Fatal("the generation has no equivalence cache")
				}
				replace(w)
				w.create(webPod("b")) // the loop is at another pod
				time.Sleep(time.Second)
				runtime.GC()
				if old.EquivalenceCache() != nil || memo.Value() != nil {
					t.Error("the equivalence cache of the old generation is still in memory")
				}
				select {
				case <-old.Closed():
					t.Error("the old generation is closed, though a pod of it waits")
				default:
				}
				old.Release()
			}, node("n1"))
		})
	}
}
