package compile

import (
	"slices"

	"github.com/berthdev/berth/scheduler/framework"
)

// defaultPlugins are what kube-scheduler 1.37 enables at multiPoint, in its
// order and with its weights (k8s.io/kubernetes/pkg/scheduler/apis/config/v1,
// feature gates at their defaults). The order is the order in which plugins are
// asked, so it decides which refusal a user reads; a weight counts only where
// the plugin scores.
var defaultPlugins = []framework.Entry{
	{Name: "SchedulingGates"},
	{Name: "PrioritySort"},
	{Name: "NodeName"},
	{Name: "NodeUnschedulable"},
	{Name: "TaintToleration", Weight: 3}, // keeping off tainted nodes outranks every taste
	{Name: "NodeAffinity", Weight: 2},
	{Name: "NodePorts"},
	{Name: "NodeResourcesFit", Weight: 1},
	{Name: "VolumeRestrictions"},
	{Name: "NodeVolumeLimits"},
	{Name: "VolumeBinding"},
	{Name: "VolumeZone"},
	{Name: "PodTopologySpread", Weight: 2},
	{Name: "InterPodAffinity", Weight: 2},
	{Name: "DynamicResources", Weight: 2}, // before DefaultPreemption: freeing an idle claim harms nobody
	{Name: "DefaultPreemption"},
	{Name: "NodeResourcesBalancedAllocation", Weight: 1},
	{Name: "ImageLocality", Weight: 1},
	{Name: "DefaultBinder"},
	{Name: "NodeDeclaredFeatures"},
}

// DefaultPlugins returns them, whether or not this build has them.
func DefaultPlugins() []framework.Entry { return slices.Clone(defaultPlugins) }

// IsDefault reports whether kube-scheduler enables a plugin of this name by
// itself, whether or not this build has it.
func IsDefault(name string) bool {
	return slices.ContainsFunc(defaultPlugins, func(e framework.Entry) bool { return e.Name == name })
}
