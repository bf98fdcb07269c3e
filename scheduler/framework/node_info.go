package framework

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// AddPodInfo counts pod in.
func (n *NodeInfo) AddPodInfo(pod fwk.PodInfo) {
	n.pods = append(n.pods, pod)
	spec := originalPod(pod)
	if hasPodAffinity(spec) {
		n.podsWithAffinity = append(n.podsWithAffinity, pod)
	}
	if hasRequiredAntiAffinity(spec) {
		n.podsWithRequiredAntiAffinity = append(n.podsWithRequiredAntiAffinity, pod)
	}
	n.applyPod(pod, 1)
}

// RemovePod counts the pod with pod's UID out, as it was when it was counted
// in. The error says that pod has no UID or is not here. It takes time
// proportional to the pods on the node.
func (n *NodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	if pod.UID == "" {
		return fmt.Errorf("pod %s/%s: metadata.uid is empty, want the UID it was added with", pod.Namespace, pod.Name)
	}
	removed := removePodByUID(&n.pods, pod.UID)
	if removed == nil {
		return fmt.Errorf("pod %s/%s with UID %s is not on node %s", pod.Namespace, pod.Name, pod.UID, n.GetName())
	}
	if hasPodAffinity(originalPod(removed)) {
		removePodByUID(&n.podsWithAffinity, pod.UID)
	}
	if hasRequiredAntiAffinity(originalPod(removed)) {
		removePodByUID(&n.podsWithRequiredAntiAffinity, pod.UID)
	}
	n.applyPod(removed, -1)
	return nil
}

// take removes the pod with uid from list and returns it, or nil. The last one
// moves into its place: upstream does so too, and the order of pods shows in
// the choice of victims.
func removePodByUID(list *[]fwk.PodInfo, uid types.UID) fwk.PodInfo {
	pods := *list
	at := slices.IndexFunc(pods, func(pod fwk.PodInfo) bool { return originalPod(pod).UID == uid })
	if at < 0 {
		return nil
	}
	taken, last := pods[at], len(pods)-1
	pods[at], pods[last] = pods[last], nil
	*list = pods[:last]
	return taken
}

// count moves every sum by sign times what pod takes.
func (n *NodeInfo) applyPod(pod fwk.PodInfo, sign int64) {
	takes := pod.CalculateResource()
	n.Requested.addSigned(takes.Resource, sign)
	n.NonZeroRequested.MilliCPU += sign * takes.Non0CPU
	n.NonZeroRequested.Memory += sign * takes.Non0Mem
	if ours, ok := pod.(*PodInfo); !ok || !ours.noPortsOrClaims {
		n.updateUsedPorts(originalPod(pod), sign)
		n.updatePVCRefCounts(originalPod(pod), sign)
	}
	n.bumpGeneration()
}

// bare says that a pod takes no ports from its node and has no claims: nothing of
// it need be looked through when it comes and goes.
func usesNoPortsOrClaims(pod *v1.Pod) bool {
	for range HostPorts(pod) {
		return false
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
			return false
		}
	}
	return true
}

func (n *NodeInfo) updateUsedPorts(pod *v1.Pod, sign int64) {
	for port := range HostPorts(pod) {
		if sign < 0 {
			n.usedPorts.Remove(port.HostIP, string(port.Protocol), port.HostPort)
			continue
		}
		if n.usedPorts == nil {
			n.usedPorts = fwk.HostPortInfo{}
		}
		n.usedPorts.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
}

func (n *NodeInfo) updatePVCRefCounts(pod *v1.Pod, sign int64) {
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		key := pod.Namespace + "/" + claim.ClaimName
		if n.pvcRefCounts == nil {
			n.pvcRefCounts = map[string]int{}
		}
		if n.pvcRefCounts[key] += int(sign); n.pvcRefCounts[key] <= 0 {
			delete(n.pvcRefCounts, key)
		}
	}
}

// HostPorts yields the ports that pod takes from its node's addresses: those
// of its containers and of init containers that keep running beside them.
func HostPorts(pod *v1.Pod) iter.Seq[*v1.ContainerPort] {
	return func(yield func(*v1.ContainerPort) bool) {
		for i := range pod.Spec.InitContainers {
			container := &pod.Spec.InitContainers[i]
			if isRestartableInitContainer(container) && !yieldHostPorts(container, yield) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yieldHostPorts(&pod.Spec.Containers[i], yield) {
				return
			}
		}
	}
}

// yieldHostPorts reports whether the reader wants more.
func yieldHostPorts(container *v1.Container, yield func(*v1.ContainerPort) bool) bool {
	for i := range container.Ports {
		if port := &container.Ports[i]; port.HostPort > 0 && !yield(port) {
			return false
		}
	}
	return true
}

func hasPodAffinity(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

func hasRequiredAntiAffinity(pod *v1.Pod) bool {
	return len(fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity)) > 0
}
