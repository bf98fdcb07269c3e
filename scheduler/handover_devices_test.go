package scheduler

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/plugins/dynamicresources"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// oneDevice are a node with one device, the claim late between the two writes of its
// allocation, and a pod with another claim.
func oneDevice() []runtime.Object {
	return []runtime.Object{
		node("n"), podNamespace(), fixture.DeviceClass("gpu").Obj(),
		fixture.ResourceSlice("n", "gpu.example.com").Device("d0", fixture.Attributes{}).Obj(),
		fixture.ResourceClaim("late").Request("r", "gpu").Finalizer().Obj(), fixture.ResourceClaim("a").Request("r", "gpu").Obj(),
		fixture.Pod("a").SchedulerName("p").ResourceClaim("a").Obj(),
	}
}

// allocateLate sends an earlier leader's allocation of the device.
func (env *testEnv) allocateLate(known *resourceapi.ResourceClaim) error {
	late := known.DeepCopy()
	late.Status.Allocation = fixture.Allocation("n", "gpu.example.com/n/d0")
	_, err := env.cluster.ResourceV1().ResourceClaims(known.Namespace).UpdateStatus(env.ctx, late, metav1.UpdateOptions{})
	return err
}

func (env *testEnv) claim(name string) *resourceapi.ResourceClaim {
	claim, err := env.cluster.ResourceV1().ResourceClaims(v1.NamespaceDefault).Get(env.ctx, name, metav1.GetOptions{})
	env.must(err)
	return claim
}

func TestALateAllocationOfAnEarlierLeaderFails(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.run(env.blueprintWith("devices", dynamicresources.Name))
		env.setHandover(nil, []leadership.ListedObject{{Name: "n", UID: node("n").UID, ResourceVersion: "1"}})
		known := env.claim("late")
		var late error
		env.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { late = env.allocateLate(known) }})
		defer env.startLeading()()
		time.Sleep(time.Second)
		if !apierrors.IsConflict(late) {
			t.Errorf("the late allocation returned %v, and the device belongs to the claim a already", late)
		}
		if env.claim("a").Status.Allocation == nil || env.nodeOf("a") != "n" {
			t.Errorf("the pod is on %q, its claim has %v", env.nodeOf("a"), env.claim("a").Status.Allocation)
		}
	}, oneDevice()...)
}

func TestANewLeaderWaitsForClaimsThatCannotBeFenced(t *testing.T) {
	claims := resourceapi.Resource("resourceclaims")
	for name, err := range map[string]error{
		"denied by a policy": apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), "late", nil),
		"denied by a role":   apierrors.NewForbidden(claims, "late", errors.New("by the test")),
		"no webhook answers": apierrors.NewInternalError(errors.New("by the test")),
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.run(env.blueprintWith("devices", dynamicresources.Name))
				env.setHandover(nil, []leadership.ListedObject{{Name: "n", UID: node("n").UID, ResourceVersion: "1"}})
				env.cluster.Inject(fakecluster.Fault{Verb: "updateclaim", Times: 1000, Err: err})
				known := env.claim("late")
				defer env.startLeading()()
				time.Sleep(requestTimeout - time.Second)
				env.want("node of b while an allocation may be in flight", env.nodeOf("b"), "")
				env.must(env.allocateLate(known))
				time.Sleep(2 * time.Second)
				env.want("node of b a minute later", env.nodeOf("b"), "n")
				env.want("condition of a, whose device belongs to another claim", env.podScheduled("a"), "False Unschedulable: 0/1 nodes are available: 1 cannot allocate all claims.")
			}, append(oneDevice(), webPod("b"))...)
		})
	}
}

func TestANewLeaderWaitsForAllocationsThatItHasNotSeen(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.run(env.blueprintWith("devices", dynamicresources.Name))
		env.setHandover(nil, []leadership.ListedObject{{Name: "n", UID: node("n").UID, ResourceVersion: "1"}})
		late := env.claim("late")
		env.listedClaims = []leadership.ListedObject{{Namespace: late.Namespace, Name: late.Name, UID: late.UID, ResourceVersion: farVersion}}
		defer env.startLeading()()
		time.Sleep(time.Minute)
		env.want("node of a before the informer has the claim", env.nodeOf("a"), "")
		env.must(env.allocateLate(env.claim("late")))
		for known := env.claim("late"); known.ResourceVersion < farVersion; known = env.claim("late") {
			env.cluster.Replace(known)
		}
		time.Sleep(time.Second)
		env.want("condition of a, whose device belongs to another claim", env.podScheduled("a"), "False Unschedulable: 0/1 nodes are available: 1 cannot allocate all claims.")
	}, oneDevice()...)
}
