package framework

import (
	"fmt"
	"math/rand"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// If SumRequests returns a sum, it is that of component-helpers.
func TestSumRequestsEqualsComponentHelpers(t *testing.T) {
	summed := 0
	for seed := range int64(5000) {
		rng := rand.New(rand.NewSource(seed))
		pod := &v1.Pod{}
		for range rng.Intn(4) {
			pod.Spec.Containers = append(pod.Spec.Containers, randomContainer(rng))
		}
		for range rng.Intn(4) {
			init := randomContainer(rng)
			if rng.Intn(2) == 0 {
				init.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
		}
		got, ok := SumRequests(pod)
		if !ok {
			continue
		}
		summed++
		plain := NewResource(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
		scored := NewResource(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{NonMissingContainerRequests: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(DefaultMilliCPURequest, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(DefaultMemoryRequest, resource.DecimalSI),
		}}))
		want := RequestSum{plain.MilliCPU, plain.Memory, plain.EphemeralStorage, scored.MilliCPU, scored.Memory}
		if got != want {
			t.Fatalf("seed %d: the sum is %+v, want %+v", seed, got, want)
		}
	}
	if summed < 500 {
		t.Fatalf("only %d pods were summed", summed)
	}
}

// randomContainer returns a container with random requests.
func randomContainer(rng *rand.Rand) v1.Container {
	amounts := []string{"0", "1", "100m", "1500m", "1m", "0.5m", "2Gi", "1e3", "0.1", "3n", "7M"}
	requests := v1.ResourceList{}
	for _, name := range []v1.ResourceName{"cpu", "memory", "ephemeral-storage", "example.com/gpu"} {
		if rng.Intn(4) < 2 && (name != "example.com/gpu" || rng.Intn(10) == 0) {
			requests[name] = resource.MustParse(amounts[rng.Intn(len(amounts))])
		}
	}
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests}}
}

// Pods are those of informers, which all goroutines share.
func TestAPodIsNotChangedByItsRequests(t *testing.T) {
	huge := v1.ResourceList{"hugepages-2Mi": resource.MustParse("8Ei")} // becomes the largest int64
	pod := &v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: huge}, Overhead: huge.DeepCopy()}}
	podRequests(pod)
	if amount := pod.Spec.Resources.Requests["hugepages-2Mi"]; amount.String() != "9223372036854775807" {
		t.Errorf("the pod requests %s afterwards", amount.String())
	}
}

func TestSumRequestsDeclinesOtherPods(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"overhead":                       func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{} },
		"pod-level requests":             func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{} },
		"a status that affects requests": func(p *v1.Pod) { p.Status.ContainerStatuses = make([]v1.ContainerStatus, 1) },
		"other resources":                func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["x"] = resource.MustParse("1") },
		"a fraction of a millicore":      func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1u") },
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
		if _, ok := SumRequests(pod); !ok {
			t.Fatal("a plain pod is not summed")
		}
		if change(pod); true {
			if sum, ok := SumRequests(pod); ok {
				t.Errorf("a pod with %s is summed: %s", name, fmt.Sprint(sum))
			}
		}
	}
}
