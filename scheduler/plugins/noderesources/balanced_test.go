package noderesources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func newBalanced(t *testing.T, resources ...string) *Balanced {
	t.Helper()
	args := &configv1.NodeResourcesBalancedAllocationArgs{}
	for _, name := range resources {
		args.Resources = append(args.Resources, configv1.ResourceSpec{Name: name})
	}
	DefaultBalanced(args)
	plugin, err := NewBalanced(t.Context(), args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Balanced)
}

func TestBalancedScore(t *testing.T) {
	node := fixture.Node("n").Capacity("cpu", "10", "memory", "100", "example.com/gpu", "10")
	onlyCPU := fixture.Pod("there").Requests("cpu", "6").Obj()
	for name, c := range map[string]struct {
		resources []string
		pod       *fixture.PodBuilder
		on        []*v1.Pod
		skips     bool
		want      int64
	}{
		"a pod without requests skips Score": {pod: fixture.Pod("a").Requests(), skips: true},
		"a pod that requests no scored resource skips Score": {
			pod: fixture.Pod("a").Requests("example.com/gpu", "1"), skips: true,
		},
		"equal fractions of an empty node do not change the balance": {pod: fixture.Pod("a").Requests("cpu", "5", "memory", "50"), want: 75},
		"unequal fractions of an empty node reduce the score":        {pod: fixture.Pod("a").Requests("cpu", "5"), want: 62},
		"a pod that restores the balance raises the score":           {pod: fixture.Pod("a").Requests("memory", "60"), on: []*v1.Pod{onlyCPU}, want: 90},
		"a fraction is limited to 1":                                 {pod: fixture.Pod("a").Requests("cpu", "50", "memory", "100"), want: 75},
		"containers without requests count as 0": {
			pod: fixture.Pod("a").Requests("cpu", "5", "memory", "50"), on: []*v1.Pod{fixture.Pod("b").Requests().Obj()}, want: 75,
		},
		"pod-level requests count": {
			pod: fixture.Pod("a").Requests("cpu", "1").PodRequests("cpu", "5", "memory", "50"), want: 75,
		},
		"one resource alone is balanced": {resources: []string{"cpu"}, pod: fixture.Pod("a").Requests("cpu", "5"), want: 75},
		"three resources deviate from their mean": {
			resources: []string{"cpu", "memory", "example.com/gpu"},
			pod:       fixture.Pod("a").Requests("cpu", "9", "example.com/gpu", "1"), want: 54,
		},
		"an extended resource that the pod does not request is not scored": {
			resources: []string{"cpu", "memory", "example.com/gpu"},
			pod:       fixture.Pod("a").Requests("cpu", "5", "memory", "50"), want: 75,
		},
		"a resource that the node does not have is not scored": {
			resources: []string{"cpu", "example.com/nic"},
			pod:       fixture.Pod("a").Requests("cpu", "5", "example.com/nic", "1"), want: 75,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, state := newBalanced(t, c.resources...), framework.NewCycleState()
			status := plugin.PreScore(t.Context(), state, c.pod.Obj(), nil)
			if status.IsSkip() != c.skips {
				t.Fatalf("PreScore returns %v, want a skip: %v", status, c.skips)
			}
			got, status := plugin.Score(t.Context(), state, c.pod.Obj(), newNodeInfo(node, c.on...))
			if got != c.want || !status.IsSuccess() {
				t.Errorf("score %d, status %v, want %d", got, status, c.want)
			}
		})
	}
}

func TestValidateBalanced(t *testing.T) {
	args := &configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{
		{Name: "cpu"}, {Name: "memory", Weight: 2}, {Name: "cpu", Weight: 1},
	}}
	DefaultBalanced(args)
	var fields []string
	for _, err := range ValidateBalanced(args, field.NewPath("args")) {
		fields = append(fields, err.Field)
	}
	if diff := cmp.Diff([]string{"args.resources[1].weight", "args.resources[2].name"}, fields); diff != "" {
		t.Errorf("fields with errors (-want +got):\n%s", diff)
	}
	if _, err := NewBalanced(t.Context(), args, nil); err == nil {
		t.Error("NewBalanced accepts invalid arguments")
	}
}
