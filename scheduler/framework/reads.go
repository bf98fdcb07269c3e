package framework

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Facets is a set of properties of nodes and of the cluster on which a result
// of Filter or Score may depend.
type Facets uint32

// Facets of a node, then facets of the cluster that belong to no node.
const (
	// NodeName is metadata.name.
	NodeName Facets = 1 << iota
	// NodeLabels is metadata.labels.
	NodeLabels
	// NodeTaints is spec.taints.
	NodeTaints
	// NodeUnschedulable is spec.unschedulable.
	NodeUnschedulable
	// NodeAllocatable is status.allocatable.
	NodeAllocatable
	// NodeFeatures is status.declaredFeatures.
	NodeFeatures
	// NodeImages is the images on the node, and the number of nodes with each.
	NodeImages
	// NodePods is the pods on the node.
	NodePods
	// NodePodCount is the number of pods on the node.
	NodePodCount
	// NodeRequested is the requests of the pods on the node.
	NodeRequested
	// NodeScored is the requests used for scoring of the pods on the node.
	NodeScored
	// NodePorts is the used host ports.
	NodePorts
	// NodeClaims is the claims that pods on the node use.
	NodeClaims
	// NodeCount is the number of nodes in the snapshot.
	NodeCount
	// DomainCounts is the answers of Counts: the pods of all nodes, and the
	// labels and taints that determine the domains and scopes of nodes.
	DomainCounts
	// NamespaceLabels is the namespaces and their labels.
	NamespaceLabels
	// PodOwners is the services and controllers from which a default spread
	// constraint takes its selector.
	PodOwners
	// StorageObjects is PersistentVolumes and claims, StorageClasses, CSINodes,
	// CSIDrivers, CSIStorageCapacities and VolumeAttachments, including
	// assumptions about them.
	StorageObjects
	// ClaimsInUse is the PersistentVolumeClaims that the pods of all nodes use.
	ClaimsInUse
	// DeviceObjects is ResourceClaims, ResourceSlices with their taints, and
	// DeviceClasses, including what the scheduler has allocated.
	DeviceObjects
	// ScoredTogether is the other nodes scored in the same attempt.
	ScoredTogether
)

// Has reports whether f contains all of facets.
func (f Facets) Has(facets Facets) bool { return f&facets == facets }

// PodFacets is a set of properties of a pod on which a result may depend.
type PodFacets uint32

// Facets of a pending pod. Its status is none of them, because a pod whose
// status affects its requests belongs to no class.
const (
	// PodNodeName is spec.nodeName.
	PodNodeName PodFacets = 1 << iota
	// PodNamespace is metadata.namespace.
	PodNamespace
	// PodLabels is those labels whose keys are named by selectors: of the pod's
	// own terms and constraints, of the terms of assigned pods, and of services
	// and controllers.
	PodLabels
	// PodOwner is the ReplicationController, ReplicaSet or StatefulSet that
	// controls the pod.
	PodOwner
	// PodTolerations is spec.tolerations without tolerationSeconds.
	PodTolerations
	// PodNodeAffinity is spec.nodeSelector and spec.affinity.nodeAffinity.
	PodNodeAffinity
	// PodAffinity is spec.affinity.podAffinity and podAntiAffinity.
	PodAffinity
	// PodSpread is spec.topologySpreadConstraints.
	PodSpread
	// PodRequests is the requests of containers and of the pod, and its
	// overhead.
	PodRequests
	// PodPorts is the host ports of containers.
	PodPorts
	// PodImages is the images of containers and volumes.
	PodImages
	// PodVolumes is the volumes with disks or claims, and the pod's name and
	// UID, on which ephemeral claims depend. A plugin that reads them is called
	// in every attempt of a pod that has such volumes, like an opaque plugin:
	// its results hold for one attempt only, and it may pass them on to
	// Reserve. For other pods it must reject no node and score every node 0.
	PodVolumes
	// PodDevices is spec.resourceClaims, and the pod's name and UID, on which
	// generated claims depend. A plugin that reads them is called in every
	// attempt of a pod that has claims, as for PodVolumes.
	PodDevices
)

// perAttemptFacets are read in every attempt of a pod that has them.
const perAttemptFacets = PodVolumes | PodDevices

// PerAttemptFacets returns those of PodVolumes and PodDevices that the pod has.
func PerAttemptFacets(pod *v1.Pod) (facets PodFacets) {
	if len(pod.Spec.Volumes) > 0 && HasVolumes(pod) {
		facets |= PodVolumes
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		facets |= PodDevices
	}
	return facets
}

// ReadsPerAttempt reports whether a plugin reads volumes or devices of pods.
func ReadsPerAttempt(plugin fwk.Plugin) bool {
	return AffectsPlacement(plugin) && ReadsOf(plugin).Pod&perAttemptFacets != 0
}

// Reads is what a plugin's results depend on besides its arguments. A cached
// result is valid while this is unchanged.
type Reads struct {
	// Pod is what all extension points read of the pod; see also PodKeyer.
	Pod PodFacets
	// Filter is what Filter reads.
	Filter Facets
	// Score is what Score reads, before normalization.
	Score Facets
}

// ReadsDeclarer is a plugin that declares what its results depend on. A plugin
// that does not is opaque: its results are never cached.
type ReadsDeclarer interface {
	Reads() Reads
}

// ReadsOf returns the declared Reads of a plugin, zero for an opaque one.
func ReadsOf(plugin fwk.Plugin) Reads {
	if reader, ok := plugin.(ReadsDeclarer); ok {
		return reader.Reads()
	}
	return Reads{}
}
