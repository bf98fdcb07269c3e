package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// podsOfManySizes returns a pod of one of a few kinds with requests of its own, so that
// most pods are the first of their class.
func podsOfManySizes(rng *rand.Rand, step int) *v1.Pod {
	b := fixture.Pod(fmt.Sprint("p", step))
	switch rng.IntN(6) {
	case 0:
		b.Label("app", "db").RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "web"))
	case 1:
		b.Label("app", "web").PreferPodAffinity(9, fixture.PodAffinityTerm("zone", "app", "db"))
	case 2:
		b.NodeSelector("zone", "1")
	case 3:
		b.Label("app", "web").Spread(v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		})
	case 4:
		b.Label("app", "db")
	}
	switch rng.IntN(5) {
	case 0:
		b.Requests() // Balanced skips Score
	case 1:
		b.Requests("cpu", fmt.Sprint(rng.IntN(8000), "m"), "ephemeral-storage", fmt.Sprint(rng.IntN(3)))
	default:
		b.Requests("cpu", fmt.Sprint(1+rng.IntN(2000), "m"), "memory", fmt.Sprint(1+rng.IntN(4000), "Mi"))
	}
	return b.Obj()
}

// changeCluster makes one change that forms of a class, or counts in them, depend on.
func (s *testEnv) changeCluster(rng *rand.Rand, step int) {
	i := rng.IntN(20)
	on, name := fmt.Sprint("n", i), fmt.Sprint("x", rng.IntN(30))
	switch rng.IntN(7) {
	case 0:
		s.cache.SetPod(fixture.Pod(name).Label("app", "db").RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "web")).On(on).Obj())
	case 1:
		s.cache.SetPod(fixture.Pod(name).Label("app", "web").Requests("cpu", "100m", "memory", "1Gi").On(on).Obj())
	case 2:
		s.service(fmt.Sprint("s", step), "app", []string{"web", "db"}[rng.IntN(2)])
	case 3:
		s.cache.RemovePodByUID(fixture.Pod(name).Obj().UID)
	case 4:
		node := fixture.Node(on).Label("zone", fmt.Sprint(rng.IntN(3))).Capacity("cpu", fmt.Sprint(1+i%7), "memory", "8Gi", "pods", "110")
		if rng.IntN(2) == 0 {
			node.Taint("t", "", []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule}[rng.IntN(2)])
		}
		s.cache.SetNode(node.Obj())
	}
}

// A class that takes over what was computed for one with other requests decides as the
// reference does. Every attempt also compares cached scores with those of the reference.
func TestClassesThatDifferOnlyInRequestsAreDecidedAsByTheReference(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newTestEnv(t, 1<<20, 1, "NodeResourcesBalancedAllocation", "NodeAffinity", "TaintToleration", "InterPodAffinity", "PodTopologySpread")
		s.caches[0].SetRecheckEvery(1)
		for step := range 80 {
			s.changeCluster(rng, step)
			pod := podsOfManySizes(rng, step)
			for range 1 + rng.IntN(2) {
				s.run(0, pod)
			}
		}
		if stats := s.caches[0].Stats(); stats.Mismatches > 0 || stats.Cached < 80 {
			t.Fatalf("seed %d: %+v, want no mismatches, and at least 80 cached attempts", seed, stats)
		}
	}
}
