package upstreamconfig

// Which plugins do what a predicate or a priority did: the legacy registry of
// kube-scheduler 1.22, the last one, brought up to the plugins of 1.37.

// ordered are the predicates in the order in which they were asked, whatever the
// order of the file.
var predicateOrder = []string{
	"CheckNodeUnschedulable", "GeneralPredicates", "HostName", "PodFitsHostPorts", "PodFitsPorts", "MatchNodeSelector",
	"PodFitsResources", "NoDiskConflict", "PodToleratesNodeTaints", "PodToleratesNodeNoExecuteTaints",
	"CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodeDiskPressure", "CheckNodePIDPressure",
	"CheckNodeLabelPresence", "CheckServiceAffinity",
	"MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxCSIVolumeCountPred", "MaxAzureDiskVolumeCount", "MaxCinderVolumeCount",
	"CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread", "MatchInterPodAffinity",
}

// filters are the plugins of each predicate.
var predicatePlugins = map[string][]string{
	"CheckNodeUnschedulable":          {"NodeUnschedulable"},
	"GeneralPredicates":               {"NodeName", "NodePorts", "NodeAffinity", "NodeResourcesFit"},
	"HostName":                        {"NodeName"},
	"PodFitsHostPorts":                {"NodePorts"},
	"PodFitsPorts":                    {"NodePorts"},
	"MatchNodeSelector":               {"NodeAffinity"},
	"PodFitsResources":                {"NodeResourcesFit"},
	"NoDiskConflict":                  {"VolumeRestrictions"},
	"PodToleratesNodeTaints":          {"TaintToleration"},
	"PodToleratesNodeNoExecuteTaints": {"TaintToleration"},
	"CheckNodeCondition":              {"TaintToleration"},
	"CheckNodeMemoryPressure":         {"TaintToleration"},
	"CheckNodeDiskPressure":           {"TaintToleration"},
	"CheckNodePIDPressure":            {"TaintToleration"},
	"CheckServiceAffinity":            {serviceAffinity},
	"MaxEBSVolumeCount":               {"NodeVolumeLimits"},
	"MaxGCEPDVolumeCount":             {"NodeVolumeLimits"},
	"MaxCSIVolumeCountPred":           {"NodeVolumeLimits"},
	"MaxAzureDiskVolumeCount":         {"NodeVolumeLimits"},
	"MaxCinderVolumeCount":            {"NodeVolumeLimits"},
	"CheckVolumeBinding":              {"VolumeBinding"},
	"NoVolumeZoneConflict":            {"VolumeZone"},
	"EvenPodsSpread":                  {"PodTopologySpread"},
	"MatchInterPodAffinity":           {"InterPodAffinity"},
}

// otherwise says of predicates and priorities what their plugin does in another
// way.
var behaviorNotes = map[string]string{
	"PodToleratesNodeNoExecuteTaints": "TaintToleration looks at NoSchedule taints, too",
	"CheckNodeCondition":              "the conditions of nodes are taints since Kubernetes 1.17, which TaintToleration looks at",
	"CheckNodeMemoryPressure":         "the conditions of nodes are taints since Kubernetes 1.17, which TaintToleration looks at",
	"CheckNodeDiskPressure":           "the conditions of nodes are taints since Kubernetes 1.17, which TaintToleration looks at",
	"CheckNodePIDPressure":            "the conditions of nodes are taints since Kubernetes 1.17, which TaintToleration looks at",
	"MaxEBSVolumeCount":               "those volumes are CSI's now, which NodeVolumeLimits counts",
	"MaxGCEPDVolumeCount":             "those volumes are CSI's now, which NodeVolumeLimits counts",
	"MaxAzureDiskVolumeCount":         "those volumes are CSI's now, which NodeVolumeLimits counts",
	"MaxCinderVolumeCount":            "those volumes are CSI's now, which NodeVolumeLimits counts",
	"SelectorSpreadPriority":          "PodTopologySpread with its own default constraints spreads the pods of a Service or owner, by another formula",
	"ServiceSpreadingPriority":        "PodTopologySpread with its own default constraints spreads the pods of a Service or owner, by another formula",
}

// mandatory are the predicates that were asked whatever the file said.
var mandatoryPredicates = []string{"PodToleratesNodeTaints", "CheckNodeUnschedulable"}

// usualPredicates and usualPriorities are those of a file that names none: the
// DefaultProvider of Kubernetes 1.15.
var (
	defaultPredicates = []string{
		"NoVolumeZoneConflict", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxAzureDiskVolumeCount", "MaxCSIVolumeCountPred",
		"MatchInterPodAffinity", "NoDiskConflict", "GeneralPredicates", "PodToleratesNodeTaints", "CheckNodeUnschedulable", "CheckVolumeBinding",
	}
	defaultPriorities = []priority{
		{Name: "SelectorSpreadPriority", Weight: 1}, {Name: "InterPodAffinityPriority", Weight: 1},
		{Name: "LeastRequestedPriority", Weight: 1}, {Name: "BalancedResourceAllocation", Weight: 1},
		{Name: "NodePreferAvoidPodsPriority", Weight: 10000}, {Name: "NodeAffinityPriority", Weight: 1},
		{Name: "TaintTolerationPriority", Weight: 1}, {Name: "ImageLocalityPriority", Weight: 1},
	}
)

// scorers is the plugin of each priority.
var priorityPlugins = map[string]string{
	"LeastRequestedPriority":           "NodeResourcesFit",
	"MostRequestedPriority":            "NodeResourcesFit",
	"RequestedToCapacityRatioPriority": "NodeResourcesFit",
	"BalancedResourceAllocation":       "NodeResourcesBalancedAllocation",
	"SelectorSpreadPriority":           "PodTopologySpread",
	"ServiceSpreadingPriority":         "PodTopologySpread",
	"EvenPodsSpreadPriority":           "PodTopologySpread",
	"InterPodAffinityPriority":         "InterPodAffinity",
	"NodeAffinityPriority":             "NodeAffinity",
	"TaintTolerationPriority":          "TaintToleration",
	"ImageLocalityPriority":            "ImageLocality",
	"NodePreferAvoidPodsPriority":      "NodePreferAvoidPods",
}

// constant is the priority that gave each node the same.
const equalPriority = "EqualPriority"

const (
	serviceAffinity  = "ServiceAffinity"
	nodeAffinity     = "NodeAffinity"
	nodeResourcesFit = "NodeResourcesFit"
	interPodAffinity = "InterPodAffinity"
)
