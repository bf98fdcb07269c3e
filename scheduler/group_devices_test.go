package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// deviceGang returns count pods, all of which have to run: each has a claim of its own, and
// shares one with the others.
func deviceGang(name string, count int) (objects []runtime.Object) {
	objects = append(objects, fixture.ResourceClaim(name+"-shared").Request("r", "gpu").Obj())
	for i := range count {
		pod := fmt.Sprintf("%s-%d", name, i)
		objects = append(objects, fixture.ResourceClaim(pod).Request("r", "gpu").Obj(),
			fixture.Pod(pod).SchedulerName("p").ResourceClaim(name+"-shared").ResourceClaim(pod).Mutate(func(p *v1.Pod) {
				p.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: name, v1alpha1.AnnotationPodGroupMinCount: fmt.Sprint(count)}
			}).Obj())
	}
	return objects
}

// givenTo returns the devices of a gang's claims, and for how many pods each is reserved.
func (env *testEnv) givenTo(gang string) string {
	var given []string
	for _, claim := range env.cluster.ResourceClaims() {
		if claim.Status.Allocation == nil || !strings.HasPrefix(claim.Name, gang+"-") {
			continue
		}
		result := claim.Status.Allocation.Devices.Results[0]
		given = append(given, fmt.Sprintf("%s %s/%s for %d", claim.Name, result.Pool, result.Device, len(claim.Status.ReservedFor)))
	}
	return strings.Join(given, ", ")
}

// Each of two nodes has three devices.
func TestGangsWithClaimsOfTheirOwnAndASharedOne(t *testing.T) {
	objects := append(nodesWithCPUs(2, 8), fixture.DeviceClass("gpu").Obj())
	for _, name := range []string{"n0", "n1"} {
		slice := fixture.ResourceSlice(name, "gpu.example.com")
		for i := range 3 {
			slice.Device(fmt.Sprint("d", i), fixture.Attributes{})
		}
		objects = append(objects, slice.Obj())
	}
	const whole = "a-0 n0/d1 for 1, a-1 n0/d2 for 1, a-shared n0/d0 for 2"
	for name, test := range map[string]struct {
		fault *fakecluster.Fault
		// count is how many pods the gang has.
		count       int
		bound, want string
	}{
		"three devices are enough for two pods":              {count: 2, bound: "a 2, b 0", want: whole},
		"three pods need a fourth on the node of the shared": {count: 3, bound: "a 0, b 0"},
		"the first write of a claim is refused":              {count: 2, fault: &fakecluster.Fault{Verb: "updateclaim", Err: errors.New("refused"), Times: 1}, bound: "a 2, b 0", want: whole},
		"the first bind fails":                               {count: 2, fault: &fakecluster.Fault{Verb: "bind", Err: errors.New("refused"), Times: 1}, bound: "a 2, b 0", want: whole},
	} {
		t.Run(name, func(t *testing.T) {
			runWithGangs(t, func(env *testEnv) {
				if test.fault != nil {
					env.cluster.Inject(*test.fault)
				}
				env.create(deviceGang("a", test.count)...)
				env.wantBound(time.Minute, test.bound)
				env.want("devices", env.givenTo("a"), test.want)
				for i := range test.count {
					env.must(env.cluster.CoreV1().Pods(metav1.NamespaceDefault).Delete(env.ctx, fmt.Sprint("a-", i), metav1.DeleteOptions{}))
				}
				for _, claim := range env.cluster.ResourceClaims() {
					claim.Status = resourceapi.ResourceClaimStatus{} // as the controller of claims does
					_, err := env.cluster.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(env.ctx, &claim, metav1.UpdateOptions{})
					env.must(err)
				}
				synctest.Wait()
				all, err := env.devices.ResourceClaims().ListAllAllocatedDevices()
				env.must(err)
				env.want("devices in use after the gang", fmt.Sprint(all.Len()), "0")
			}, objects...)
		})
	}
}
