//go:build schedulerplugins

// Command schedulerplugins is Berth with the plugins of SIG Scheduling's repository,
// kubernetes-sigs/scheduler-plugins, each with the arguments that its documentation
// describes. make scheduler-plugins tests it.
package main

import (
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/networkoverhead"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/topologicalsort"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
	"sigs.k8s.io/scheduler-plugins/pkg/podstate"
	"sigs.k8s.io/scheduler-plugins/pkg/preemptiontoleration"
	"sigs.k8s.io/scheduler-plugins/pkg/qos"
	"sigs.k8s.io/scheduler-plugins/pkg/sysched"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	"github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

func main() {
	// CapacityScheduling and PreemptionToleration count in kube-scheduler's own
	// metrics, which are nil until somebody makes them.
	metrics.InitMetrics()
	operator.Main(registrations()...)
}

// registrations returns all plugins that the command of that repository registers.
func registrations() []framework.Registration {
	theirs := plugins.WithScheme(scheme.Scheme)
	return []framework.Registration{
		plugins.Register(capacityscheduling.Name, capacityscheduling.New, (*capacityscheduling.CapacityScheduling)(nil), nil),
		plugins.Register(coscheduling.Name, newActivatingCoscheduling, (*activatingCoscheduling)(nil), (*config.CoschedulingArgs)(nil), theirs),
		plugins.Register(loadvariationriskbalancing.Name, loadvariationriskbalancing.New,
			(*loadvariationriskbalancing.LoadVariationRiskBalancing)(nil), (*config.LoadVariationRiskBalancingArgs)(nil), theirs),
		plugins.Register(lowriskovercommitment.Name, lowriskovercommitment.New,
			(*lowriskovercommitment.LowRiskOverCommitment)(nil), (*config.LowRiskOverCommitmentArgs)(nil), theirs),
		plugins.Register(networkoverhead.Name, networkoverhead.New, (*networkoverhead.NetworkOverhead)(nil), (*config.NetworkOverheadArgs)(nil), theirs),
		plugins.Register(noderesources.AllocatableName, noderesources.NewAllocatable,
			(*noderesources.Allocatable)(nil), (*config.NodeResourcesAllocatableArgs)(nil), theirs),
		plugins.Register(noderesourcetopology.Name, noderesourcetopology.New,
			(*noderesourcetopology.TopologyMatch)(nil), (*config.NodeResourceTopologyMatchArgs)(nil), theirs),
		plugins.Register(peaks.Name, peaks.New, (*peaks.Peaks)(nil), (*config.PeaksArgs)(nil), theirs),
		plugins.Register(podstate.Name, podstate.New, (*podstate.PodState)(nil), nil),
		plugins.Register(preemptiontoleration.Name, preemptiontoleration.New,
			(*preemptiontoleration.PreemptionToleration)(nil), (*config.PreemptionTolerationArgs)(nil), theirs),
		plugins.Register(qos.Name, qos.New, (*qos.Sort)(nil), nil),
		plugins.Register(sysched.Name, sysched.New, (*sysched.SySched)(nil), (*config.SySchedArgs)(nil), theirs),
		plugins.Register(targetloadpacking.Name, targetloadpacking.New,
			(*targetloadpacking.TargetLoadPacking)(nil), (*config.TargetLoadPackingArgs)(nil), theirs),
		plugins.Register(topologicalsort.Name, topologicalsort.New,
			(*topologicalsort.TopologicalSort)(nil), (*config.TopologicalSortArgs)(nil), theirs),
	}
}
