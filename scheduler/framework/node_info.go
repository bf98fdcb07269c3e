package framework

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// NodeInfo is a node and the sum of the pods on it. It is not safe for use
// while someone writes to it.
type NodeInfo struct {
	// Requested is what the pods ask for, the assumed ones included.
	Requested Resource
	// NonZeroRequested is the cpu and memory the pods are scored with: a
	// container that asks for nothing counts with the defaults.
	NonZeroRequested Resource
	// Allocatable is node.status.allocatable.
	Allocatable Resource
	// ImageStates describes the images on this node by name. The cache fills
	// it, as it alone knows on how many nodes an image is.
	ImageStates map[string]*fwk.ImageStateSummary
	// Generation grows with every change to any NodeInfo of the process: equal
	// generations mean equal contents.
	Generation int64

	node                         *v1.Node
	pods                         []fwk.PodInfo
	podsWithAffinity             []fwk.PodInfo
	podsWithRequiredAntiAffinity []fwk.PodInfo
	usedPorts                    fwk.HostPortInfo
	pvcRefCounts                 map[string]int
	declaredFeatures             ndf.FeatureSet
}

var _ fwk.NodeInfo = (*NodeInfo)(nil)

// lastGeneration counts for the whole process, so that a node that is deleted
// and added again never comes back under a generation someone remembers.
var lastGeneration atomic.Int64

// NewNodeInfo returns a NodeInfo without a node that holds pods. Pods with
// malformed affinity terms are held without those terms.
func NewNodeInfo(pods ...*v1.Pod) *NodeInfo {
	n := &NodeInfo{}
	n.bumpGeneration()
	for _, pod := range pods {
		if info, _ := NewPodInfo(pod); info != nil {
			n.AddPodInfo(info)
		}
	}
	return n
}

// Node returns the node; nil when pods arrived before it or outlived it.
func (n *NodeInfo) Node() *v1.Node {
	if n == nil {
		return nil
	}
	return n.node
}

// SetNode makes node the one described. The pods stay.
func (n *NodeInfo) SetNode(node *v1.Node) {
	n.node = node
	n.Allocatable = NewResource(node.Status.Allocatable)
	// A node may declare features that this build has never heard of; no pod
	// can be found to need them, so they are left out.
	n.declaredFeatures = ndf.DefaultFramework.TryMap(node.Status.DeclaredFeatures)
	n.bumpGeneration()
}

// RemoveNode forgets the node and keeps its pods, whose deletions may still be
// under way.
func (n *NodeInfo) RemoveNode() {
	n.node = nil
	n.bumpGeneration()
}

// Snapshot returns a copy that shares only what never changes: the node, the
// pods, and nothing that a writer of n touches. Image summaries keep their
// numbers and lose their node names.
func (n *NodeInfo) Snapshot() fwk.NodeInfo { return n.Clone() }

// Clone is Snapshot with its concrete type.
func (n *NodeInfo) Clone() *NodeInfo {
	clone := *n
	clone.Requested = n.Requested.Clone()
	clone.NonZeroRequested = n.NonZeroRequested.Clone()
	clone.Allocatable = n.Allocatable.Clone()
	clone.declaredFeatures = n.declaredFeatures.Clone()
	clone.pods = slices.Clone(n.pods)
	clone.podsWithAffinity = slices.Clone(n.podsWithAffinity)
	clone.podsWithRequiredAntiAffinity = slices.Clone(n.podsWithRequiredAntiAffinity)
	clone.usedPorts = clonePorts(n.usedPorts)
	clone.pvcRefCounts = maps.Clone(n.pvcRefCounts)
	if n.ImageStates != nil {
		clone.ImageStates = make(map[string]*fwk.ImageStateSummary, len(n.ImageStates))
		for name, state := range n.ImageStates {
			clone.ImageStates[name] = state.Snapshot()
		}
	}
	return &clone
}

func clonePorts(ports fwk.HostPortInfo) fwk.HostPortInfo {
	if ports == nil {
		return nil
	}
	clone := make(fwk.HostPortInfo, len(ports))
	for ip, taken := range ports {
		clone[ip] = maps.Clone(taken)
	}
	return clone
}

func (n *NodeInfo) bumpGeneration() { n.Generation = lastGeneration.Add(1) }

// GetPods returns the pods on the node.
func (n *NodeInfo) GetPods() []fwk.PodInfo { return n.pods }

// GetPodsWithAffinity returns the pods with inter-pod affinity or anti-affinity.
func (n *NodeInfo) GetPodsWithAffinity() []fwk.PodInfo { return n.podsWithAffinity }

// GetPodsWithRequiredAntiAffinity returns the pods with required anti-affinity.
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo {
	return n.podsWithRequiredAntiAffinity
}

// GetPodsWithRequiredNonHostScopedAntiAffinity is empty, as the contract asks
// while the gate InterPodAffinityHostnameFastPath is off; it is off in 1.37.
func (n *NodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []fwk.PodInfo { return nil }

// GetUsedPorts returns the host ports in use; nil while there are none.
func (n *NodeInfo) GetUsedPorts() fwk.HostPortInfo { return n.usedPorts }

// GetRequested returns the live sum of what the pods ask for.
func (n *NodeInfo) GetRequested() fwk.Resource { return &n.Requested }

// GetNonZeroRequested returns the live sum of what the pods are scored with.
func (n *NodeInfo) GetNonZeroRequested() fwk.Resource { return &n.NonZeroRequested }

// GetAllocatable returns what the node offers to pods.
func (n *NodeInfo) GetAllocatable() fwk.Resource { return &n.Allocatable }

// GetImageStates returns the images on the node by name; may be nil.
func (n *NodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary { return n.ImageStates }

// GetPVCRefCounts returns how many pods here use each claim, by
// "namespace/name"; may be nil.
func (n *NodeInfo) GetPVCRefCounts() map[string]int { return n.pvcRefCounts }

// GetGeneration returns Generation.
func (n *NodeInfo) GetGeneration() int64 { return n.Generation }

// GetNodeDeclaredFeatures returns the known features that the node declares.
func (n *NodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet { return n.declaredFeatures }

// GetName returns the node's name for structured logs (klog.KMetadata).
func (n *NodeInfo) GetName() string {
	if node := n.Node(); node != nil {
		return node.Name
	}
	return "<no node>"
}

// GetNamespace is empty, since nodes have none.
func (n *NodeInfo) GetNamespace() string { return "" }

var _ klog.KMetadata = (*NodeInfo)(nil)

// String describes n on one line for logs and test failures.
func (n *NodeInfo) String() string {
	names := make([]string, len(n.pods))
	for i, pod := range n.pods {
		names[i] = pod.GetPod().Name
	}
	return fmt.Sprintf("node %s: pods %v, requested %+v, scored %+v, allocatable %+v, ports %v",
		n.GetName(), names, n.Requested, n.NonZeroRequested, n.Allocatable, n.usedPorts)
}
