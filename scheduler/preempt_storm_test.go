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
type town struct {
	*world
	alive map[string]*v1.Pod // by name
	born  int
	// cost are the victims by the UID of whom they had to leave for, uid who
	// stands behind a UID.
	cost map[types.UID]int
	uid  map[types.UID]*v1.Pod
}

func newTown(w *world) *town {
	return &town{world: w, alive: map[string]*v1.Pod{}, cost: map[types.UID]int{}, uid: map[types.UID]*v1.Pod{}}
}

// settle creates a pod of a profile.
func (t *town) settle(profile string, cpus int, priority int32) *v1.Pod {
	t.born++
	pod := guest(fmt.Sprintf("shop/p%d", t.born), cpus, priority).Scheduler(profile).Obj()
	t.alive[pod.Name], t.uid[pod.UID] = pod, pod
	t.create(pod)
	return pod
}

// replace creates again whoever was evicted since the last time, and reports
// whether there was anybody. Pods that take their time are gone by then.
func (t *town) replace() bool {
	any := false
	for _, line := range t.news() {
		name, rest, _ := strings.Cut(line, " ")
		victim := t.alive[name]
		if victim == nil {
			t.t.Fatalf("%s is told to go again: %s", name, line)
		}
		delete(t.alive, name)
		uid, _, _ := strings.Cut(strings.TrimPrefix(rest, "Normal Preempted: Preempted by pod "), " ")
		preemptor := t.uid[types.UID(uid)]
		if preemptor == nil || *preemptor.Spec.Priority <= *victim.Spec.Priority {
			t.t.Errorf("%s, of priority %d, had to leave for %q", name, *victim.Spec.Priority, uid)
		}
		t.cost[types.UID(uid)]++
		if t.cluster.Pod(victim) != nil {
			t.cluster.Remove(victim)
		}
		cpu := victim.Spec.Containers[0].Resources.Requests.Cpu()
		t.settle(victim.Spec.SchedulerName, int(cpu.Value()), *victim.Spec.Priority)
		any = true
	}
	return any
}

// calm lets time pass until nobody has to leave any more, for longer than any
// backoff or flush. The test ends when that takes too long.
func (t *town) calm() {
	t.t.Helper()
	for round, quiet := 0, 0; quiet < 8; round++ {
		if round == 500 {
			t.t.Fatalf("a storm: %v", t.cost)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if quiet++; t.replace() {
			quiet = 0
		}
	}
}

// Two profiles' pods fight for four places; each is more important than all
// before it.
func TestWhoIsEvictedAndComesAgainCausesNoStorm(t *testing.T) {
	for sentence, slow := range map[string]bool{"of pods that go at once": false, "of pods that take their time": true} {
		t.Run(sentence, func(t *testing.T) {
			inTown(t, func(w *world) {
				if slow {
					w.cluster.SlowDown()
				}
				w.profile("q", nil)
				town := newTown(w)
				for i := range 12 {
					pod := town.settle([]string{"p", "q"}[i%2], 1, int32(i))
					town.calm()
					if got := w.cluster.Pod(pod); got == nil || got.Spec.NodeName == "" {
						t.Errorf("pod %d of 12, the most important so far, has no place", i)
					}
				}
				for uid, cost := range town.cost {
					if cost != 1 {
						t.Errorf("%s cost %d pods their place, want the 1 that it takes", uid, cost)
					}
				}
				if len(town.cost) != 8 {
					t.Errorf("%d pods cost others their place, want the 8 that found none", len(town.cost))
				}
			}, berth("n1", 2), berth("n2", 2))
		})
	}
}

// Whatever the pods ask for, and however many come at once: peace comes, and no
// pod costs more of the others than fit on a node, once for each time that a
// more important one takes its room.
func TestEveryFightForRoomEnds(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inTown(t, func(w *world) {
				dice := rand.New(rand.NewPCG(seed, 0))
				if dice.IntN(2) == 0 {
					w.cluster.SlowDown()
				}
				w.profile("q", nil)
				town := newTown(w)
				for range 25 {
					town.settle([]string{"p", "q"}[dice.IntN(2)], 1+dice.IntN(4), int32(dice.IntN(5)))
					if dice.IntN(3) == 0 {
						town.replace()
					}
				}
				town.calm()
				for uid, cost := range town.cost {
					above := 0
					for _, other := range town.uid {
						if *other.Spec.Priority > *town.uid[uid].Spec.Priority {
							above++
						}
					}
					if cost > 4*(1+above) {
						t.Errorf("%s cost %d pods their place, with %d above it", uid, cost, above)
					}
				}
			}, berth("n1", 4), berth("n2", 4), fixture.Node("n3").Offers("cpu", "6", "pods", "4").Obj())
		})
	}
}
