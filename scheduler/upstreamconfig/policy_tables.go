package upstreamconfig

// The tables map predicates and priorities to plugins. They are the legacy registry of
// kube-scheduler 1.22, the last version with one, updated to the plugins of 1.37.

// predicateOrder is the order in which kube-scheduler evaluated predicates, whatever the
// order in the file.
var predicateOrder = []string{
	"CheckNodeUnschedulable", "GeneralPredicates", "HostName", "PodFitsHostPorts", "PodFitsPorts", "MatchNodeSelector",
	"PodFitsResources", "NoDiskConflict", "PodToleratesNodeTaints", "PodToleratesNodeNoExecuteTaints",
	"CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodeDiskPressure", "CheckNodePIDPressure",
	"CheckNodeLabelPresence", "CheckServiceAffinity",
	"MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxCSIVolumeCountPred", "MaxAzureDiskVolumeCount", "MaxCinderVolumeCount",
	"CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread", "MatchInterPodAffinity",
}

// predicatePlugins are the plugins that replace each predicate.
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

// behaviorNotes say where the plugin differs from the predicate or priority that it
// replaces.
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

// mandatoryPredicates are the predicates that kube-scheduler always evaluated.
var mandatoryPredicates = []string{"PodToleratesNodeTaints", "CheckNodeUnschedulable"}

// defaultPredicates and defaultPriorities apply to a file that names none: they are the
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

// priorityPlugins are the plugins that replace each priority.
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

// equalPriority is the priority that gave every node the same score.
const equalPriority = "EqualPriority"

const (
	serviceAffinity  = "ServiceAffinity"
	nodeAffinity     = "NodeAffinity"
	nodeResourcesFit = "NodeResourcesFit"
	interPodAffinity = "InterPodAffinity"
)
