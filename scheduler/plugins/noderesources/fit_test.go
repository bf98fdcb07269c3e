package noderesources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// newNodeInfo returns a node with pods on it.
func newNodeInfo(node *fixture.NodeBuilder, pods ...*v1.Pod) *framework.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node.Obj())
	return info
}

func newFit(t *testing.T, args configv1.NodeResourcesFitArgs) *Fit {
	t.Helper()
	DefaultFit(&args)
	plugin, err := NewFit(t.Context(), &args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Fit)
}

func TestFitFilter(t *testing.T) {
	insufficient := func(reasons ...string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reasons...) }
	unresolvable := func(reasons ...string) *fwk.Status {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...)
	}
	node := fixture.Node("n").Capacity("pods", "2", "cpu", "4", "memory", "4Gi", "ephemeral-storage", "10",
		"example.com/gpu", "2", "hugepages-2Mi", "4Mi")
	existing := fixture.Pod("there").Requests("cpu", "3", "memory", "1Gi", "example.com/gpu", "1").Obj()
	for name, c := range map[string]struct {
		pod  *fixture.PodBuilder
		on   []*v1.Pod
		args configv1.NodeResourcesFitArgs
		want *fwk.Status
	}{
		"a pod without requests fits":         {pod: fixture.Pod("a").Requests(), on: []*v1.Pod{existing}},
		"a request for all that is free fits": {pod: fixture.Pod("a").Requests("cpu", "1", "memory", "3Gi"), on: []*v1.Pod{existing}},
		"what another pod requests is not free": {
			pod: fixture.Pod("a").Requests("cpu", "1001m"), on: []*v1.Pod{existing}, want: insufficient("Insufficient cpu"),
		},
		"a request above allocatable is not resolvable": {
			pod: fixture.Pod("a").Requests("cpu", "4001m"), on: []*v1.Pod{existing}, want: unresolvable("Insufficient cpu"),
		},
		"all insufficient resources are reported, in a fixed order": {
			pod: fixture.Pod("a").Requests("cpu", "2", "memory", "4Gi", "ephemeral-storage", "11",
				"hugepages-2Mi", "8Mi", "example.com/gpu", "2"),
			on: []*v1.Pod{existing},
			want: unresolvable("Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage",
				"Insufficient example.com/gpu", "Insufficient hugepages-2Mi"),
		},
		"a node with the allowed number of pods is full for a pod without requests": {
			pod: fixture.Pod("a").Requests(), on: []*v1.Pod{fixture.Pod("b").Obj(), fixture.Pod("c").Obj()},
			want: insufficient("Too many pods"),
		},
		"an extended resource that the node does not have": {
			pod: fixture.Pod("a").Requests("example.com/nic", "1"), want: unresolvable("Insufficient example.com/nic"),
		},
		"an extended resource of which the pod requests 0": {pod: fixture.Pod("a").Requests("example.com/nic", "0")},
		"an ignored resource is not checked": {
			pod:  fixture.Pod("a").Requests("example.com/nic", "1"),
			args: configv1.NodeResourcesFitArgs{IgnoredResources: []string{"example.com/nic"}},
		},
		"a resource of an ignored group is not checked": {
			pod:  fixture.Pod("a").Requests("example.com/nic", "1"),
			args: configv1.NodeResourcesFitArgs{IgnoredResourceGroups: []string{"example.com"}},
		},
		"only extended resources can be ignored": {
			pod:  fixture.Pod("a").Requests("hugepages-2Mi", "8Mi"),
			args: configv1.NodeResourcesFitArgs{IgnoredResources: []string{"hugepages-2Mi"}},
			want: unresolvable("Insufficient hugepages-2Mi"),
		},
		"init containers and overhead count": {
			pod: fixture.Pod("a").Requests("cpu", "1").InitRequests("cpu", "3900m").Overhead("cpu", "200m"), want: unresolvable("Insufficient cpu"),
		},
		"pod-level requests count": {
			pod: fixture.Pod("a").Requests("cpu", "1").PodRequests("cpu", "5"), want: unresolvable("Insufficient cpu"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			fit, state := newFit(t, c.args), framework.NewCycleState()
			if _, status := fit.PreFilter(t.Context(), state, c.pod.Obj(), nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := fit.Filter(t.Context(), state, c.pod.Obj(), newNodeInfo(node, c.on...))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFitFilterWithoutPreFilterIsAnError(t *testing.T) {
	status := newFit(t, configv1.NodeResourcesFitArgs{}).Filter(t.Context(), framework.NewCycleState(),
		fixture.Pod("a").Obj(), newNodeInfo(fixture.Node("n")))
	if !status.IsError() {
		t.Errorf("status %v, want an error", status)
	}
}

func argsWithStrategy(kind configv1.ScoringStrategyType, resources ...configv1.ResourceSpec) configv1.NodeResourcesFitArgs {
	return configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{Type: kind, Resources: resources}}
}

// argsWithRatioStrategy returns arguments that score a node by its utilization, in
// tenths.
func argsWithRatioStrategy(resources ...configv1.ResourceSpec) configv1.NodeResourcesFitArgs {
	args := argsWithStrategy(configv1.RequestedToCapacityRatio, resources...)
	args.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{
		Shape: []configv1.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}},
	}
	return args
}

func TestFitScore(t *testing.T) {
	node := fixture.Node("n").Capacity("cpu", "4", "memory", "1000Mi", "ephemeral-storage", "100", "example.com/gpu", "8")
	cpu1, memory1 := configv1.ResourceSpec{Name: "cpu", Weight: 1}, configv1.ResourceSpec{Name: "memory", Weight: 1}
	gpu3 := configv1.ResourceSpec{Name: "example.com/gpu", Weight: 3}
	pod := fixture.Pod("a").Requests("cpu", "1", "memory", "100Mi")
	for name, c := range map[string]struct {
		args configv1.NodeResourcesFitArgs
		pod  *fixture.PodBuilder
		on   []*v1.Pod
		want int64
	}{
		"the default is the mean free fraction of cpu and memory": {pod: pod, want: (75 + 90) / 2},
		"the requests of pods on the node count": {
			pod: pod, on: []*v1.Pod{fixture.Pod("b").Requests("cpu", "1", "memory", "200Mi").Obj()}, want: (50 + 70) / 2,
		},
		"a pod without requests is scored with default requests": {pod: fixture.Pod("a").Requests(), want: (97 + 80) / 2},
		"pods without requests count with default requests":      {pod: pod, on: []*v1.Pod{fixture.Pod("b").Requests().Obj()}, want: (72 + 70) / 2},
		"a resource that would exceed allocatable scores 0": {
			pod: fixture.Pod("a").Requests("cpu", "5", "memory", "100Mi"), want: 90 / 2,
		},
		"pod-level requests do not count": {
			pod: fixture.Pod("a").Requests("cpu", "1", "memory", "100Mi").PodRequests("cpu", "4"), want: (75 + 90) / 2,
		},
		"a resource that the node does not have does not count": {
			args: argsWithStrategy(configv1.LeastAllocated, cpu1, configv1.ResourceSpec{Name: "example.com/nic", Weight: 9}),
			pod:  pod, want: 75,
		},
		"an extended resource that the pod does not request does not count": {
			args: argsWithStrategy(configv1.LeastAllocated, cpu1, gpu3), pod: pod, want: 75,
		},
		"scores are weighted": {
			args: argsWithStrategy(configv1.LeastAllocated, cpu1, gpu3),
			pod:  fixture.Pod("a").Requests("cpu", "1", "memory", "0", "example.com/gpu", "1"), want: (75 + 3*87) / 4,
		},
		"ephemeral storage counts as it is requested": {
			args: argsWithStrategy(configv1.LeastAllocated, configv1.ResourceSpec{Name: "ephemeral-storage", Weight: 1}),
			pod:  fixture.Pod("a").Requests("ephemeral-storage", "30"), want: 70,
		},
		"without a resource that counts the score is 0": {args: argsWithStrategy(configv1.LeastAllocated, gpu3), pod: pod, want: 0},
		"MostAllocated scores the used fraction":        {args: argsWithStrategy(configv1.MostAllocated, cpu1, memory1), pod: pod, want: (25 + 10) / 2},
		"MostAllocated is limited to 100": {
			args: argsWithStrategy(configv1.MostAllocated, cpu1), pod: fixture.Pod("a").Requests("cpu", "9", "memory", "1"), want: 100,
		},
		"the mean of a shape's scores is rounded": {
			args: argsWithRatioStrategy(cpu1, memory1), pod: pod, want: 18, // (25 + 10) / 2 is 17.5
		},
		"a shape's score of 0 does not count in the mean": {
			args: argsWithRatioStrategy(cpu1, memory1), pod: fixture.Pod("a").Requests("cpu", "2", "memory", "0"), want: 50,
		},
		"a shape scores utilization above 100 as 100": {
			args: argsWithRatioStrategy(cpu1), pod: fixture.Pod("a").Requests("cpu", "5"), want: 100,
		},
	} {
		for _, prepared := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", without PreScore too"}[prepared], func(t *testing.T) {
				fit, state := newFit(t, c.args), framework.NewCycleState()
				if prepared {
					fit.PreScore(t.Context(), state, c.pod.Obj(), nil)
				}
				got, status := fit.Score(t.Context(), state, c.pod.Obj(), newNodeInfo(node, c.on...))
				if got != c.want || !status.IsSuccess() {
					t.Errorf("score %d, status %v, want %d", got, status, c.want)
				}
			})
		}
	}
}

func BenchmarkFit(b *testing.B) {
	args := configv1.NodeResourcesFitArgs{}
	DefaultFit(&args)
	plugin, err := NewFit(b.Context(), &args, nil)
	if err != nil {
		b.Fatal(err)
	}
	fit, state := plugin.(*Fit), framework.NewCycleState()
	pod := fixture.Pod("a").Requests("cpu", "100m", "memory", "500Mi").Obj()
	node := newNodeInfo(fixture.Node("n").Capacity("cpu", "4", "memory", "32Gi"), pod)
	fit.PreFilter(b.Context(), state, pod, nil)
	fit.PreScore(b.Context(), state, pod, nil)
	b.ReportAllocs()
	for b.Loop() {
		if status := fit.Filter(b.Context(), state, pod, node); !status.IsSuccess() {
			b.Fatal(status)
		}
		if _, status := fit.Score(b.Context(), state, pod, node); !status.IsSuccess() {
			b.Fatal(status)
		}
	}
}
