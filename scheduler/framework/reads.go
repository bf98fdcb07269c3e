package framework

import v1 "k8s.io/api/core/v1"

// Facets is a set of things in the cluster that a verdict may depend on.
type Facets uint32

// The facets of a node, and of the cluster where no node holds them.
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
	// NodeImages is the images on the node, and on how many nodes each one is.
	NodeImages
	// NodePods is which pods are on the node.
	NodePods
	// NodePodCount is how many pods are on the node.
	NodePodCount
	// NodeRequested is what the pods on the node ask for.
	NodeRequested
	// NodeScored is what the pods on the node are scored with.
	NodeScored
	// NodePorts is the host ports in use.
	NodePorts
	// NodeClaims is the claims that pods on the node use.
	NodeClaims
	// NodeCount is how many nodes the snapshot has.
	NodeCount
	// DomainCounts is what Counts says about domains: the pods on all nodes,
	// and the labels and taints that put those nodes into domains and scopes.
	DomainCounts
	// NamespaceLabels is which namespaces there are, and their labels.
	NamespaceLabels
	// PodOwners is the services and controllers that a default spread
	// constraint takes its selector from.
	PodOwners
	// StorageObjects is the PersistentVolumes and their claims, StorageClasses,
	// CSINodes, CSIDrivers, CSIStorageCapacities and VolumeAttachments, and what
	// is only assumed of them.
	StorageObjects
	// ClaimsInUse is which claims the pods on all nodes use.
	ClaimsInUse
	// ScoredTogether is which other nodes are scored in the same attempt.
	ScoredTogether
)

// AllFacets lists every facet, one at a time.
var AllFacets = []Facets{
	NodeName, NodeLabels, NodeTaints, NodeUnschedulable, NodeAllocatable, NodeFeatures, NodeImages,
	NodePods, NodePodCount, NodeRequested, NodeScored, NodePorts, NodeClaims, NodeCount,
	DomainCounts, NamespaceLabels, PodOwners, StorageObjects, ClaimsInUse, ScoredTogether,
}

// Has reports whether f contains all of facets.
func (f Facets) Has(facets Facets) bool { return f&facets == facets }

// PodFacets is a set of things about a pod that a verdict may depend on.
type PodFacets uint32

// The facets of a pod that waits. Its status is none of them: a pod whose
// status says something about its resources is like no other.
const (
	// PodNodeName is spec.nodeName.
	PodNodeName PodFacets = 1 << iota
	// PodNamespace is metadata.namespace.
	PodNamespace
	// PodLabels is metadata.labels, as far as selectors name them: those of the
	// pod's own terms and constraints, of the terms of placed pods, and of the
	// services and controllers.
	PodLabels
	// PodOwner is which ReplicationController, ReplicaSet or StatefulSet
	// controls the pod.
	PodOwner
	// PodTolerations is spec.tolerations, but for their seconds.
	PodTolerations
	// PodNodeAffinity is spec.nodeSelector and spec.affinity.nodeAffinity.
	PodNodeAffinity
	// PodAffinity is spec.affinity.podAffinity and podAntiAffinity.
	PodAffinity
	// PodSpread is spec.topologySpreadConstraints.
	PodSpread
	// PodRequests is what containers, the pod as a whole and its overhead
	// request.
	PodRequests
	// PodPorts is the host ports of containers.
	PodPorts
	// PodImages is the images of containers and volumes.
	PodImages
	// PodVolumes is spec.volumes, as far as disks and claims stand behind them,
	// and the name and UID that an ephemeral one is claimed under. A plugin that
	// reads them is asked about every pod that has some, each time, as an opaque
	// one is: what it finds lasts no longer than the attempt, and it may hand it
	// on to Reserve. Of other pods it must let every node pass, and score none.
	PodVolumes
)

// Reads is what a plugin's verdicts depend on beside the plugin's arguments: a
// remembered verdict is good while this stands still.
type Reads struct {
	// Pod is what all points look at of the pod, see also PodKeyer.
	Pod PodFacets
	// Filter is what Filter looks at.
	Filter Facets
	// Score is what Score looks at before normalisation.
	Score Facets
}

// Reader is a plugin that says what its verdicts read. One that does not is
// opaque: it is asked again every time.
type ReadsDeclarer interface {
	Reads() Reads
}

// LabelSelecting is a Reader that compares pods' labels with selectors which
// stand neither in the pod nor in other pods' terms.
type LabelSelecting interface {
	// SelectedLabels adds the keys that such selectors name now.
	SelectedLabels(keys *LabelKeys)
}

// PodKeyer is a Reader that derives something from a pod which no PodFacets
// stand for. It appends it to the key of the pod's class.
type PodKeyer interface {
	AppendPodKey(key []byte, pod *v1.Pod) []byte
}
