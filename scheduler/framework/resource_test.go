package framework_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

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
