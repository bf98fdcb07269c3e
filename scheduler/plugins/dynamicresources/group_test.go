package dynamicresources

import (
	"errors"
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
)

// Two pods of a group use one claim that is not allocated, and each one of its own.
func TestPodsOfAGroupShareAnAllocationInFlight(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		fault *fakecluster.Fault
		// bind is the order in which the pods are bound.
		bind []int
		want []string
	}{
		"the pod that allocated it is bound first":    {bind: []int{0, 1}, want: []string{"own [a-small] first", "own2 [a-large] second", "shared [b-large] first second"}},
		"the pod that shares it is bound first":       {bind: []int{1, 0}, want: []string{"own [a-small] first", "own2 [a-large] second", "shared [b-large] second first"}},
		"the bind of the pod that allocated it fails": {bind: []int{0, 1}, fault: &fakecluster.Fault{Verb: "updateclaim", Err: refused, Times: 1}, want: []string{"own", "own2 [a-large] second", "shared [b-large] second"}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.group = &framework.GroupCycleState{}
				attempts := []attempt{env.evaluate(pod("first", "shared", "own"), node("n1"), node("n2"))}
				env.reserve(attempts[0], "n1")
				attempts = append(attempts, env.evaluate(pod("second", "shared", "own2"), node("n1"), node("n2")))
				env.want("the second pod", attempts[1].rejections, map[string]string{"n2": notAvailable})
				env.reserve(attempts[1], "n1")
				// The cycle of a group undoes what it has reserved, and reserves again.
				env.Unreserve(env.ctx, attempts[1].state, attempts[1].pod, "n1")
				env.Unreserve(env.ctx, attempts[0].state, attempts[0].pod, "n1")
				for _, a := range attempts {
					env.reserve(a, "n1")
					a.state.SetGroup(nil)
				}
				env.group = nil
				env.want("a pod of no group", env.evaluate(pod("third", "shared"), node("n1")).preFilter, "UnschedulableAndUnresolvable: resource claim default/shared is in the process of being allocated")
				if c.fault != nil {
					env.cluster.Inject(*c.fault)
				}
				for _, i := range c.bind {
					a := attempts[i]
					if status := env.PreBind(env.ctx, a.state, a.pod, "n1"); !status.IsSuccess() {
						if c.fault == nil {
							t.Errorf("PreBind of %s: %v", a.pod.Name, status)
						}
						env.Unreserve(env.ctx, a.state, a.pod, "n1")
					}
				}
				synctest.Wait()
				env.want("claims", env.claims(), c.want)
			}, class(), gpus("n1").Obj(), gpus("n2").Obj(), claim("shared").Request("r", "gpu", modelB).Obj(),
				claim("own").Request("r", "gpu", modelA).Obj(), claim("own2").Request("r", "gpu", modelA).Obj())
		})
	}
}

// No pod of the group is left that needs the device.
func TestAnAllocationInFlightEndsWithTheLastPodThatSharesIt(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.group = &framework.GroupCycleState{}
		first := env.evaluate(pod("first", "shared"), node("n1"))
		env.reserve(first, "n1")
		second := env.evaluate(pod("second", "shared"), node("n1"))
		env.reserve(second, "n1")
		other := func() map[string]string { return env.evaluate(pod("other", "d"), node("n1")).rejections }
		env.want("both need it", other(), map[string]string{"n1": cannotAllocate})
		env.Unreserve(env.ctx, first.state, first.pod, "n1")
		env.want("one needs it", other(), map[string]string{"n1": cannotAllocate})
		env.Unreserve(env.ctx, second.state, second.pod, "n1")
		env.want("nobody needs it", other(), map[string]string{})
	}, class(), gpus("n1").Obj(), claim("shared").Request("r", "gpu", modelB).Obj(), claim("d").Request("r", "gpu", modelB).Obj())
}

// The claim may be deallocated after the first pod has written it: the second one writes it again.
func TestTheDevicesOfAnAllocationInFlightAreKeptForAPodThatMayStillWriteThem(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.group = &framework.GroupCycleState{}
		var attempts []attempt
		for _, name := range []string{"first", "second"} {
			a := env.evaluate(pod(name, "shared"), node("n1"))
			env.reserve(a, "n1")
			attempts = append(attempts, a)
		}
		env.group = nil
		bind := func(a attempt) {
			a.state.SetGroup(nil)
			if status := env.PreBind(env.ctx, a.state, a.pod, "n1"); !status.IsSuccess() {
				t.Fatalf("PreBind of %s: %v", a.pod.Name, status)
			}
			synctest.Wait()
		}
		other := func() map[string]string { return env.evaluate(pod("other", "d"), node("n1")).rejections }
		bind(attempts[0])
		for _, stored := range env.cluster.ResourceClaims() {
			if stored.Name == "shared" {
				stored.Status = resourceapi.ResourceClaimStatus{}
				env.cluster.Replace(&stored)
			}
		}
		synctest.Wait()
		env.want("after the deallocation", other(), map[string]string{"n1": cannotAllocate})
		bind(attempts[1])
		env.want("claims", env.claims(), []string{"d", "shared [b-large] second"})
		env.want("afterwards", other(), map[string]string{"n1": cannotAllocate})
	}, class(), gpus("n1").Obj(), claim("shared").Request("r", "gpu", modelB).Obj(), claim("d").Request("r", "gpu", modelB).Obj())
}

func TestPodGroupPostFilter(t *testing.T) {
	gone := driver + "/gone/d"
	runTest(t, func(env *testEnv) {
		env.group = &framework.GroupCycleState{}
		info := &framework.PodGroupInfo{}
		_, status := env.PodGroupPostFilter(env.ctx, env.group, info, nil)
		env.want("before any pod was tried", statusText(status), "Error: not found")
		for _, p := range []struct{ pod, claim string }{{"p0", "c0"}, {"p1", "c1"}, {"p2", "c2"}, {"p3", "fits"}} {
			info.Unscheduled = append(info.Unscheduled, env.evaluate(pod(p.pod, p.claim), node("n1")).pod)
		}
		_, status = env.PodGroupPostFilter(env.ctx, env.group, info, nil)
		env.want("status", statusText(status), "Unschedulable: deallocation and deletion of ResourceClaims completed")
		synctest.Wait()
		env.want("claims", env.claims(), []string{"c0", "c1", "c2 [d] other", "fits [d]"})
	}, class(), gpus("n1").Obj(), claim("c0").Request("r", "gpu").Allocated("gone", gone).Obj(),
		claim("c1").Request("r", "gpu").Allocated("gone", gone).ReservedFor(pod("p1")).Obj(),
		claim("c2").Request("r", "gpu").Allocated("gone", gone).ReservedFor(pod("other")).Obj(),
		claim("fits").Request("r", "gpu").Allocated("n1", driver+"/n1/d").Obj())
}
