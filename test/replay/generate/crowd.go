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

// NewCrowded returns a history of a cluster that is full: many pods find room
// only where others leave. Who is to leave may do so, at once or slowly, and
// who was promised room comes back for it.
func NewCrowded(seed uint64, attempts int) *Generator {
	g := New(seed, attempts)
	g.crowd = &crowd{}
	g.config.Preempt = true
	g.preempts()
	for range g.between(1, 6) {
		g.before = append(g.before, log.Op{Kind: log.Apply, Object: g.budget()})
	}
	g.first = draw(g.dice, []weighted[int]{{50, g.between(1, 8)}, {50, g.between(9, 30)}})
	g.crowd.first = g.first * g.between(2, 6)
	return g
}

// crowd is what a crowded history has beside others.
type crowd struct {
	// first is how many pods are still to come before the first attempt.
	first int
	// victims are to leave, by namespace/name.
	victims []string
}

// preempts gives DefaultPreemption its arguments: every candidate counts, since
// kube-scheduler goes through them in the order of a map.
func (g *Generator) preempts() {
	percentage, absolute := int32(100), int32(g.between(0, 3))
	text, err := json.Marshal(configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute})
	if err != nil {
		panic(fmt.Sprintf("generate: arguments of DefaultPreemption: %v", err)) // a slip in this file
	}
	g.config.Profile.Spec.PluginConfig = append(g.config.Profile.Spec.PluginConfig,
		v1alpha1.PluginArguments{Name: "DefaultPreemption", Args: &runtime.RawExtension{Raw: text}})
}

// crowdPod lets a pod matter more or less than others.
func (g *Generator) crowdPod(pod *v1.Pod) {
	if g.chance(90) {
		g.addPriority(pod)
	}
	if g.chance(6) {
		never := v1.PreemptNever
		pod.Spec.PreemptionPolicy = &never
	}
}

// plainPod makes up one of many that are alike, so that nothing but chance parts
// those who would have to leave. Only by a pod of the lowest priority there is
// can one set of victims be larger than another and weigh the same.
func (g *Generator) plainPod() *v1.Pod {
	return fixture.Pod(fmt.Sprintf("%s/p%d", pick(g.dice, namespaces), g.born)).SchedulerName(g.config.Profile.Name).
		Label("app", pick(g.dice, apps)).Requests("cpu", pick(g.dice, []string{"1", "1", "2", "4"})).
		Priority(pick(g.dice, append([]int32{math.MinInt32}, priorities...))).Obj()
}

// plainNode takes away what keeps plain pods off a node, but for its size.
func plainNode(node *v1.Node) {
	node.Spec.Taints, node.Spec.Unschedulable = nil, false
	node.Status.Allocatable = fixture.Resources("cpu", "4", "memory", "8Gi", "pods", "6")
	node.Status.Capacity = node.Status.Allocatable
}

// start lets a pod on a node have begun to run: some at the same time, some not
// yet.
func (g *Generator) start(pod *v1.Pod) {
	if g.chance(85) {
		began := metav1.NewTime(time.Date(2026, 1, 1, 0, g.IntN(3), 0, 0, time.UTC))
		pod.Status.StartTime = &began
	}
}

// crowdEvents are what may happen in a crowd.
func (g *Generator) crowdEvents() []weighted[func() (log.Op, bool)] {
	return []weighted[func() (log.Op, bool)]{
		{100, g.schedule},
		{40, g.tryAgain},
		{60, g.confirm},
		{40, g.placeElsewhere},
		{4, g.changePlaced},
		{12, g.end},
		{6, g.nominate},
		{4, g.settleNomination},
		{4, g.changeNode},
		{1, g.nodeComes},
		{2, g.changeObject},
		{3, g.changeStorage},
		{10, g.changeBudget},
		{50, g.victimLeaves},
	}
}

func (g *Generator) changeBudget() (log.Op, bool) {
	if g.chance(15) {
		return log.Op{Kind: log.Delete, Object: g.budget()}, true
	}
	return log.Op{Kind: log.Apply, Object: g.budget()}, true
}

// budget protects some pods of a namespace, some of which it may have given up
// already. Its selector is malformed now and then.
func (g *Generator) budget() log.Object {
	app, least := pick(g.dice, apps), intstr.FromInt32(1)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(g.dice, namespaces), Name: fmt.Sprintf("%s-%d", app, g.IntN(2))},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: g.selector()},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(g.between(-1, 2))},
	}
	if g.chance(5) {
		pdb.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Resembles"}}}
	}
	if len(g.placed) > 0 && g.chance(30) {
		pdb.Status.DisruptedPods = map[string]metav1.Time{pick(g.dice, g.placed).Name: {}}
	}
	return pdb
}

// tellCrowd remembers who is to leave, and what the preemptor was promised: the
// API server would hold it in the pod's status.
func (g *Generator) tellCrowd(outcome *run.Outcome) {
	g.crowd.victims = append(g.crowd.victims, outcome.Victims...)
	if outcome.Nominated != "" {
		g.last = g.last.DeepCopy()
		g.last.Status.NominatedNodeName = outcome.Nominated
	}
}

// victimLeaves lets one of those who are to leave be gone, or begin to go.
func (g *Generator) victimLeaves() (log.Op, bool) {
	name, ok := take(g, &g.crowd.victims)
	if !ok {
		return log.Op{}, false
	}
	for _, list := range []*[]*v1.Pod{&g.placed, &g.assumed} {
		for i, pod := range *list {
			if pod.Namespace+"/"+pod.Name != name {
				continue
			}
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			if g.chance(60) {
				return log.Op{Kind: log.Delete, Object: pod.DeepCopy()}, true
			}
			leaving := pod.DeepCopy()
			g.leave(leaving)
			g.placed = append(g.placed, leaving)
			return log.Op{Kind: log.Apply, Object: leaving.DeepCopy()}, true
		}
	}
	return log.Op{}, false
}

// leave lets a pod terminate, most of the time because it was preempted.
func (g *Generator) leave(pod *v1.Pod) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	pod.DeletionTimestamp = &now
	reason := v1.PodReasonPreemptionByScheduler
	if g.chance(20) {
		reason = v1.PodReasonTerminationByKubelet
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
}
