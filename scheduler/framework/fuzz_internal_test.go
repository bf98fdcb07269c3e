package framework

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/test/support/hostile"
)

// referenceRequests is the reference implementation of podRequests: the library, without the
// walks that podRequests saves.
func referenceRequests(pod *v1.Pod) (request Resource, scoredCPU, scoredMemory int64) {
	options := PodRequestOptions()
	list := resourcehelper.PodRequests(pod, options)
	request = NewResource(list)
	request.clamp()
	options.NonMissingContainerRequests = defaultRequests(pod, list)
	list = resourcehelper.PodRequests(pod, options)
	cpu, memory := list[v1.ResourceCPU], list[v1.ResourceMemory]
	return request, ClampRequest(cpu.MilliValue()), ClampRequest(memory.Value())
}

// FuzzRequests adds pods to a node, and removes them, whose amounts are negative, overflow or
// are fractions. The requests of each are those of the library within bounds, and what a node
// counts is their sum.
func FuzzRequests(f *testing.F) {
	for number := range uint64(40) {
		f.Add(hostile.Seed(number, 200))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4096 {
			return
		}
		b := hostile.New(input)
		node, sum := NewNodeInfo(), Resource{}
		node.SetNode(b.Node("n0"))
		var pods []*v1.Pod
		for i := range 1 + b.Below(4) {
			pod := b.Pod(fmt.Sprint("p", i))
			pod.Spec.NodeName = "n0"
			wantRequest, wantCPU, wantMemory := referenceRequests(pod.DeepCopy())
			before := pod.DeepCopy()
			request, cpu, memory := podRequests(pod)
			if !equality.Semantic.DeepEqual(before, pod) {
				t.Fatalf("the pod was changed:\n%s", cmp.Diff(before, pod))
			}
			if diff := cmp.Diff([]any{wantRequest.amounts(), wantCPU, wantMemory}, []any{request.amounts(), cpu, memory}); diff != "" {
				t.Fatalf("requests of %+v (-library,+fast):\n%s", pod.Spec, diff)
			}
			for name, amount := range request.amounts() {
				if amount < 0 || amount > maxPodRequest {
					t.Fatalf("%d of %s is out of bounds", amount, name)
				}
			}
			info, _ := NewPodInfo(pod) // a malformed term does not matter here
			node.AddPodInfo(info)
			sum.AddRequest(&request)
			pods = append(pods, pod)
		}
		if diff := cmp.Diff(sum.amounts(), node.Requested.amounts()); diff != "" {
			t.Fatalf("requested on the node (-sum,+counted):\n%s", diff)
		}
		for _, pod := range pods {
			if err := node.RemovePod(klog.Background(), pod); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff((&Resource{}).amounts(), node.Requested.amounts()); diff != "" || len(node.usedPorts) > 0 || len(node.GetPodsWithAffinity())+len(node.GetPodsWithRequiredAntiAffinity()) > 0 {
			t.Fatalf("left on an empty node: ports %v, pods with affinity %v, requested (-want,+got):\n%s", node.usedPorts, node.GetPodsWithAffinity(), diff)
		}
	})
}

// amounts returns all amounts other than zero, by name.
func (r *Resource) amounts() map[v1.ResourceName]int64 {
	all := map[v1.ResourceName]int64{}
	for name, amount := range r.ScalarResources {
		all[name] = amount
	}
	all[v1.ResourceCPU], all[v1.ResourceMemory], all[v1.ResourceEphemeralStorage] = r.MilliCPU, r.Memory, r.EphemeralStorage
	for name, amount := range all {
		if amount == 0 {
			delete(all, name)
		}
	}
	return all
}
