package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

// holdWriterFunc is a function that implements holdWriter.
type holdWriterFunc func(pod *v1.Pod, hold queue.Hold)

func (f holdWriterFunc) writeHold(pod *v1.Pod, hold queue.Hold) { f(pod, hold) }

func TestTheStatusOfManyHeldPodsIsWrittenWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // each flush runs in a goroutine of its own
		var all []string
		line := newHeldStatusQueue(clock.RealClock{}, holdWriterFunc(func(pod *v1.Pod, hold queue.Hold) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, pod.Name+" "+hold.Message)
		}))
		written := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		for i := range 3 * heldStatusBurst {
			line.add(fixture.Pod(fmt.Sprint("web-", i)).Obj(), queue.Hold{Reason: queue.ProfilePaused, Message: "old"})
		}
		line.add(fixture.Pod("web-149").Obj(), queue.Hold{Reason: queue.ProfilePaused, Message: "new"})
		refused := fixture.Pod("refused").Obj()
		refused.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		line.add(refused, queue.Hold{Reason: queue.ProfilePaused})
		if n := len(written()); n != heldStatusBurst {
			t.Fatalf("%d were written at once, want %d", n, heldStatusBurst)
		}
		for second := 1; second <= 2; second++ {
			time.Sleep(time.Second)
			synctest.Wait()
			if n, want := len(written()), heldStatusBurst+second*heldStatusQPS; n > want || n < want-2 {
				t.Fatalf("%d were written after %d s, want %d", n, second, want)
			}
		}
		if first := written()[heldStatusBurst]; first != "refused " {
			t.Errorf("%q was written first of those that waited, want the Unschedulable one", first)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := written()
		if len(got) != 3*heldStatusBurst+1 || !slices.Contains(got, "web-149 new") || slices.Contains(got, "web-149 old") {
			t.Errorf("%d were written; the last is %q, want each once, with the newest reason", len(got), got[len(got)-1])
		}
		line.add(fixture.Pod("late").Obj(), queue.Hold{Message: "now"})
		if got = written(); got[len(got)-1] != "late now" {
			t.Error("a single update waits")
		}
	})
}

// A cluster autoscaler adds nodes for pods whose condition says Unschedulable.
func TestNoHeldPodSaysUnschedulable(t *testing.T) {
	runTest(t, func(env *testEnv) {
		const crowd = 2*heldStatusBurst + 10
		env.apply("one")
		defer env.startLeading()()
		for i := range crowd {
			env.create(webPod(fmt.Sprint("web-", i)))
		}
		time.Sleep(time.Minute)
		env.profiles.SetPaused("p", true)
		time.Sleep(time.Minute)
		for i := range crowd {
			env.want("condition", env.podScheduled(fmt.Sprint("web-", i)),
				"False ProfilePaused: SchedulingProfile p is paused: the pod waits until its spec.state is Active")
		}
		env.profiles.SetPaused("p", false)
		env.profiles.SetPaused("p", true)
		env.profiles.SetPaused("p", false)
		time.Sleep(time.Minute)
		for i := range crowd {
			env.want("condition", env.podScheduled(fmt.Sprint("web-", i)), "False Unschedulable: no nodes available to schedule pods")
		}
	})
}
