package upstream

import (
	"context"

	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/replay/run"
)

// Chains returns the plugins that kube-scheduler runs for a profile at each extension point,
// in order and with their weights. The error says why it would not start.
func Chains(config run.Config) (framework.Chains, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := New(ctx, config)
	if err != nil {
		return nil, err
	}
	return s.Chains(), nil
}

// Chains returns the plugins that it runs.
func (s *Scheduler) Chains() framework.Chains {
	effective := s.framework.ListPlugins()
	chains := framework.Chains{}
	for point, set := range map[framework.Point]internal.PluginSet{
		framework.PreEnqueue: effective.PreEnqueue,
		framework.QueueSort:  effective.QueueSort,
		framework.PreFilter:  effective.PreFilter,
		framework.Filter:     effective.Filter,
		framework.PostFilter: effective.PostFilter,
		framework.PreScore:   effective.PreScore,
		framework.Score:      effective.Score,
		framework.Reserve:    effective.Reserve,
		framework.Permit:     effective.Permit,
		framework.PreBind:    effective.PreBind,
		framework.Bind:       effective.Bind,
		framework.PostBind:   effective.PostBind,

		framework.PodGroupPostFilter: effective.PodGroupPostFilter,
	} {
		for _, plugin := range set.Enabled {
			chains[point] = append(chains[point], framework.Entry{Name: plugin.Name, Weight: plugin.Weight})
		}
	}
	// It lists no plugins of PlacementFeasible: GangScheduling is there once it is built.
	for _, plugin := range s.framework.EnqueueExtensions() {
		if plugin.Name() == names.GangScheduling {
			chains[framework.PlacementFeasible] = []framework.Entry{{Name: plugin.Name()}}
			return chains
		}
	}
	delete(chains, framework.PodGroupPostFilter) // nobody calls it
	return chains
}
