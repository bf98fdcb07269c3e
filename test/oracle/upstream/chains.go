package upstream

import (
	"context"

	"k8s.io/client-go/informers"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/replay/run"
)

// Chains returns the plugins that kube-scheduler runs for a profile at each
// extension point, in order and with their weights. The error says why it
// would not start.
func Chains(config run.Config) (framework.Chains, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	profile, err := Profile(config)
	if err != nil {
		return nil, err
	}
	metrics.Register()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f, err := frameworkruntime.NewFramework(ctx, upstreamplugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client()), frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client(), 0)))
	if err != nil {
		return nil, err
	}
	effective := f.ListPlugins()
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
	} {
		for _, plugin := range set.Enabled {
			chains[point] = append(chains[point], framework.Entry{Name: plugin.Name, Weight: plugin.Weight})
		}
	}
	return chains, nil
}
