package framework_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestPodRequests(t *testing.T) {
	const mi = 1 << 20
	for name, c := range map[string]struct {
		pod                       *v1.Pod
		want                      framework.Resource
		scoredCPU, scoredMemoryMi int64
	}{
		"a container without requests is scored with the defaults": {
			pod:       fixture.Pod("a").Requests().Obj(),
			scoredCPU: 100, scoredMemoryMi: 200,
		},
		"each container without requests is scored with the defaults": {
			pod:       fixture.Pod("a").Requests().Requests("cpu", "1").Obj(),
			want:      framework.Resource{MilliCPU: 1000},
			scoredCPU: 1100, scoredMemoryMi: 400,
		},
		"a container that requests zero is scored with zero": {
			pod:       fixture.Pod("a").Requests("cpu", "0", "memory", "0").Obj(),
			scoredCPU: 0, scoredMemoryMi: 0,
		},
		"containers add up": {
			pod:       fixture.Pod("a").Requests("cpu", "1", "memory", "10Mi").Requests("cpu", "2", "memory", "20Mi").Obj(),
			want:      framework.Resource{MilliCPU: 3000, Memory: 30 * mi},
			scoredCPU: 3000, scoredMemoryMi: 30,
		},
		"the largest init container counts if it requests more": {
			pod: fixture.Pod("a").Requests("cpu", "1", "memory", "10Mi").
				InitRequests("cpu", "3", "memory", "5Mi").InitRequests("cpu", "2", "memory", "1Mi").Obj(),
			want:      framework.Resource{MilliCPU: 3000, Memory: 10 * mi},
			scoredCPU: 3000, scoredMemoryMi: 10,
		},
		"a sidecar adds to the containers and to the init containers after it": {
			pod: fixture.Pod("a").Requests("cpu", "1", "memory", "10Mi").
				SidecarRequests("cpu", "1", "memory", "1Mi").InitRequests("cpu", "3", "memory", "1Mi").Obj(),
			want:      framework.Resource{MilliCPU: 4000, Memory: 11 * mi},
			scoredCPU: 4000, scoredMemoryMi: 11,
		},
		"overhead adds to both": {
			pod:       fixture.Pod("a").Requests().Overhead("cpu", "50m", "memory", "1Mi").Obj(),
			want:      framework.Resource{MilliCPU: 50, Memory: mi},
			scoredCPU: 150, scoredMemoryMi: 201,
		},
		"pod-level requests replace the sum of the containers": {
			pod:       fixture.Pod("a").Requests("cpu", "1", "memory", "10Mi").PodRequests("cpu", "2").Obj(),
			want:      framework.Resource{MilliCPU: 2000, Memory: 10 * mi},
			scoredCPU: 2000, scoredMemoryMi: 10,
		},
		"with pod-level requests only resources that no one names have defaults": {
			pod:       fixture.Pod("a").Bare().Requests().PodRequests("cpu", "2").Obj(),
			want:      framework.Resource{MilliCPU: 2000},
			scoredCPU: 2000, scoredMemoryMi: 200,
		},
		"a resize in progress counts with the larger of spec and status": {
			pod: fixture.Pod("a").Requests("cpu", "1", "memory", "10Mi").Mutate(func(pod *v1.Pod) {
				pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c0",
					AllocatedResources: fixture.Resources("cpu", "3", "memory", "5Mi")}}
			}).Obj(),
			want:      framework.Resource{MilliCPU: 3000, Memory: 10 * mi},
			scoredCPU: 3000, scoredMemoryMi: 10,
		},
		"an infeasible resize counts with the status alone": {
			pod: fixture.Pod("a").Bare().Requests("cpu", "8", "memory", "10Mi").Mutate(func(pod *v1.Pod) {
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}}
				pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c0",
					AllocatedResources: fixture.Resources("cpu", "3", "memory", "5Mi")}}
			}).Obj(),
			want:      framework.Resource{MilliCPU: 3000, Memory: 5 * mi},
			scoredCPU: 3000, scoredMemoryMi: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := framework.NewPodInfo(c.pod)
			if err != nil {
				t.Fatal(err)
			}
			got := info.CalculateResource()
			if diff := cmp.Diff(&c.want, got.Resource); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got.Non0CPU != c.scoredCPU || got.Non0Mem != c.scoredMemoryMi*mi {
				t.Errorf("scored with %d millicores and %d bytes, want %d and %d Mi",
					got.Non0CPU, got.Non0Mem, c.scoredCPU, c.scoredMemoryMi)
			}
		})
	}
}

func TestAMalformedTermLeavesAUsablePodInfo(t *testing.T) {
	broken := fixture.PodAffinityTerm("zone", "app", "db")
	broken.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Nonsense"}}
	pod := fixture.Pod("shop/web").Requests("cpu", "1").
		RequirePodAffinity(broken).PreferPodAntiAffinity(5, fixture.PodAffinityTerm("zone", "app", "web")).Obj()

	info, err := framework.NewPodInfo(pod)
	if err == nil || !strings.Contains(err.Error(), "requiredAffinityTerms") {
		t.Fatalf("error %v, want one that names requiredAffinityTerms", err)
	}
	if got := info.CalculateResource().Resource.GetMilliCPU(); got != 1000 {
		t.Errorf("requests %d millicores, want 1000", got)
	}
	if len(info.GetRequiredAffinityTerms()) != 0 || len(info.GetPreferredAntiAffinityTerms()) != 1 {
		t.Errorf("terms %v and %v, want none and the valid one",
			info.GetRequiredAffinityTerms(), info.GetPreferredAntiAffinityTerms())
	}
}

func TestNoPodGivesAnErrorAndNoPodInfo(t *testing.T) {
	if info, err := framework.NewPodInfo(nil); err == nil || info != nil {
		t.Errorf("got %v, %v, want only an error", info, err)
	}
}

func TestAssignedChangesACopyOnly(t *testing.T) {
	info, err := framework.NewPodInfo(fixture.Pod("shop/web").Requests("cpu", "1").Obj())
	if err != nil {
		t.Fatal(err)
	}
	assigned := info.WithNode("n1")
	if got := assigned.GetPod().Spec.NodeName; got != "n1" {
		t.Errorf("the copy is on %q, want n1", got)
	}
	if got := info.GetPod().Spec.NodeName; got != "" {
		t.Errorf("the original is on %q, want nowhere", got)
	}
	if got, want := assigned.CalculateResource(), info.CalculateResource(); !cmp.Equal(got, want) {
		t.Errorf("the copy takes %+v, want %+v", got, want)
	}
}

func BenchmarkNewPodInfo(b *testing.B) {
	pod := fixture.Pod("shop/web").Requests("cpu", "100m", "memory", "500Mi").Obj()
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("100m")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := framework.NewPodInfo(pod); err != nil {
			b.Fatal(err)
		}
	}
}
