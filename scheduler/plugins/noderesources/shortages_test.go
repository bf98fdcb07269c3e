package noderesources

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// Filter is the plain twin: for each of its reasons there is one amount, and
// with that much more there is no reason.
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
		wants := newPodRequest(fixture.Pod("a").Requests(amounts()...).Obj(), ignoredResources{})
		lack, short := wants.insufficientResources(info), wants.appendShortages(nil, info)
		var reasons []string
		for _, s := range short {
			seen[s.Resource]++
			if s.Resource == v1.ResourcePods {
				reasons = append(reasons, reasonPods)
			} else {
				reasons = append(reasons, reasonScalarPrefix+string(s.Resource))
			}
			addAllocatable(&info.Allocatable, s.Resource, s.Requested-s.Free)
		}
		if !slices.Equal(reasons, lack.reasons) {
			t.Fatalf("short of %v, but Filter says %q", short, lack.reasons)
		}
		if lack := wants.insufficientResources(info); len(lack.reasons) > 0 {
			t.Fatalf("with all that was short, %v, Filter says %q", short, lack.reasons)
		}
	}
	if len(seen) != 5 {
		t.Errorf("some were never short: %v", seen)
	}
}

func addAllocatable(offered *framework.Resource, name v1.ResourceName, amount int64) {
	switch name {
	case v1.ResourceCPU:
		offered.MilliCPU += amount
	case v1.ResourceMemory:
		offered.Memory += amount
	case v1.ResourceEphemeralStorage:
		offered.EphemeralStorage += amount
	case v1.ResourcePods:
		offered.AllowedPodNumber += int(amount)
	default:
		offered.AddScalar(name, amount)
	}
}
