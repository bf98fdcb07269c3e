package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fixture"
)

// failures counts the FailedScheduling Events of a pod among lines.
func failures(lines []string, pod string) (n int) {
	for _, line := range lines {
		if strings.HasPrefix(line, pod+" Warning FailedScheduling") {
			n++
		}
	}
	return n
}

// with gives pods a claim each, of their name.
func with(claim func(pod *v1.Pod) *v1.Pod, pods []runtime.Object) []runtime.Object {
	for i, pod := range pods {
		pods[i] = claim(pod.(*v1.Pod))
	}
	return pods
}

func withVolume(pod *v1.Pod) *v1.Pod {
	pod.Spec.Volumes = fixture.Pod(pod.Name).Claim(pod.Name).Obj().Spec.Volumes
	return pod
}

func withDevice(pod *v1.Pod) *v1.Pod {
	pod.Spec.ResourceClaims = fixture.Pod(pod.Name).ResourceClaim(pod.Name).Obj().Spec.ResourceClaims
	return pod
}

// A gang of two pods wants two of what there is one of, and the pod b waits for another kind.
func TestWhatAGroupGivesBackWakesNobodyIfNobodySawIt(t *testing.T) {
	for name, test := range map[string]struct {
		claim   func(*v1.Pod) *v1.Pod
		objects []runtime.Object
	}{
		"volumes": {withVolume, []runtime.Object{
			fixture.StorageClass("local", ""), fixture.StorageClass("none", ""), fixture.Volume("v", "local").Obj(),
			fixture.Claim("a-0", "local").Obj(), fixture.Claim("a-1", "local").Obj(), fixture.Claim("b", "none").Obj(),
		}},
		"devices": {withDevice, []runtime.Object{
			fixture.DeviceClass("gpu").Obj(), fixture.DeviceClass("none").Obj(), fixture.ResourceSlice("n0", "gpu.example.com").Device("d0", fixture.Attributes{}).Obj(),
			fixture.ResourceClaim("a-0").Request("r", "gpu").Obj(), fixture.ResourceClaim("a-1").Request("r", "gpu").Obj(),
			fixture.ResourceClaim("b").Request("two", "gpu").Request("of-them", "gpu").Obj(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			runWithGangs(t, func(env *testEnv) {
				env.create(test.claim(podWithCPUs("b", 1, 0).Obj()))
				env.create(with(test.claim, gang("a", 2, 2))...)
				env.wantBound(4*time.Minute, "a 0, b 0")
				lines := env.events.take()
				env.want("failures of the pod", fmt.Sprint(failures(lines, "b")), "1")
				env.want("the gang was tried again", fmt.Sprint(failures(lines, "a-0") > 1), "true")
			}, append(nodesWithCPUs(1, 16), test.objects...)...)
		})
	}
}

// A pod that is tried between two slices of a gang wants what a pod of the gang has reserved. The
// gang does not fit.
func TestWhatAGroupGivesBackWakesPodsThatSawIt(t *testing.T) {
	for name, test := range map[string]struct {
		claim   func(*v1.Pod) *v1.Pod
		objects []runtime.Object
	}{
		"a volume": {withVolume, []runtime.Object{
			fixture.StorageClass("local", ""), fixture.Volume("v", "local").Obj(), fixture.Claim("a-0", "local").Obj(), fixture.Claim("b-0", "local").Obj(),
		}},
		"a device": {withDevice, []runtime.Object{
			fixture.DeviceClass("gpu").Obj(), fixture.ResourceSlice("n0", "gpu.example.com").Device("d0", fixture.Attributes{}).Obj(),
			fixture.ResourceClaim("a-0").Request("r", "gpu").Obj(), fixture.ResourceClaim("b-0").Request("r", "gpu").Obj(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(env *testEnv, pod string) {
				if pod == "a-0" {
					env.cluster.Apply(test.claim(podWithCPUs("b-0", 0, 0).Obj()))
				}
			}
			runWithSlowGangs(t, at, func(env *testEnv) {
				env.cluster.RunVolumeController()
				pods := gang("a", 4, 4)
				pods[0] = test.claim(pods[0].(*v1.Pod))
				env.create(pods...)
				env.wantBound(time.Minute, "a 0, b 1")
				env.want("the pod was refused at first", fmt.Sprint(failures(env.events.take(), "b-0") > 0), "true")
			}, append(nodesOfCPUs(8), test.objects...)...)
		})
	}
}

// slowPermit takes a minute to reject the first attempt of pod a.
type slowPermit struct{ rejected bool }

func (*slowPermit) Name() string { return "SlowPermit" }

func (p *slowPermit) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Name != "a" || p.rejected {
		return nil, 0
	}
	p.rejected = true
	time.Sleep(time.Minute)
	return fwk.NewStatus(fwk.Unschedulable, "not this one"), 0
}

// The loop goes on without the attempt of a pod whose Permit hangs, and tries another one that wants
// what it has reserved.
func TestWhatALateAttemptGivesBackWakesPodsThatSawIt(t *testing.T) {
	plugin := &slowPermit{}
	registry, err := plugins.With(plugins.InTree(), plugins.Register("SlowPermit",
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }, plugin, nil))
	if err != nil {
		t.Fatal(err)
	}
	runTestWith(t, registry, func(env *testEnv) {
		env.cluster.RunVolumeController()
		env.profile("p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "SlowPermit"}}}})
		defer env.startLeading()()
		go env.create(owner("a"))
		time.Sleep(20 * time.Second)
		env.create(owner("b"))
		if condition := env.podScheduled("b"); !strings.HasPrefix(condition, noVolume) {
			t.Errorf("condition of b, while the attempt of a goes on: %q, want %q", condition, noVolume)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		env.want("nodes of a and b", env.nodeOf("a")+", "+env.nodeOf("b"), ", n1")
	}, oneVolume()...)
}
