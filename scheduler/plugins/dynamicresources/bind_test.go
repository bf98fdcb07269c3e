package dynamicresources

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fakecluster"
)

func TestAPodGetsItsDevicesAndOthersDoNot(t *testing.T) {
	runTest(t, func(env *testEnv) {
		first := env.evaluate(pod("first", "c"), node("n1"))
		env.reserve(first, "n1")
		second := env.evaluate(pod("second", "d"), node("n1"))
		env.want("while the allocation is in flight", second.rejections, map[string]string{"n1": cannotAllocate})
		shared := env.evaluate(pod("third", "c"), node("n1"))
		env.want("another pod of the claim", shared.preFilter, "UnschedulableAndUnresolvable: resource claim default/c is in the process of being allocated")
		if status := env.PreBind(env.ctx, first.state, first.pod, "n1"); !status.IsSuccess() {
			t.Fatalf("PreBind: %v", status)
		}
		env.want("claims", env.claims(), []string{"c [b-large] first", "d"})
		env.want("before the informer delivers the write", env.evaluate(pod("second", "d"), node("n1")).rejections, map[string]string{"n1": cannotAllocate})
		synctest.Wait()
		env.want("after that", env.evaluate(pod("second", "d"), node("n1")).rejections, map[string]string{"n1": cannotAllocate})
		third := env.evaluate(pod("third", "c"), node("n1"), node("n2"))
		env.want("a pod that shares the claim", third.rejections, map[string]string{"n2": notAvailable})
		env.reserve(third, "n1")
		if status := env.PreBind(env.ctx, third.state, third.pod, "n1"); !status.IsSuccess() {
			t.Fatalf("PreBind: %v", status)
		}
		env.want("claims", env.claims(), []string{"c [b-large] first third", "d"})
	}, class(), gpus("n1").Obj(), claim("c").Request("r", "gpu", modelB).Obj(), claim("d").Request("r", "gpu", modelB).Obj())
}

func TestUnreserve(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		fault *fakecluster.Fault
		bind  bool
		// claims are those in the API server after Unreserve; free says that the device is.
		claims []string
		free   bool
	}{
		"before PreBind the device is given back": {claims: []string{"c", "d"}, free: true},
		"after PreBind the claim keeps it":        {bind: true, claims: []string{"c [b-large]", "d"}},
		"a write that was refused":                {bind: true, fault: &fakecluster.Fault{Verb: "updateclaim", Err: refused}, claims: []string{"c", "d"}, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(pod("p", "c"), node("n1"))
				env.reserve(a, "n1")
				if c.fault != nil {
					env.cluster.Inject(*c.fault)
				}
				if c.bind {
					if status := env.PreBind(env.ctx, a.state, a.pod, "n1"); status.IsSuccess() != (c.fault == nil) {
						t.Fatalf("PreBind: %v", status)
					}
				}
				env.Unreserve(env.ctx, a.state, a.pod, "n1")
				synctest.Wait()
				env.want("claims", env.claims(), c.claims)
				other := env.evaluate(pod("other", "d"), node("n1"))
				env.want("the device is free", len(other.rejections) == 0, c.free)
			}, class(), gpus("n1").Obj(), claim("c").Request("r", "gpu", modelB).Obj(), claim("d").Request("r", "gpu", modelB).Obj())
		})
	}
}

// The Bind of a pod may fail after its claim was deallocated, and allocated for another pod.
func TestUnreserveAfterPreBindKeepsTheAllocationOfAnotherPod(t *testing.T) {
	runTest(t, func(env *testEnv) {
		first := env.evaluate(pod("first", "c"), node("n1"))
		env.reserve(first, "n1")
		if status := env.PreBind(env.ctx, first.state, first.pod, "n1"); !status.IsSuccess() {
			t.Fatalf("PreBind: %v", status)
		}
		synctest.Wait()
		for _, stored := range env.cluster.ResourceClaims() {
			if stored.Name == "c" {
				stored.Status = resourceapi.ResourceClaimStatus{}
				env.cluster.Replace(&stored)
			}
		}
		synctest.Wait()
		env.reserve(env.evaluate(pod("second", "c"), node("n1")), "n1")
		env.Unreserve(env.ctx, first.state, first.pod, "n1")
		third := env.evaluate(pod("third", "d"), node("n1"))
		env.want("the device of the second pod", third.rejections, map[string]string{"n1": cannotAllocate})
	}, class(), gpus("n1").Obj(), claim("c").Request("r", "gpu", modelB).Obj(), claim("d").Request("r", "gpu", modelB).Obj())
}

