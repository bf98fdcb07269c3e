package dynamicresources

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestClaimHint(t *testing.T) {
	free, allocated := claim("c").Request("r", "gpu").Obj(), claim("c").Request("r", "gpu").Allocated("n1", driver+"/n1/a-small").Obj()
	other, otherAllocated := claim("x").Obj(), claim("x").Allocated("n1", driver+"/n1/a-small").Obj()
	otherElsewhere := claim("x").Allocated("n1", driver+"/n1/a-large").Obj()
	labelled := claim("c").Request("r", "gpu").Annotation("some", "thing").Obj()
	for name, c := range map[string]struct {
		before, after any
		want          fwk.QueueingHint
	}{
		"the claim of the pod is created":                      {nil, free, fwk.Queue},
		"another claim is created":                             {nil, other, fwk.QueueSkip},
		"the claim of the pod is allocated":                    {free, allocated, fwk.Queue},
		"another claim is allocated":                           {other, otherAllocated, fwk.QueueSkip},
		"another claim gives its devices back":                 {otherAllocated, other, fwk.Queue},
		"another claim exchanges its devices for others":       {otherAllocated, otherElsewhere, fwk.Queue},
		"a change without the status":                          {free, labelled, fwk.QueueSkip},
		"a claim with devices is deleted":                      {otherAllocated, nil, fwk.Queue},
		"a claim without devices is deleted":                   {other, nil, fwk.QueueSkip},
		"a claim is deleted whose final state is not known":    {toolscache.DeletedFinalStateUnknown{Key: "default/x"}, nil, fwk.Queue},
		"an object of another kind makes the pod be tried":     {nil, &v1.Pod{}, fwk.Queue},
		"devices are given back, and the pod has all it needs": {allocated, free, fwk.Queue},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				got, _ := env.isSchedulableAfterClaimChange(klog.Background(), pod("p", "c"), c.before, c.after)
				env.want("hint", got, c.want)
				missing, _ := env.isSchedulableAfterClaimChange(klog.Background(), pod("p", "c", "missing"), c.before, c.after)
				if _, ok := c.after.(*resourceapi.ResourceClaim); ok {
					env.want("of a pod that waits for another claim", missing, fwk.QueueSkip)
				}
			}, claim("c").Request("r", "gpu").Obj())
		})
	}
}

func TestADeletedSliceWakesThePodsThatItKeptWaiting(t *testing.T) {
	more := fixture.ResourceSlice("n1", driver).Name("more").Device("d", nil)
	for name, c := range map[string]struct {
		claim   *fixture.ResourceClaimBuilder
		objects []runtime.Object
		given   []string
	}{
		"a pool with one slice too many": {
			claim: claim("c").Request("r", "gpu"), objects: []runtime.Object{more.Obj()}, given: []string{"a-small"},
		},
		"all devices, one of which another claim has": {
			claim: claim("c").Request("r", "gpu").All(), objects: []runtime.Object{
				more.Pool("more", 1, 1).Obj(), claim("other").Request("r", "gpu").Allocated("n1", driver+"/more/d").Obj(),
			},
			given: []string{"a-small", "a-large", "b-large"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.want("rejections", env.evaluate(pod("p", "c"), node("n1")).rejections, map[string]string{"n1": cannotAllocate})
				if err := env.cluster.ResourceV1().ResourceSlices().Delete(env.ctx, "more", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				env.want("devices", env.evaluate(pod("p", "c"), node("n1")).given, map[string][]string{"n1": c.given})
				events, err := env.EventsToRegister(env.ctx)
				if err != nil {
					t.Fatal(err)
				}
				env.want("the deletion is an event without a hint", slices.ContainsFunc(events, func(e fwk.ClusterEventWithHint) bool {
					return e.Event.Resource == fwk.ResourceSlice && e.Event.ActionType&fwk.Delete != 0 && e.QueueingHintFn == nil
				}), true)
			}, append(c.objects, class(), gpus("n1").Obj(), c.claim.Obj())...)
		})
	}
}

func TestTargetPodHint(t *testing.T) {
	runTest(t, func(env *testEnv) {
		before := fixture.Pod("p").ResourceClaimTemplate("gpu", "t", "").Obj()
		after := fixture.Pod("p").ResourceClaimTemplate("gpu", "t", "c").Obj()
		got, err := env.isSchedulableAfterTargetPodUpdate(klog.Background(), before, before, after)
		env.want("its claim was generated", []any{got, err}, []any{fwk.Queue, error(nil)})
		got, err = env.isSchedulableAfterTargetPodUpdate(klog.Background(), before, before, before)
		env.want("its claim was not", []any{got, err}, []any{fwk.QueueSkip, error(nil)})
	}, claim("c").OwnedBy(fixture.Pod("p").Obj()).Obj())
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		filter, binding time.Duration
		want            string
	}{
		"the defaults":                     {10 * time.Second, 600 * time.Second, ""},
		"no limit for Filter":              {0, time.Second, ""},
		"a negative time for Filter":       {-time.Second, time.Second, `filterTimeout: Invalid value: "-1s": must be zero or positive`},
		"too short a wait for the devices": {0, time.Millisecond, `bindingTimeout: Invalid value: "1ms": must be at least 1 second`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			args := &configv1.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: c.filter}, BindingTimeout: &metav1.Duration{Duration: c.binding}}
			if err := Validate(args, nil).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
