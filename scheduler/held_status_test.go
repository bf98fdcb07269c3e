package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// holdWriterFunc is a function that implements holdWriter.
type holdWriterFunc func(uid types.UID)

func (f holdWriterFunc) writeHold(uid types.UID) { f(uid) }

func TestTheStatusOfManyHeldPodsIsWrittenWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // each flush runs in a goroutine of its own
		var all []types.UID
		line := newHeldStatusQueue(clock.RealClock{}, holdWriterFunc(func(uid types.UID) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, uid)
		}))
		written := func() []types.UID {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		for i := range 3 * heldStatusBurst {
			line.add(fixture.Pod(fmt.Sprint("web-", i)).Obj())
		}
		again := fixture.Pod("web-149").Obj()
		line.add(again)
		refused := fixture.Pod("refused").Obj()
		refused.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		line.add(refused)
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
		if first := written()[heldStatusBurst]; first != refused.UID {
			t.Errorf("%q was written first of those that waited, want the Unschedulable one", first)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := written()
		if len(got) != 3*heldStatusBurst+1 || !slices.Contains(got, again.UID) {
			t.Errorf("%d were written; the last is %q, want each once", len(got), got[len(got)-1])
		}
		late := fixture.Pod("late").Obj()
		line.add(late)
		if got = written(); got[len(got)-1] != late.UID {
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

// The status of a pod whose gate has opened says what its attempt found, also where the gate's
// status still had to be written.
func TestAGateThatIsOverIsNotWritten(t *testing.T) {
	runTest(t, func(env *testEnv) {
		const crowd = 2*heldStatusBurst + 10
		var open atomic.Bool
		env.a.SetStatus("PreEnqueue", func() *fwk.Status {
			if open.Load() {
				return nil
			}
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "closed")
		})
		env.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.apply("one")
		defer env.startLeading()()
		env.profiles.SetPaused("p", true)
		for i := range crowd {
			env.create(webPod(fmt.Sprint("web-", i)))
		}
		time.Sleep(time.Minute)
		env.profiles.SetPaused("p", false)
		synctest.Wait()
		env.want("queue", env.counts(), fmt.Sprint(crowd, " gated"))
		open.Store(true)
		env.create(node("n1"))
		env.want("queue after the gate opened", env.counts(), fmt.Sprint(crowd, " unschedulable"))
		time.Sleep(time.Minute)
		for i := range crowd {
			env.want("condition", env.podScheduled(fmt.Sprint("web-", i)), "False Unschedulable: 0/1 nodes are available: 1 full.")
		}
	})
}
