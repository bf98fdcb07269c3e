package framework

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
	// ScoredTogether is which other nodes are scored in the same attempt.
	ScoredTogether
)

// AllFacets lists every facet, one at a time.
var AllFacets = []Facets{
	NodeName, NodeLabels, NodeTaints, NodeUnschedulable, NodeAllocatable, NodeFeatures, NodeImages,
	NodePods, NodePodCount, NodeRequested, NodeScored, NodePorts, NodeClaims, NodeCount,
	DomainCounts, NamespaceLabels, PodOwners, ScoredTogether,
}

// Has reports whether f contains all of facets.
func (f Facets) Has(facets Facets) bool { return f&facets == facets }

// Reads is what a plugin's verdicts on a node depend on, beside the pod and
// the plugin's arguments: a remembered verdict is good while this stands still.
type Reads struct {
	// Filter is what Filter looks at.
	Filter Facets
	// Score is what Score looks at before normalisation.
	Score Facets
}

// Reader is a plugin that says what its verdicts read. One that does not is
// opaque: it is asked again every time.
type Reader interface {
	Reads() Reads
}
