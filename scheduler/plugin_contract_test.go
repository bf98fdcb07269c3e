package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// makingRoom is a plugin whose PodGroupPostFilter returns a result and a nil status, which is success.
type makingRoom struct{ calls int }

func (*makingRoom) Name() string { return "MakingRoom" }

func (m *makingRoom) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	m.calls++
	return &fwk.PodGroupPostFilterResult{}, nil
}

func TestPodGroupPostFilterMayReturnANilStatus(t *testing.T) {
	plugin := &makingRoom{}
	runWithPluginForGroups(t, plugin, func(env *testEnv) {
		env.create(lowPods("n0")...) // DefaultPreemption, which is called first, has victims to try
		env.create(withPriority(9, gang("a", 3, 3))...)
		if plugin.calls == 0 {
			t.Fatal("the plugin is not called")
		}
		env.create(podWithCPUs("next", 1, 9).Obj())
		if env.nodeOf("next") == "" {
			t.Errorf("the next pod is not bound: %s", env.podScheduled("next"))
		}
	}, nodesOfCPUs(4, 4)...)
}

// podOfPlugin is a PodInfo that only knows its pod. Its other methods panic.
type podOfPlugin struct {
	fwk.PodInfo
	pod *v1.Pod
}

func (p podOfPlugin) GetPod() *v1.Pod { return p.pod }

// nominateOther nominates a pod of another scheduler, with a high priority, for one node.
func nominateOther(env *testEnv, o *faultyPlugin) {
	other := fixture.Pod("other").SchedulerName("other").Priority(1000).Obj()
	env.create(other)
	o.handle.AddNominatedPod(klog.Background(), podOfPlugin{pod: other}, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
	env.want("nominations", strings.Join(env.cache.NominatedNodes(), " "), "n1")
}

func TestThePodInfoWithWhichAPluginNominatesIsNotKept(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		nominateOther(env, o)
		env.create(faultyPod("a", "none"), faultyPod("b", "none"))
		for _, pod := range []string{"a", "b"} {
			if env.nodeOf(pod) == "" {
				t.Errorf("pod %s is not bound: %s", pod, env.podScheduled(pod))
			}
		}
	})
}

// stateOfPlugin is what the plugin writes in PreFilter. It cannot be cloned for some pods.
type stateOfPlugin struct{ clone func() }

func (s stateOfPlugin) Clone() fwk.StateData {
	s.clone()
	return s
}

// While a pod is nominated for a node, the state is cloned for that node.
func TestAStateThatCannotBeClonedCostsItsPodsOnly(t *testing.T) {
	for point, c := range map[string]struct {
		after time.Duration
		want  string
	}{
		"Clone panics": {0, `False SchedulerError: plugin "StateData" panicked in Clone: odd`},
		"Clone hangs":  {framework.CallTimeout, `False SchedulerError: plugin "StateData" did not come back from Clone within 10s`},
	} {
		t.Run(point, func(t *testing.T) {
			runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
				nominateOther(env, o)
				env.create(faultyPod("a", point), faultyPod("b", "none"))
				time.Sleep(c.after)
				synctest.Wait()
				env.want("condition", env.podScheduled("a"), c.want)
				if env.nodeOf("b") == "" {
					t.Errorf("the next pod is not bound: %s", env.podScheduled("b"))
				}
			})
		})
	}
}

func TestAPluginOfAnotherNameIsNotBuilt(t *testing.T) {
	o := newFaultyPlugin()
	registry := faultyRegistry(o)
	registry["Wrapper"] = framework.Registration{Name: "Wrapper", New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return o, nil }, Points: framework.PointsOf(o)}
	runTestWith(t, registry, func(env *testEnv) {
		b := faultyBlueprint("p", "one", false)
		b.Chains[framework.Filter] = []framework.Entry{{Name: "Wrapper"}}
		const want = `its method Name returns "Odd": must be "Wrapper", the name that it is registered under`
		if err := env.Profiles().Apply(env.ctx, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Apply returns\n  %v\nwant\n  %v", err, errors.New(want))
		}
	}, node("n1"))
}
