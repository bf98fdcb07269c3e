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

	"github.com/berthdev/berth/test/support/fixture"
)

// evictionCluster is a cluster whose pods have controllers: an evicted pod is created again
// under another name with the same profile and requests.
type evictionCluster struct {
	*testEnv
	pods    map[string]*v1.Pod // by name
	created int
	// victimsOf counts the victims by their preemptor's UID; byUID finds pods by UID.
	victimsOf map[types.UID]int
	byUID     map[types.UID]*v1.Pod
}

func newEvictionCluster(env *testEnv) *evictionCluster {
	return &evictionCluster{testEnv: env, pods: map[string]*v1.Pod{}, victimsOf: map[types.UID]int{}, byUID: map[types.UID]*v1.Pod{}}
}

// createPod creates a pod of a profile.
func (t *evictionCluster) createPod(profile string, cpus int, priority int32) *v1.Pod {
	t.created++
	pod := podWithCPUs(fmt.Sprintf("shop/p%d", t.created), cpus, priority).SchedulerName(profile).Obj()
	t.pods[pod.Name], t.byUID[pod.UID] = pod, pod
	t.create(pod)
	return pod
}

// recreateVictims creates the pods again that were evicted since the last call, and reports
// whether there were any. It first deletes victims that terminate slowly.
func (t *evictionCluster) recreateVictims() bool {
	any := false
	for _, line := range t.preemptedEvents() {
		name, rest, _ := strings.Cut(line, " ")
		victim := t.pods[name]
		if victim == nil {
			t.t.Fatalf("%s is evicted again: %s", name, line)
		}
		delete(t.pods, name)
		uid, _, _ := strings.Cut(strings.TrimPrefix(rest, "Normal Preempted: Preempted by pod "), " ")
		preemptor := t.byUID[types.UID(uid)]
		if preemptor == nil || *preemptor.Spec.Priority <= *victim.Spec.Priority {
			t.t.Errorf("%s, of priority %d, was evicted for %q", name, *victim.Spec.Priority, uid)
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

// waitForCalm advances the clock until no pod is evicted for longer than any backoff or
// flush, and fails the test when that takes too long.
func (t *evictionCluster) waitForCalm() {
	t.t.Helper()
	for round, quiet := 0, 0; quiet < 8; round++ {
		if round == 500 {
			t.t.Fatalf("preemption does not end: %v", t.victimsOf)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if quiet++; t.recreateVictims() {
			quiet = 0
		}
	}
}

// Pods of two profiles compete for four places; each has a higher priority than all before.
func TestRecreatedVictimsCauseNoPreemptionStorm(t *testing.T) {
	for name, slow := range map[string]bool{"victims terminate at once": false, "victims terminate slowly": true} {
		t.Run(name, func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				if slow {
					env.cluster.TerminateGracefully()
				}
				env.profile("q", nil)
				cluster := newEvictionCluster(env)
				for i := range 12 {
					pod := cluster.createPod([]string{"p", "q"}[i%2], 1, int32(i))
					cluster.waitForCalm()
					if got := env.cluster.Pod(pod); got == nil || got.Spec.NodeName == "" {
						t.Errorf("pod %d of 12, with the highest priority so far, has no node", i)
					}
				}
				for uid, victims := range cluster.victimsOf {
					if victims != 1 {
						t.Errorf("%s evicted %d pods, want 1", uid, victims)
					}
				}
				if len(cluster.victimsOf) != 8 {
					t.Errorf("%d pods evicted others, want the 8 that found no free place", len(cluster.victimsOf))
				}
			}, nodeWithCPUs("n1", 2), nodeWithCPUs("n2", 2))
		})
	}
}

// Whatever the pods request and however many come at once, preemption ends, and no pod evicts
// more pods than fit on one node, once for each time that a pod of higher priority takes its
// place.
func TestEveryPreemptionSequenceEnds(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				dice := rand.New(rand.NewPCG(seed, 0))
				if dice.IntN(2) == 0 {
					env.cluster.TerminateGracefully()
				}
				env.profile("q", nil)
				cluster := newEvictionCluster(env)
				for range 25 {
					cluster.createPod([]string{"p", "q"}[dice.IntN(2)], 1+dice.IntN(4), int32(dice.IntN(5)))
					if dice.IntN(3) == 0 {
						cluster.recreateVictims()
					}
				}
				cluster.waitForCalm()
				for uid, victims := range cluster.victimsOf {
					above := 0
					for _, other := range cluster.byUID {
						if *other.Spec.Priority > *cluster.byUID[uid].Spec.Priority {
							above++
						}
					}
					if victims > 4*(1+above) {
						t.Errorf("%s evicted %d pods, with %d of higher priority", uid, victims, above)
					}
				}
			}, nodeWithCPUs("n1", 4), nodeWithCPUs("n2", 4), fixture.Node("n3").Capacity("cpu", "6", "pods", "4").Obj())
		})
	}
}
