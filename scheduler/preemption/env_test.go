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
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is a cache with a framework that filters by name, taints, ports and
// resources, and the inputs of a plan.
type testEnv struct {
	cache     *cache.Cache
	framework *framework.Framework
	budgets   []*policyv1.PodDisruptionBudget
	offset    int32
	clock     *testingclock.FakeClock
	// percentage and absolute limit the candidates.
	percentage, absolute int32
	// extenders may change the plan.
	extenders []fwk.Extender
}

// handleWithExtenders is a Handle with extenders.
type handleWithExtenders struct {
	*framework.Framework
	extenders []fwk.Extender
}

func (e handleWithExtenders) Extenders() []fwk.Extender { return e.extenders }

func newTestEnv(t *testing.T, nodes []*v1.Node, pods ...*v1.Pod) *testEnv {
	t.Helper()
	env := &testEnv{cache: cache.New(), percentage: 100, clock: testingclock.NewFakeClock(fixture.Pod("p").StartTime(1000).Obj().Status.StartTime.Time)}
	for _, node := range nodes {
		env.cache.SetNode(node)
	}
	for _, pod := range pods {
		env.cache.SetPod(pod)
	}
	env.cache.UpdateSnapshot()
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
		Lister: env.cache.Snapshot(), Nominator: env.cache.Nominator, Clock: env.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	env.framework = f
	return env
}

// plan runs a scheduling cycle, which must reject the pod, and plans preemption.
func (env *testEnv) plan(t *testing.T, pod *v1.Pod) (*framework.PreemptionPlan, error) {
	t.Helper()
	state := framework.NewCycleState()
	var walk cycle.Cycle
	_, err := walk.Run(t.Context(), cycle.Request{Framework: env.framework, Pod: pod, Snapshot: env.cache.UpdateSnapshot(), State: state})
	var fitErr *framework.FitError
	if !errors.As(err, &fitErr) {
		t.Fatalf("the scheduling cycle: %v, want a FitError", err)
	}
	planner := preemption.NewPlanner(preemption.Options{
		Newest:        func(pod *v1.Pod) (*v1.Pod, error) { return pod, nil },
		NominatedNode: func(types.UID) string { return "" },
		Budgets:       func() ([]*policyv1.PodDisruptionBudget, error) { return env.budgets, nil },
		Offset:        func(n int32) int32 { return env.offset % n },
		Clock:         env.clock,
	})
	return planner.Plan(t.Context(), framework.PreemptionRequest{
		Handle: handleWithExtenders{env.framework, env.extenders}, State: state, Pod: pod, NodeToStatus: fitErr.Diagnosis.NodeToStatus,
		MinPercentage: env.percentage, MinAbsolute: env.absolute,
	})
}

// planString formats a plan as "node: victim victim".
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

// nodes returns n nodes, n1 first, each with 4 cpu.
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
