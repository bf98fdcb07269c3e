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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is a cache with a framework that filters by name, taints, ports, resources and affinity
// between pods, and the inputs of a plan.
type testEnv struct {
	cache     *cache.Cache
	framework *framework.Framework
	budgets   []*policyv1.PodDisruptionBudget
	offset    int32
	clock     *testingclock.FakeClock
	// percentage and absolute limit the candidates.
	percentage, absolute int32
	// newest are the newest versions of pods that were changed since their attempt began.
	newest map[types.UID]*v1.Pod
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
	args := map[string]runtime.Object{}
	for _, name := range []string{"NodeName", "TaintToleration", "NodePorts", "NodeResourcesFit", "InterPodAffinity"} {
		if d := registry[name]; d.NewArgs != nil {
			args[name] = d.NewArgs()
			d.Default(args[name])
		}
		for _, point := range []framework.Point{framework.PreFilter, framework.Filter} {
			chains[point] = append(chains[point], framework.Entry{Name: name})
		}
	}
	f, err := framework.New(t.Context(), framework.Config{
		Profile: "berth", Chains: chains, Args: args,
	}, registry, framework.Host{
		Lister: env.cache.Snapshot(), Nominator: env.cache.Nominator, Clock: env.clock,
		Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
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
	request, err := env.attempt(t, pod, nil)
	if err == nil {
		t.Fatal("the scheduling cycle: success, want a FitError")
	}
	return env.planner().Plan(t.Context(), request)
}

// attempt runs a scheduling cycle. It returns its FitError, if it has one, and the request for
// preemption then.
func (env *testEnv) attempt(t *testing.T, pod *v1.Pod, verdicts *cycle.EquivalenceCache) (framework.PreemptionRequest, error) {
	t.Helper()
	state := framework.NewCycleState()
	var walk cycle.Cycle
	_, err := walk.Run(t.Context(), cycle.Request{
		Framework: env.framework, Pod: pod, Snapshot: env.cache.UpdateSnapshot(), State: state, EquivalenceCache: verdicts,
	})
	request := framework.PreemptionRequest{
		Handle: handleWithExtenders{env.framework, env.extenders}, State: state, Pod: pod,
		MinPercentage: env.percentage, MinAbsolute: env.absolute,
	}
	var fitErr *framework.FitError
	if errors.As(err, &fitErr) {
		request.NodeToStatus = fitErr.Diagnosis.NodeToStatus
	} else if err != nil {
		t.Fatalf("the scheduling cycle: %v, want a FitError", err)
	}
	return request, err
}

// planner returns a planner that has made no plan.
func (env *testEnv) planner() *preemption.Planner {
	return preemption.NewPlanner(preemption.Options{
		Newest: func(pod *v1.Pod) (*v1.Pod, error) {
			if newest := env.newest[pod.UID]; newest != nil {
				return newest, nil
			}
			return pod, nil
		},
		NominatedNode:      env.cache.NominatedNode,
		NominationsVersion: env.cache.NominationsVersion,
		Budgets:            func() ([]*policyv1.PodDisruptionBudget, error) { return env.budgets, nil },
		Offset:             func(n int32) int32 { return env.offset % n },
		Groups:             env.cache.Groups(),
		Clock:              env.clock,
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
