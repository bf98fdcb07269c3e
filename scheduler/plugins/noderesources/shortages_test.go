package noderesources

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// Filter is the reference: each of its reasons has one amount, and with that amount
// added it accepts the node.
func TestShortagesMatchTheReasonsOfFilter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	amount := func(unit string) string { return fmt.Sprint(random.IntN(5), unit) }
	amounts := func() []string {
		return []string{"cpu", amount("00m"), "memory", amount("Mi"), "ephemeral-storage", amount("M"), "vendor.example/gpu", amount("")}
	}
	seen := map[v1.ResourceName]int{}
	for range 5000 {
		node := fixture.Node("n").Capacity(append(amounts(), "pods", amount(""))...).Obj()
		info := framework.NewNodeInfo()
		for i := range random.IntN(3) {
			placed, _ := framework.NewPodInfo(fixture.Pod(fmt.Sprint("p", i)).Requests(amounts()...).Obj())
			info.AddPodInfo(placed)
		}
		info.SetNode(node)
		request := (&Fit{}).newPodRequest(fixture.Pod("a").Requests(amounts()...).Obj())
		insufficient, shortages := request.insufficientResources(info), request.appendShortages(nil, info)
		var reasons []string
		for _, s := range shortages {
			seen[s.Resource]++
			if s.Resource == v1.ResourcePods {
				reasons = append(reasons, reasonPods)
			} else {
				reasons = append(reasons, reasonScalarPrefix+string(s.Resource))
			}
			addAllocatable(&info.Allocatable, s.Resource, s.Requested-s.Free)
		}
		if !slices.Equal(reasons, insufficient.reasons) {
			t.Fatalf("insufficient %v, but Filter returns %q", shortages, insufficient.reasons)
		}
		if insufficient := request.insufficientResources(info); len(insufficient.reasons) > 0 {
			t.Fatalf("with %v added, Filter returns %q", shortages, insufficient.reasons)
		}
	}
	if len(seen) != 5 {
		t.Errorf("some resources were never insufficient: %v", seen)
	}
}

func addAllocatable(allocatable *framework.Resource, name v1.ResourceName, amount int64) {
	switch name {
	case v1.ResourceCPU:
		allocatable.MilliCPU += amount
	case v1.ResourceMemory:
		allocatable.Memory += amount
	case v1.ResourceEphemeralStorage:
		allocatable.EphemeralStorage += amount
	case v1.ResourcePods:
		allocatable.AllowedPodNumber += int(amount)
	default:
		allocatable.AddScalar(name, amount)
	}
}
