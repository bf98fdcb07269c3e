package probe

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Registry registers the probes under their names. A probe whose answer for
// "New" is not a success cannot be built.
func Registry(probes ...*Plugin) framework.Registry {
	registry := framework.Registry{}
	for _, p := range probes {
		registry[p.PluginName] = framework.Registration{
			Name: p.PluginName,
			New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				if answer := p.Statuses["New"]; answer != nil {
					if s := answer(); !s.IsSuccess() {
						return nil, s.AsError()
					}
				}
				return p, nil
			},
			Points: framework.Points,
		}
	}
	return registry
}

// Chains puts the probes at every extension point but without, in the given
// order and with weight 1; the first of them sorts the queue.
func Chains(probes []*Plugin, without ...framework.Point) framework.Chains {
	chains := framework.Chains{}
	for _, point := range framework.Points {
		if slices.Contains(without, point) {
			continue
		}
		for _, p := range probes {
			chains[point] = append(chains[point], framework.Entry{Name: p.PluginName, Weight: 1})
		}
	}
	if sorts := chains[framework.QueueSort]; len(sorts) > 1 {
		chains[framework.QueueSort] = sorts[:1]
	}
	return chains
}