func TestPostFilter(t *testing.T) {
	for name, c := range map[string]struct {
		claim  *resourceapi.ResourceClaim
		status string
		claims []string
	}{
		"a claim that nobody uses is deallocated":       {claim("c").Request("r", "gpu").Allocated("gone", driver+"/gone/d").Obj(), "Unschedulable: deallocation of ResourceClaim completed", []string{"c"}},
		"a claim that only the pod uses is deallocated": {claim("c").Request("r", "gpu").Allocated("gone", driver+"/gone/d").ReservedFor(pod("p")).Obj(), "Unschedulable: deallocation of ResourceClaim completed", []string{"c"}},
		"a claim that another pod uses is not":          {claim("c").Request("r", "gpu").Allocated("gone", driver+"/gone/d").ReservedFor(pod("other")).Obj(), "Unschedulable", []string{"c [d] other"}},
		"a claim that is not allocated is not":          {claim("c").Request("r", "gpu", modelB).Count(2).Obj(), "Unschedulable", []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(pod("p", "c"), node("n1"))
				if len(a.rejections) != 1 {
					t.Fatalf("the pod fits: %+v", a)
				}
				_, status := env.PostFilter(env.ctx, a.state, a.pod, nil)
				env.want("status", statusText(status), c.status)
				synctest.Wait()
				env.want("claims", env.claims(), c.claims)
			}, class(), gpus("n1").Obj(), c.claim)
		})
	}
}

func TestBindingConditions(t *testing.T) {
	setCondition := func(env *testEnv, name string) {
		for _, claim := range env.cluster.ResourceClaims() {
			claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
				Driver: driver, Pool: "n1", Device: "slow",
				Conditions: []metav1.Condition{{Type: name, Status: metav1.ConditionTrue, Reason: "Attached", Message: "by the driver"}},
			}}
			env.cluster.Replace(&claim)
		}
	}
	for name, c := range map[string]struct {
		condition string
		want      string
		took      time.Duration
		// metrics are the status, the number of waits and their seconds.
		metrics string
	}{
		"the device becomes ready":       {condition: "ready", want: "Success", took: time.Minute, metrics: "success 1 60"},
		"the device fails":               {condition: "failure", want: `Error: device binding failed: claim=c, reason=Attached, message="by the driver"`, took: time.Minute, metrics: "failure 1 60"},
		"the device never becomes ready": {want: "Error: device binding timeout: context deadline exceeded", took: 10 * time.Minute, metrics: "timeout 1 600"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(pod("p", "c"), node("n1"))
				env.reserve(a, "n1")
				if c.condition != "" {
					time.AfterFunc(time.Minute, func() { setCondition(env, c.condition) })
				}
				begin := time.Now()
				status := env.PreBind(env.ctx, a.state, a.pod, "n1")
				env.want("PreBind", statusText(status), c.want)
				env.want("it took", time.Since(begin).Round(time.Second), c.took)
				env.want("metrics", env.bindingMetrics(), c.metrics)
				env.want("event", <-env.events.Events, "Normal BindingConditionsPending waiting for binding conditions for device on node n1")
				if status.IsSuccess() {
					return
				}
				env.Unreserve(env.ctx, a.state, a.pod, "n1")
				synctest.Wait()
				if c.condition == "" {
					time.Sleep(time.Second)
				}
				again := env.evaluate(pod("p", "c"), node("n1"))
				env.want("the next attempt", again.rejections, map[string]string{"n1": notAvailable})
				_, status = env.PostFilter(env.ctx, again.state, again.pod, nil)
				env.want("PostFilter", statusText(status), "Unschedulable: deallocation of ResourceClaim completed")
			}, class(), gpus("n1").Device("slow", nil).BindingConditions("ready", "failure").Obj(),
				claim("c").Request("r", "gpu", `!("model" in device.attributes["gpu.example.com"])`).Obj())
		})
	}
}

func TestPreBindPreFlight(t *testing.T) {
	runTest(t, func(env *testEnv) {
		for _, c := range []struct {
			pod  *v1.Pod
			want string
		}{{pod("p", "c"), "Success"}, {pod("q"), "Skip"}} {
			a := env.evaluate(c.pod)
			result, status := env.PreBindPreFlight(env.ctx, a.state, c.pod, "n1")
			env.want(c.pod.Name, statusText(status), c.want)
			env.want("in parallel", result.AllowParallel, true)
		}
	}, class(), claim("c").Request("r", "gpu").Obj())
}
