package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/fixture"
)

// town is a cluster whose pods have owners: whoever is evicted is created again
// under another name, and asks the same profile for the same.
type evictionCluster struct {
	*testEnv
	pods    map[string]*v1.Pod // by name
	created int
	// cost are the victims by the UID of whom they had to leave for, uid who
	// stands behind a UID.
	victimsOf map[types.UID]int
	byUID     map[types.UID]*v1.Pod
}

func newEvictionCluster(w *testEnv) *evictionCluster {
	return &evictionCluster{testEnv: w, pods: map[string]*v1.Pod{}, victimsOf: map[types.UID]int{}, byUID: map[types.UID]*v1.Pod{}}
}

// settle creates a pod of a profile.
func (t *evictionCluster) createPod(profile string, cpus int, priority int32) *v1.Pod {
	t.created++
	pod := podWithCPUs(fmt.Sprintf("shop/p%d", t.created), cpus, priority).SchedulerName(profile).Obj()
	t.pods[pod.Name], t.byUID[pod.UID] = pod, pod
	t.create(pod)
	return pod
}

// replace creates again whoever was evicted since the last time, and reports
// whether there was anybody. Pods that take their time are gone by then.
func (t *evictionCluster) recreateVictims() bool {
	any := false
	for _, line := range t.preemptedEvents() {
		name, rest, _ := strings.Cut(line, " ")
		victim := t.pods[name]
		if victim == nil {
			t.t.Fatalf("%s is told to go again: %s", name, line)
		}
		delete(t.pods, name)
		uid, _, _ := strings.Cut(strings.TrimPrefix(rest, "Normal Preempted: Preempted by pod "), " ")
		preemptor := t.byUID[types.UID(uid)]
		if preemptor == nil || *preemptor.Spec.Priority <= *victim.Spec.Priority {
			t.t.Errorf("%s, of priority %d, had to leave for %q", name, *victim.Spec.Priority, uid)
		}
		t.victimsOf[types.UID(uid)]++
		if t.cluster.Pod(victim) != nil {
			t.cluster.DeletePod(victim)
		}
		cpu := victim.Spec.Containers[0].Resources.Requests.Cpu()
		t.createPod(victim.Spec.SchedulerName, int(cpu.Value()), *victim.Spec.Priority)
		any = true
	}
	return any
}

// calm lets time pass until nobody has to leave any more, for longer than any
// backoff or flush. The test ends when that takes too long.
func (t *evictionCluster) waitForCalm() {
	t.t.Helper()
	for round, quiet := 0, 0; quiet < 8; round++ {
		if round == 500 {
			t.t.Fatalf("a storm: %v", t.victimsOf)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if quiet++; t.recreateVictims() {
			quiet = 0
		}
	}
}

// Two profiles' pods fight for four places; each is more important than all
// before it.
func TestRecreatedVictimsCauseNoPreemptionStorm(t *testing.T) {
	for sentence, slow := range map[string]bool{"of pods that go at once": false, "of pods that take their time": true} {
		t.Run(sentence, func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				if slow {
					w.cluster.TerminateGracefully()
				}
				w.profile("q", nil)
				town := newEvictionCluster(w)
				for i := range 12 {
					pod := town.createPod([]string{"p", "q"}[i%2], 1, int32(i))
					town.waitForCalm()
					if got := w.cluster.Pod(pod); got == nil || got.Spec.NodeName == "" {
						t.Errorf("pod %d of 12, the most important so far, has no place", i)
					}
				}
				for uid, cost := range town.victimsOf {
					if cost != 1 {
						t.Errorf("%s cost %d pods their place, want the 1 that it takes", uid, cost)
					}
				}
				if len(town.victimsOf) != 8 {
					t.Errorf("%d pods cost others their place, want the 8 that found none", len(town.victimsOf))
				}
			}, nodeWithCPUs("n1", 2), nodeWithCPUs("n2", 2))
		})
	}
}

// Whatever the pods ask for, and however many come at once: peace comes, and no
// pod costs more of the others than fit on a node, once for each time that a
// more important one takes its room.
func TestEveryPreemptionSequenceEnds(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				dice := rand.New(rand.NewPCG(seed, 0))
				if dice.IntN(2) == 0 {
					w.cluster.TerminateGracefully()
				}
				w.profile("q", nil)
				town := newEvictionCluster(w)
				for range 25 {
					town.createPod([]string{"p", "q"}[dice.IntN(2)], 1+dice.IntN(4), int32(dice.IntN(5)))
					if dice.IntN(3) == 0 {
						town.recreateVictims()
					}
				}
				town.waitForCalm()
				for uid, cost := range town.victimsOf {
					above := 0
					for _, other := range town.byUID {
						if *other.Spec.Priority > *town.byUID[uid].Spec.Priority {
							above++
						}
					}
					if cost > 4*(1+above) {
						t.Errorf("%s cost %d pods their place, with %d above it", uid, cost, above)
					}
				}
			}, nodeWithCPUs("n1", 4), nodeWithCPUs("n2", 4), fixture.Node("n3").Capacity("cpu", "6", "pods", "4").Obj())
		})
	}
}
