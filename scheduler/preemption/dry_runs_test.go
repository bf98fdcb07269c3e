package preemption_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/test/support/fixture"
)

// history changes a small cluster step by step, and preempts in it.
type history struct {
	*testEnv
	rng *rand.Rand
	// verdicts and kept are reused from attempt to attempt, as the scheduler does.
	verdicts *cycle.EquivalenceCache
	kept     *preemption.Planner
	placed   []*v1.Pod
	pending  []*v1.Pod
	names    int
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{testEnv: newTestEnv(t, nodes(5)), rng: rand.New(rand.NewPCG(seed, 0))}
	h.verdicts, h.kept = cycle.NewEquivalenceCache(h.framework), h.planner()
	h.verdicts.SetRecheckEvery(1)
	h.setGroup()
	for i := range 8 {
		pod := fixture.Pod(fmt.Sprint("shop/pending-", i)).Requests("cpu", fmt.Sprint(2+i%2)).Priority(int32(5 + i/2%2))
		pod.Label("app", "pending").HostPort("", v1.ProtocolTCP, 80).Toleration(v1.Toleration{Key: "dedicated", Operator: v1.TolerationOpExists})
		h.pending = append(h.pending, pod.Obj())
	}
	return h
}

// step makes one change.
func (h *history) step(t *testing.T) {
	node := fmt.Sprint("n", 1+h.rng.IntN(5))
	switch h.rng.IntN(12) {
	case 0, 1, 2:
		h.place(node)
	case 3:
		h.remove()
	case 4:
		changed := fixture.Node(node).Capacity("cpu", fmt.Sprint(3+h.rng.IntN(3)), "pods", "10")
		if h.rng.IntN(2) == 0 {
			changed.Taint("dedicated", "shop", v1.TaintEffectNoSchedule)
		}
		h.cache.SetNode(changed.Obj())
	case 5, 6, 7:
		h.nominate(t, node)
	case 8:
		h.budgets = nil
		for range h.rng.IntN(3) {
			h.budgets = append(h.budgets, budget(fmt.Sprint("b", h.rng.IntN(9)), "app", fmt.Sprint(h.rng.IntN(3)), int32(h.rng.IntN(2))))
		}
	case 9:
		h.clock.Step(time.Duration(h.rng.IntN(30)) * time.Second)
	case 10:
		h.setGroup()
	case 11:
		h.newest = map[types.UID]*v1.Pod{}
		changed := h.pending[h.rng.IntN(len(h.pending))].DeepCopy()
		changed.Spec.Tolerations = nil
		h.newest[changed.UID] = changed
	}
}

func (h *history) place(node string) {
	h.names++
	pod := fixture.Pod(fmt.Sprint("shop/placed-", h.names)).Requests("cpu", "1").Priority(int32(2*h.rng.IntN(4))).
		Label("app", fmt.Sprint(h.rng.IntN(3))).On(node)
	if h.rng.IntN(3) > 0 {
		start := metav1.NewTime(h.clock.Now().Add(time.Duration(h.rng.IntN(60)-20) * time.Second))
		pod.Mutate(func(p *v1.Pod) { p.Status.StartTime = &start })
	}
	if h.rng.IntN(3) == 0 {
		pod.HostPort("", v1.ProtocolTCP, 80)
	}
	if h.rng.IntN(60) == 0 {
		pod.RequirePodAntiAffinity(v1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pending"}}, TopologyKey: v1.LabelHostname,
		})
	}
	if h.rng.IntN(10) == 0 {
		group := "group"
		pod.Mutate(func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} })
	}
	h.placed = append(h.placed, pod.Obj())
	h.cache.SetPod(h.placed[len(h.placed)-1])
	h.cache.Groups().SetPod(h.placed[len(h.placed)-1])
}

