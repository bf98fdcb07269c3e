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

func TestACrowdOfHeldPodsIsToldWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // each turn of the line has a goroutine of its own
		var all []string
		line := newHeldLine(clock.RealClock{}, func(pod *v1.Pod, hold queue.Hold) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, pod.Name+" "+hold.Message)
		})
		heard := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		for i := range 3 * heldAtOnce {
			line.put(fixture.Pod(fmt.Sprint("web-", i)).Obj(), queue.Hold{Reason: queue.ProfilePaused, Message: "old"})
		}
		line.put(fixture.Pod("web-149").Obj(), queue.Hold{Reason: queue.ProfilePaused, Message: "new"})
		refused := fixture.Pod("refused").Obj()
		refused.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		line.put(refused, queue.Hold{Reason: queue.ProfilePaused})
		if n := len(heard()); n != heldAtOnce {
			t.Fatalf("%d were told at once, want %d", n, heldAtOnce)
		}
		for second := 1; second <= 2; second++ {
			time.Sleep(time.Second)
			synctest.Wait()
			if n, want := len(heard()), heldAtOnce+second*heldPerSecond; n > want || n < want-2 {
				t.Fatalf("%d were told after %d s, want %d", n, second, want)
			}
		}
		if first := heard()[heldAtOnce]; first != "refused " {
			t.Errorf("%q was told first of those that waited, want the one that an autoscaler looks at", first)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		told := heard()
		if len(told) != 3*heldAtOnce+1 || !slices.Contains(told, "web-149 new") || slices.Contains(told, "web-149 old") {
			t.Errorf("%d were told; the last is %q, want each once, with the newest reason", len(told), told[len(told)-1])
		}
		line.put(fixture.Pod("late").Obj(), queue.Hold{Message: "now"})
		if told = heard(); told[len(told)-1] != "late now" {
			t.Error("one that comes alone waits")
		}
	})
}

// An autoscaler buys nodes for pods that say Unschedulable.
func TestNoParkedPodSaysUnschedulable(t *testing.T) {
	inTime(t, func(w *world) {
		const crowd = 2*heldAtOnce + 10
		w.apply("one")
		defer w.lead()()
		for i := range crowd {
			w.create(web(fmt.Sprint("web-", i)))
		}
		time.Sleep(time.Minute)
		w.profiles.Pause("p", true)
		time.Sleep(time.Minute)
		for i := range crowd {
			w.want("condition", w.scheduled(fmt.Sprint("web-", i)),
				"False ProfilePaused: SchedulingProfile p is paused: the pod waits until its spec.state is Active")
		}
		w.profiles.Pause("p", false)
		w.profiles.Pause("p", true)
		w.profiles.Pause("p", false)
		time.Sleep(time.Minute)
		for i := range crowd {
			w.want("condition", w.scheduled(fmt.Sprint("web-", i)), "False Unschedulable: no nodes available to schedule pods")
		}
	})
}
