package upstreamconfig

import "slices"

// theirs are the plugins that kube-scheduler 1.37 has built in, whether or not a
// feature gate turns them on (pkg/scheduler/framework/plugins/names). What is not
// among them it does not start with.
var upstreamPlugins = []string{
	"DefaultBinder", "DefaultPreemption", "DeferredPodScheduling", "DynamicResources", "GangScheduling",
	"ImageLocality", "InterPodAffinity", "NodeAffinity", "NodeDeclaredFeatures", "NodeName", "NodePorts",
	"NodeResourcesBalancedAllocation", "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits",
	"PodGroupPodsCount", "PodTopologySpread", "PrioritySort", "SchedulingGates", "TaintToleration",
	"TopologyPlacementGenerator", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
}

// gated are those that kube-scheduler 1.37 runs only where a feature gate that is
// off by default is on.
var featureGates = map[string]string{
	"DeferredPodScheduling":      "InPlacePodVerticalScalingSchedulerPreemption",
	"GangScheduling":             "GenericWorkload",
	"TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
	"PodGroupPodsCount":          "TopologyAwareWorkloadScheduling",
}

// removed are plugins that a version of kube-scheduler had and 1.37 has not, and
// what does their work there.
var removedPlugins = map[string]string{
	"AzureDiskLimits":             "NodeVolumeLimits does its work: those volumes are CSI's",
	"CinderLimits":                "NodeVolumeLimits does its work: those volumes are CSI's",
	"EBSLimits":                   "NodeVolumeLimits does its work: those volumes are CSI's",
	"GCEPDLimits":                 "NodeVolumeLimits does its work: those volumes are CSI's",
	"NodeLabel":                   "addedAffinity in NodeAffinity's arguments keeps pods to nodes with labels",
	"NodeResourcesLeastAllocated": "scoringStrategy LeastAllocated in NodeResourcesFit's arguments does its work",
	"NodeResourcesMostAllocated":  "scoringStrategy MostAllocated in NodeResourcesFit's arguments does its work",
	"RequestedToCapacityRatio":    "scoringStrategy RequestedToCapacityRatio in NodeResourcesFit's arguments does its work",
	"SelectorSpread":              "PodTopologySpread with defaultingType System does its work",
}

// Theirs says whether kube-scheduler 1.37 has a plugin of this name.
func IsUpstreamPlugin(name string) bool { return slices.Contains(upstreamPlugins, name) }

// Names are the plugins that kube-scheduler 1.37 has, by name.
func UpstreamPlugins() []string { return slices.Clone(upstreamPlugins) }
