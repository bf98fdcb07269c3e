package preemption_test

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/test/fixture"
)

// town is a cluster with a framework that filters by name, taints, ports and
// room, and what a plan is made with.
type testEnv struct {
	cache     *cache.Cache
	framework *framework.Framework
	budgets   []*policyv1.PodDisruptionBudget
	offset    int32
	clock     *testingclock.FakeClock
	// percentage and absolute bound the candidates.
	percentage, absolute int32
	// extenders have a say in the plan.
	extenders []fwk.Extender
}

// extended is a Handle with extenders.
type handleWithExtenders struct {
	*framework.Framework
	extenders []fwk.Extender
}

func (e handleWithExtenders) Extenders() []fwk.Extender { return e.extenders }

func newTestEnv(t *testing.T, nodes []*v1.Node, pods ...*v1.Pod) *testEnv {
	t.Helper()
	town := &testEnv{cache: cache.New(), percentage: 100, clock: testingclock.NewFakeClock(fixture.Pod("p").StartTime(1000).Obj().Status.StartTime.Time)}
	for _, node := range nodes {
		town.cache.SetNode(node)
	}
	for _, pod := range pods {
		town.cache.SetPod(pod)
	}
	town.cache.UpdateSnapshot()
	registry := plugins.InTree()
	chains := framework.Chains{framework.QueueSort: {{Name: "PrioritySort"}}}
	for _, name := range []string{"NodeName", "TaintToleration", "NodePorts", "NodeResourcesFit"} {
		for _, point := range []framework.Point{framework.PreFilter, framework.Filter} {
			chains[point] = append(chains[point], framework.Entry{Name: name})
		}
	}
	fit := registry["NodeResourcesFit"].NewArgs()
	registry["NodeResourcesFit"].Default(fit)
	f, err := framework.New(t.Context(), framework.Config{
		Profile: "berth", Chains: chains, Args: map[string]runtime.Object{"NodeResourcesFit": fit},
	}, registry, framework.Host{
		Lister: town.cache.Snapshot(), Nominator: town.cache.Nominator, Clock: town.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	town.framework = f
	return town
}

// plan lets the pod be refused, and plans for it.
func (town *testEnv) plan(t *testing.T, pod *v1.Pod) (*framework.PreemptionPlan, error) {
	t.Helper()
	state := framework.NewCycleState()
	var walk cycle.Cycle
	_, err := walk.Run(t.Context(), cycle.Request{Framework: town.framework, Pod: pod, Snapshot: town.cache.UpdateSnapshot(), State: state})
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		t.Fatalf("the pod was to fit nowhere first, but: %v", err)
	}
	planner := preemption.NewPlanner(preemption.Options{
		Newest:        func(pod *v1.Pod) (*v1.Pod, error) { return pod, nil },
		NominatedNode: func(types.UID) string { return "" },
		Budgets:       func() ([]*policyv1.PodDisruptionBudget, error) { return town.budgets, nil },
		Offset:        func(n int32) int32 { return town.offset % n },
		Clock:         town.clock,
	})
	return planner.Plan(t.Context(), framework.PreemptionRequest{
		Handle: handleWithExtenders{town.framework, town.extenders}, State: state, Pod: pod, NodeToStatus: unfit.Diagnosis.NodeToStatus,
		MinPercentage: town.percentage, MinAbsolute: town.absolute,
	})
}

// show writes a plan as "node: victim victim".
func planString(plan *framework.PreemptionPlan) string {
	if plan == nil {
		return ""
	}
	text := plan.Node + ":"
	for _, victim := range plan.Victims {
		text += " " + victim.Name
	}
	return text
}

// nodes returns n of them, n1 first, each with 4 cpu.
func nodes(n int) []*v1.Node {
	var all []*v1.Node
	for i := 1; i <= n; i++ {
		all = append(all, fixture.Node(fmt.Sprintf("n%d", i)).Capacity("cpu", "4", "pods", "10").Obj())
	}
	return all
}

func smallPod(name, node string, priority int32) *fixture.PodBuilder {
	return fixture.Pod("shop/"+name).Requests("cpu", "1").Priority(priority).On(node)
}

func budget(name, key, value string, allowed int32) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}
