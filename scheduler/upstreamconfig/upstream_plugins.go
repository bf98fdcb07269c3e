package upstreamconfig

import "slices"

// upstreamPlugins are the plugins that are compiled into kube-scheduler 1.37, with
// those behind a feature gate (pkg/scheduler/framework/plugins/names). kube-scheduler
// does not start with any other plugin.
var upstreamPlugins = []string{
	"DefaultBinder", "DefaultPreemption", "DeferredPodScheduling", "DynamicResources", "GangScheduling",
	"ImageLocality", "InterPodAffinity", "NodeAffinity", "NodeDeclaredFeatures", "NodeName", "NodePorts",
	"NodeResourcesBalancedAllocation", "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits",
	"PodGroupPodsCount", "PodTopologySpread", "PrioritySort", "SchedulingGates", "TaintToleration",
	"TopologyPlacementGenerator", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
}

// featureGates names, for the plugins that kube-scheduler 1.37 does not run by default,
// the feature gate that enables them.
var featureGates = map[string]string{
	"DeferredPodScheduling":      "InPlacePodVerticalScalingSchedulerPreemption",
	"GangScheduling":             "GenericWorkload",
	"TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
	"PodGroupPodsCount":          "TopologyAwareWorkloadScheduling",
}

// removedPlugins are plugins of earlier versions that kube-scheduler 1.37 lacks, and
// what replaces them.
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

// IsUpstreamPlugin reports whether kube-scheduler 1.37 has a plugin of this name.
func IsUpstreamPlugin(name string) bool { return slices.Contains(upstreamPlugins, name) }

// UpstreamPlugins returns the names of the plugins of kube-scheduler 1.37, sorted.
func UpstreamPlugins() []string { return slices.Clone(upstreamPlugins) }
