package run

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// hiding returns the registry with plugins of these names made opaque.
func hiding(registry framework.Registry, names []string) framework.Registry {
	hiding := maps.Clone(registry)
	for _, name := range names {
		registration := registry[name]
		registration.New = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := registry[name].New(ctx, args, handle)
			return opaque{plugin}, err
		}
		hiding[name] = registration
	}
	return hiding
}

// opaque is a plugin as a stranger's is: it does what the contract says, and
// nothing else is known of it. It stands in the chains that its registration
// names, and nobody asks it for more than the plugin has.
type opaque struct{ fwk.Plugin }

func (o opaque) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return o.Plugin.(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, nodes)
}

func (o opaque) PreFilterExtensions() fwk.PreFilterExtensions {
	return o.Plugin.(fwk.PreFilterPlugin).PreFilterExtensions()
}

func (o opaque) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return o.Plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, node)
}

func (o opaque) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	return o.Plugin.(fwk.PreScorePlugin).PreScore(ctx, state, pod, nodes)
}

func (o opaque) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return o.Plugin.(fwk.ScorePlugin).Score(ctx, state, pod, node)
}

func (o opaque) ScoreExtensions() fwk.ScoreExtensions {
	return o.Plugin.(fwk.ScorePlugin).ScoreExtensions()
}
