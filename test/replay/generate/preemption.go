package generate

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
)

// NewPreempting returns a history of a full cluster: many pods fit only after a preemption.
// Victims leave at once or slowly, and preemptors are retried.
func NewPreempting(seed uint64, attempts int) *Generator { return newPreempting(seed, attempts, false) }

func newPreempting(seed uint64, attempts int, groups bool) *Generator {
	g := New(seed, attempts)
	g.preempting = &preempting{groups: groups}
	g.config.Preempt = true
	g.addPreemptionArgs()
	for range g.between(1, 6) {
		g.initial = append(g.initial, log.Op{Kind: log.Apply, Object: g.budget()})
	}
	g.initialNodes = draw(g.random, []weighted[int]{{50, g.between(1, 8)}, {50, g.between(9, 30)}})
	g.preempting.pods = g.initialNodes * g.between(2, 6)
	return g
}

// preempting is the additional state of such a history.
type preempting struct {
	// pods is how many pods are bound before the first attempt.
	pods int
	// victims are the pods to be evicted, by namespace/name.
	victims []string
	// groups says that groups preempt. Then each namespace has one budget: kube-scheduler
	// charges several of a pod in the order of a map.
	groups bool
}

// addPreemptionArgs gives DefaultPreemption its arguments: every node is a candidate, since
// kube-scheduler searches candidates in the order of a map.
func (g *Generator) addPreemptionArgs() {
	percentage, absolute := int32(100), int32(g.between(0, 3))
	text, err := json.Marshal(configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute})
	if err != nil {
		panic(fmt.Sprintf("generate: arguments of DefaultPreemption: %v", err)) // a mistake in this file
	}
	g.config.Profile.Spec.PluginConfig = append(g.config.Profile.Spec.PluginConfig,
		v1alpha1.PluginArguments{Name: "DefaultPreemption", Args: &runtime.RawExtension{Raw: text}})
}

// addPreemptionFields gives a pod a priority and a preemption policy.
func (g *Generator) addPreemptionFields(pod *v1.Pod) {
	if g.chance(90) {
		g.addPriority(pod)
	}
	if g.chance(6) {
		never := v1.PreemptNever
		pod.Spec.PreemptionPolicy = &never
	}
}

// uniformPod returns one of many similar pods, so that candidates are often equal. A set of
// victims with more pods can only have the same sum of priorities where the additional ones
// have the lowest priority that there is.
func (g *Generator) uniformPod() *v1.Pod {
	return fixture.Pod(fmt.Sprintf("%s/p%d", pick(g.random, namespaces), g.podCount)).SchedulerName(g.config.Profile.Name).
		Label("app", pick(g.random, apps)).Requests("cpu", pick(g.random, []string{"1", "1", "2", "4"})).
		Priority(pick(g.random, append([]int32{math.MinInt32}, priorities...))).Obj()
}

// makeUniform removes from a node what keeps uniform pods off it, but for its size.
func makeUniform(node *v1.Node) {
	node.Spec.Taints, node.Spec.Unschedulable = nil, false
	node.Status.Allocatable = fixture.Resources("cpu", "4", "memory", "8Gi", "pods", "6")
	node.Status.Capacity = node.Status.Allocatable
}

// setStartTime gives a bound pod a start time: for some the same, for some none.
func (g *Generator) setStartTime(pod *v1.Pod) {
	if g.chance(85) {
		began := metav1.NewTime(time.Date(2026, 1, 1, 0, g.IntN(3), 0, 0, time.UTC))
		pod.Status.StartTime = &began
	}
}

// preemptingEvents are the events of a full cluster.
func (g *Generator) preemptingEvents() []weighted[func() (log.Op, bool)] {
	return []weighted[func() (log.Op, bool)]{
		{100, g.schedule},
		{40, g.retry},
		{60, g.confirm},
		{40, g.bindElsewhere},
		{4, g.changeBound},
		{12, g.deletePod},
		{6, g.nominate},
		{4, g.changeNomination},
		{4, g.changeNode},
		{1, g.nodeAdded},
		{2, g.changeObject},
		{3, g.changeStorage},
		{10, g.changeBudget},
		{50, g.evictVictim},
	}
}

func (g *Generator) changeBudget() (log.Op, bool) {
	if g.chance(15) {
		return log.Op{Kind: log.Delete, Object: g.budget()}, true
	}
	return log.Op{Kind: log.Apply, Object: g.budget()}, true
}

// budget protects some pods of a namespace; some of them may be in its DisruptedPods. Its
// selector is sometimes malformed.
func (g *Generator) budget() log.Object {
	app, least := pick(g.random, apps), intstr.FromInt32(1)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(g.random, namespaces), Name: fmt.Sprintf("%s-%d", app, g.IntN(2))},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: g.selector()},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(g.between(-1, 2))},
	}
	if g.preempting.groups {
		pdb.Name = "only"
	}
	if g.chance(5) {
		pdb.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Resembles"}}}
	}
	if len(g.bound) > 0 && g.chance(30) {
		pdb.Status.DisruptedPods = map[string]metav1.Time{pick(g.random, g.bound).Name: {}}
	}
	return pdb
}

// observePreemption records the victims and the nomination, which the API server would have in
// the pod's status.
func (g *Generator) observePreemption(outcome *run.Outcome) {
	g.preempting.victims = append(g.preempting.victims, outcome.Victims...)
	if outcome.Nominated != "" {
		g.last = g.last.DeepCopy()
		g.last.Status.NominatedNodeName = outcome.Nominated
	}
}

// evictVictim deletes one of the victims, or sets its deletion timestamp.
func (g *Generator) evictVictim() (log.Op, bool) {
	name, ok := take(g, &g.preempting.victims)
	if !ok {
		return log.Op{}, false
	}
	for _, list := range []*[]*v1.Pod{&g.bound, &g.assumed} {
		for i, pod := range *list {
			if pod.Namespace+"/"+pod.Name != name {
				continue
			}
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			if g.chance(60) {
				return log.Op{Kind: log.Delete, Object: pod.DeepCopy()}, true
			}
			terminating := pod.DeepCopy()
			g.terminate(terminating)
			g.bound = append(g.bound, terminating)
			return log.Op{Kind: log.Apply, Object: terminating.DeepCopy()}, true
		}
	}
	return log.Op{}, false
}

// terminate sets the deletion timestamp of a pod, most of the time with the condition of a
// preemption.
func (g *Generator) terminate(pod *v1.Pod) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	pod.DeletionTimestamp = &now
	reason := v1.PodReasonPreemptionByScheduler
	if g.chance(20) {
		reason = v1.PodReasonTerminationByKubelet
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
}
