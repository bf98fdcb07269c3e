package framework_test

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// randomRequests returns random requests for some resources; amounts may be
// zero.
func randomRequests(rng *rand.Rand) []string {
	var pairs []string
	for _, name := range []string{"cpu", "memory", "example.com/gpu"} {
		if rng.Intn(3) > 0 {
			pairs = append(pairs, name, []string{"0", "1", "2", "300"}[rng.Intn(4)])
		}
	}
	return pairs
}

// randomPod returns a pod with containers of every kind, sometimes with a
// status that affects requests.
func randomPod(rng *rand.Rand) *v1.Pod {
	b := fixture.Pod("shop/web")
	for range 1 + rng.Intn(2) {
		b.Requests(randomRequests(rng)...)
	}
	for range rng.Intn(3) {
		if rng.Intn(2) == 0 {
			b.InitRequests(randomRequests(rng)...)
		} else {
			b.SidecarRequests(randomRequests(rng)...)
		}
	}
	if rng.Intn(3) == 0 {
		b.PodRequests(randomRequests(rng)...)
	}
	if rng.Intn(3) == 0 {
		b.Overhead(randomRequests(rng)...)
	}
	pod := b.Obj()
	if rng.Intn(3) == 0 {
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "c0", AllocatedResources: fixture.Resources(randomRequests(rng)...),
		}}
	}
	if rng.Intn(4) == 0 {
		pod.Status.Resources = &v1.ResourceRequirements{Requests: fixture.Resources(randomRequests(rng)...)}
	}
	if rng.Intn(4) == 0 {
		pod.Status.AllocatedResources = fixture.Resources(randomRequests(rng)...)
	}
	if rng.Intn(4) == 0 {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}}
	}
	return pod
}

// component-helpers is the reference implementation of the fast paths of
// NewPodInfo.
func TestFastPathsEqualComponentHelpers(t *testing.T) {
	assumed := fixture.Resources("cpu", "100m", "memory", "200Mi")
	for seed := range int64(2000) {
		pod := randomPod(rand.New(rand.NewSource(seed)))
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		got := info.CalculateResource()

		options := framework.PodRequestOptions()
		plain := resourcehelper.PodRequests(pod, options)
		want := framework.NewResource(plain)
		if diff := cmp.Diff(&want, got.Resource); diff != "" {
			t.Fatalf("seed %d: requests (-want +got):\n%s", seed, diff)
		}
		options.NonMissingContainerRequests = v1.ResourceList{}
		for name, quantity := range assumed {
			if _, named := plain[name]; !named || !resourcehelper.IsPodLevelRequestsSet(pod) {
				options.NonMissingContainerRequests[name] = quantity
			}
		}
		scored := framework.NewResource(resourcehelper.PodRequests(pod, options))
		if got.Non0CPU != scored.MilliCPU || got.Non0Mem != scored.Memory {
			t.Fatalf("seed %d: scored with %d and %d, want %d and %d",
				seed, got.Non0CPU, got.Non0Mem, scored.MilliCPU, scored.Memory)
		}
	}
}

func TestRequestsAreClamped(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *fixture.PodBuilder
		want framework.Resource
	}{
		"a negative request counts as zero": {
			pod:  fixture.Pod("a").Requests("cpu", "-1", "memory", "-5Gi", "ephemeral-storage", "-1", "example.com/gpu", "-2"),
			want: framework.Resource{ScalarResources: map[v1.ResourceName]int64{"example.com/gpu": 0}},
		},
		"a negative request does not reduce that of another container": {
			pod:  fixture.Pod("a").Requests("cpu", "1").Requests("cpu", "-4"),
			want: framework.Resource{},
		},
		"a negative overhead does not make the sum negative": {
			pod:  fixture.Pod("a").Requests("cpu", "1").Overhead("cpu", "-2"),
			want: framework.Resource{},
		},
		"huge requests are limited": {
			pod:  fixture.Pod("a").Requests("cpu", "9000000000000000", "memory", "9223372036854775807"),
			want: framework.Resource{MilliCPU: 1 << 50, Memory: 1 << 50},
		},
		"possible requests are not changed": {
			pod:  fixture.Pod("a").Requests("cpu", "1500m", "memory", "1Pi"),
			want: framework.Resource{MilliCPU: 1500, Memory: 1 << 50},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := framework.NewNodeInfo(c.pod.Obj())
			if diff := cmp.Diff(c.want, node.Requested); diff != "" {
				t.Errorf("on the node (-want,+got):\n%s", diff)
			}
			if scored := node.NonZeroRequested; scored.MilliCPU < 0 || scored.Memory < 0 {
				t.Errorf("negative scored requests: %+v", scored)
			}
		})
	}
}

func TestResourceCounts(t *testing.T) {
	for name, c := range map[string]struct {
		list v1.ResourceList
		want framework.Resource
	}{
		"an empty list": {},
		"native resources have their own fields": {
			list: fixture.Resources("cpu", "1500m", "memory", "2Ki", "ephemeral-storage", "3", "pods", "4"),
			want: framework.Resource{MilliCPU: 1500, Memory: 2048, EphemeralStorage: 3, AllowedPodNumber: 4},
		},
		"cpu is rounded up to a millicore": {
			list: fixture.Resources("cpu", "100u"),
			want: framework.Resource{MilliCPU: 1},
		},
		"extended resources, huge pages and attachable volumes are scalar": {
			list: fixture.Resources("example.com/gpu", "2", "hugepages-2Mi", "4Mi", "attachable-volumes-csi-x", "5"),
			want: framework.Resource{ScalarResources: map[v1.ResourceName]int64{
				"example.com/gpu": 2, "hugepages-2Mi": 4 << 20, "attachable-volumes-csi-x": 5,
			}},
		},
		"a name without a domain is not counted": {list: fixture.Resources("gpu", "2")},
		"a name that is not valid in a quota is not counted": {
			list: fixture.Resources("requests.example.com/gpu", "2", "example.com/a/b", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, framework.NewResource(c.list)); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetMaxResourceKeepsTheLargerOfEach(t *testing.T) {
	r := framework.NewResource(fixture.Resources("cpu", "2", "memory", "10", "pods", "5", "example.com/gpu", "3"))
	r.SetMaxResource(fixture.Resources("cpu", "1", "memory", "20", "pods", "9", "ephemeral-storage", "7",
		"example.com/gpu", "4", "example.com/nic", "1"))
	want := framework.Resource{MilliCPU: 2000, Memory: 20, EphemeralStorage: 7, AllowedPodNumber: 5,
		ScalarResources: map[v1.ResourceName]int64{"example.com/gpu": 4, "example.com/nic": 1}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

func TestACloneOfAResourceSharesNothing(t *testing.T) {
	r := framework.NewResource(fixture.Resources("example.com/gpu", "3"))
	clone := r.Clone()
	clone.AddScalar("example.com/gpu", 1)
	if got := r.ScalarResources["example.com/gpu"]; got != 3 {
		t.Errorf("the original has %d GPUs after its clone changed, want 3", got)
	}
}