func (h *history) remove() {
	if len(h.placed) == 0 {
		return
	}
	at := h.rng.IntN(len(h.placed))
	h.cache.RemovePodByUID(h.placed[at].UID)
	h.cache.Groups().RemovePod(h.placed[at])
	h.placed = slices.Delete(h.placed, at, at+1)
}

// nominate nominates a pending pod for a node, or for none.
func (h *history) nominate(t *testing.T, node string) {
	info, err := framework.NewPodInfo(h.pending[h.rng.IntN(len(h.pending))])
	if err != nil {
		t.Fatal(err)
	}
	if h.rng.IntN(3) == 0 {
		node = ""
	}
	h.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride})
}

// setGroup gives the group of some pods a priority and a mode of disruption.
func (h *history) setGroup() {
	priority := int32(h.rng.IntN(9))
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "group"}}
	group.Spec.Priority = &priority
	if h.rng.IntN(2) == 0 {
		group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	h.cache.Groups().SetPodGroup(podgroups.Native, group)
}

// candidates returns the plans of a planner for a request, or its error.
func (h *history) candidates(t *testing.T, p *preemption.Planner, r framework.PreemptionRequest) (found []string) {
	plans, err := p.Candidates(t.Context(), r)
	if err != nil {
		return []string{err.Error()}
	}
	for _, plan := range plans {
		found = append(found, fmt.Sprintf("%s for %s, %d violations, %d of groups", planString(plan), plan.Preemptor.Name, plan.Violations, plan.GroupDisruptions))
	}
	return found
}

// Dry runs are reused until something changes that they depend on: the plans are those of a planner
// that has made none before, and the statuses of nodes those of a cycle without a cache.
func TestKeptDryRunsEqualNewOnes(t *testing.T) {
	var plans, reused int
	for seed := range uint64(60) {
		h := newHistory(t, seed)
		for step := range 150 {
			h.step(t)
			pod := h.pending[h.rng.IntN(len(h.pending))]
			request, err := h.attempt(t, pod, h.verdicts)
			_, want := h.attempt(t, pod, nil)
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(err)); diff != "" {
				t.Fatalf("seed %d, step %d: the cycle of %s (-without cache +with):\n%s", seed, step, pod.Name, diff)
			}
			if err == nil {
				continue
			}
			plans++
			if request.State.(*framework.CycleState).PodClass() != 0 {
				reused++
			}
			if diff := cmp.Diff(h.candidates(t, h.planner(), request), h.candidates(t, h.kept, request)); diff != "" {
				t.Fatalf("seed %d, step %d: plans for %s (-new +kept):\n%s", seed, step, pod.Name, diff)
			}
		}
	}
	if plans < 2000 || reused < plans/2 || reused == plans {
		t.Errorf("%d plans, %d of them for a class, want 2000 or more, half of them or more for a class, and some for none", plans, reused)
	}
}

// More classes preempt than are kept, and each gets its own plan.
func TestDryRunsOfManyClasses(t *testing.T) {
	var pods []*v1.Pod
	for i := range 4 {
		pods = append(pods, smallPod(fmt.Sprint("a", i), "n1", int32(i)).Obj(), smallPod(fmt.Sprint("b", i), "n2", 2).Obj())
	}
	env := newTestEnv(t, nodes(2), pods...)
	verdicts, kept := cycle.NewEquivalenceCache(env.framework), env.planner()
	want := []string{"n1: a0", "n1: a1 a0", "n1: a2 a1 a0", "n2: b0 b1 b2 b3"}
	for round := range 3 {
		for i := range 16 {
			pod := fixture.Pod(fmt.Sprint("shop/big-", i)).Requests("cpu", fmt.Sprintf("%dm", 250*(i+1))).Priority(9).Obj()
			request, _ := env.attempt(t, pod, verdicts)
			plan, err := kept.Plan(t.Context(), request)
			if got := planString(plan); got != want[i/4] {
				t.Errorf("round %d, %dm: plan %q (%v), want %q", round, 250*(i+1), got, err, want[i/4])
			}
		}
	}
}
