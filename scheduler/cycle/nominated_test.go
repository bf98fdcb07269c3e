package cycle_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
)

// claim returns a claim for one device; with a node, one that is allocated there.
func claim(node string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu", UID: "gpu", ResourceVersion: "1"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	if node != "" {
		c.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	return c
}

// The status of a node with nominated pods is not kept where it depends on more than the node:
// here on a claim, which loses its allocation between two attempts.
func TestStatusesThatDependOnClaimsAreNotKept(t *testing.T) {
	w := newScheduler(t, run.Config{Profile: run.DefaultProfile()})
	pod := fixture.Pod("default/late").Mutate(func(p *v1.Pod) {
		name := "gpu"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: name, ResourceClaimName: &name}}
	}).Obj()
	for _, object := range []log.Object{
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "class", ResourceVersion: "1"}},
		fixture.Node("n1").Capacity("cpu", "4").Obj(), fixture.Pod("default/early").NominatedNodeName("n1").Obj(),
	} {
		w.do(t, log.Op{Kind: log.Apply, Object: object})
	}
	for _, c := range []struct{ node, want string }{
		{"elsewhere", "resourceclaim not available on the node"},
		{"", "cannot allocate all claims"},
	} {
		w.do(t, log.Op{Kind: log.Apply, Object: claim(c.node)})
		if _, line := w.do(t, log.Op{Kind: log.Schedule, Object: pod}); !strings.Contains(line, c.want) {
			t.Errorf("the claim is allocated on %q: %s, want %q", c.node, line, c.want)
		}
	}
}
