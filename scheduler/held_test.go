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
	"github.com/berthdev/berth/test/fixture"
)

func TestTheStatusOfManyHeldPodsIsWrittenWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // each turn of the line has a goroutine of its own
		var all []string
		line := newHeldStatusQueue(clock.RealClock{}, func(pod *v1.Pod, hold queue.Hold) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, pod.Name+" "+hold.Message)
		})
		heard := func() []string {
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
		if n := len(heard()); n != heldStatusBurst {
			t.Fatalf("%d were told at once, want %d", n, heldStatusBurst)
		}
		for second := 1; second <= 2; second++ {
			time.Sleep(time.Second)
			synctest.Wait()
			if n, want := len(heard()), heldStatusBurst+second*heldStatusQPS; n > want || n < want-2 {
				t.Fatalf("%d were told after %d s, want %d", n, second, want)
			}
		}
		if first := heard()[heldStatusBurst]; first != "refused " {
			t.Errorf("%q was told first of those that waited, want the one that an autoscaler looks at", first)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		told := heard()
		if len(told) != 3*heldStatusBurst+1 || !slices.Contains(told, "web-149 new") || slices.Contains(told, "web-149 old") {
			t.Errorf("%d were told; the last is %q, want each once, with the newest reason", len(told), told[len(told)-1])
		}
		line.add(fixture.Pod("late").Obj(), queue.Hold{Message: "now"})
		if told = heard(); told[len(told)-1] != "late now" {
			t.Error("one that comes alone waits")
		}
	})
}

// An autoscaler buys nodes for pods that say Unschedulable.
func TestNoHeldPodSaysUnschedulable(t *testing.T) {
	runTest(t, func(w *testEnv) {
		const crowd = 2*heldStatusBurst + 10
		w.apply("one")
		defer w.startLeading()()
		for i := range crowd {
			w.create(webPod(fmt.Sprint("web-", i)))
		}
		time.Sleep(time.Minute)
		w.profiles.SetPaused("p", true)
		time.Sleep(time.Minute)
		for i := range crowd {
			w.want("condition", w.podScheduled(fmt.Sprint("web-", i)),
				"False ProfilePaused: SchedulingProfile p is paused: the pod waits until its spec.state is Active")
		}
		w.profiles.SetPaused("p", false)
		w.profiles.SetPaused("p", true)
		w.profiles.SetPaused("p", false)
		time.Sleep(time.Minute)
		for i := range crowd {
			w.want("condition", w.podScheduled(fmt.Sprint("web-", i)), "False Unschedulable: no nodes available to schedule pods")
		}
	})
}
