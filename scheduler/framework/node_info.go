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

// NodeInfo is a node and the sums over its pods. It is not safe for concurrent
// use with a writer.
type NodeInfo struct {
	// Requested is the sum of the pods' requests, assumed pods included.
	Requested Resource
	// NonZeroRequested is the cpu and memory used for scoring: containers
	// without requests count with defaults.
	NonZeroRequested Resource
	// Allocatable is node.status.allocatable.
	Allocatable Resource
	// ImageStates are the images on the node by name. The cache sets it, since
	// it knows on how many nodes an image is.
	ImageStates map[string]*fwk.ImageStateSummary
	// Generation increases with every change of any NodeInfo in the process:
	// equal generations mean equal contents.
	Generation int64

	node                         *v1.Node
	pods                         []fwk.PodInfo
	podsWithAffinity             []fwk.PodInfo
	podsWithRequiredAntiAffinity []fwk.PodInfo
	usedPorts                    fwk.HostPortInfo
	// pvcRefCounts is the number of pods that use each claim, by
	// "namespace/name".
	pvcRefCounts     map[string]int
	declaredFeatures ndf.FeatureSet
}

var _ fwk.NodeInfo = (*NodeInfo)(nil)

// lastGeneration is shared by the whole process, so that a node that is deleted
// and added again never gets a generation that it had before.
var lastGeneration atomic.Int64

// NewNodeInfo returns a NodeInfo with pods and without a node. Malformed
// affinity terms of the pods are left out.
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

// Node returns the node; nil if pods were added before the node, or remain
// after its deletion.
func (n *NodeInfo) Node() *v1.Node {
	if n == nil {
		return nil
	}
	return n.node
}

// SetNode sets the node and keeps the pods.
func (n *NodeInfo) SetNode(node *v1.Node) {
	n.node = node
	n.Allocatable = NewResource(node.Status.Allocatable)
	// Features that this build does not know are left out: no pod can be found
	// to require them.
	n.declaredFeatures = ndf.DefaultFramework.TryMap(node.Status.DeclaredFeatures)
	n.bumpGeneration()
}

// RemoveNode removes the node and keeps its pods, whose deletion events may
// come later.
func (n *NodeInfo) RemoveNode() {
	n.node = nil
	n.bumpGeneration()
}

// Snapshot returns a copy that shares only immutable objects with n. Image
// summaries keep the number of nodes but not their names.
func (n *NodeInfo) Snapshot() fwk.NodeInfo { return n.Clone() }

// Clone is Snapshot with the concrete type.
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
	for ip, removed := range ports {
		clone[ip] = maps.Clone(removed)
	}
	return clone
}

func (n *NodeInfo) bumpGeneration() { n.Generation = lastGeneration.Add(1) }

func (n *NodeInfo) GetPods() []fwk.PodInfo             { return n.pods }
func (n *NodeInfo) GetPodsWithAffinity() []fwk.PodInfo { return n.podsWithAffinity }
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo {
	return n.podsWithRequiredAntiAffinity
}

// GetPodsWithRequiredNonHostScopedAntiAffinity is empty, as the contract
// requires while the feature gate InterPodAffinityHostnameFastPath is off, as
// in 1.37.
func (n *NodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []fwk.PodInfo { return nil }

// Resources are returned as pointers into n; maps may be nil.

func (n *NodeInfo) GetUsedPorts() fwk.HostPortInfo                    { return n.usedPorts }
func (n *NodeInfo) GetRequested() fwk.Resource                        { return &n.Requested }
func (n *NodeInfo) GetNonZeroRequested() fwk.Resource                 { return &n.NonZeroRequested }
func (n *NodeInfo) GetAllocatable() fwk.Resource                      { return &n.Allocatable }
func (n *NodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary { return n.ImageStates }
func (n *NodeInfo) GetPVCRefCounts() map[string]int                   { return n.pvcRefCounts }
func (n *NodeInfo) GetGeneration() int64                              { return n.Generation }
func (n *NodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet           { return n.declaredFeatures }

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

// String describes n in one line for logs and test failures.
func (n *NodeInfo) String() string {
	names := make([]string, len(n.pods))
	for i, pod := range n.pods {
		names[i] = pod.GetPod().Name
	}
	return fmt.Sprintf("node %s: pods %v, requested %+v, scored %+v, allocatable %+v, ports %v",
		n.GetName(), names, n.Requested, n.NonZeroRequested, n.Allocatable, n.usedPorts)
}

// AddPodInfo adds pod and its requests.
func (n *NodeInfo) AddPodInfo(pod fwk.PodInfo) {
	n.pods = append(n.pods, pod)
	spec := OriginalPod(pod)
	if hasPodAffinity(spec) {
		n.podsWithAffinity = append(n.podsWithAffinity, pod)
	}
	if hasRequiredAntiAffinity(spec) {
		n.podsWithRequiredAntiAffinity = append(n.podsWithRequiredAntiAffinity, pod)
	}
	n.applyPod(pod, 1)
}

// RemovePod removes the pod with pod's UID, and subtracts what was added for
// it. It is an error if pod has no UID or is not on the node. It visits all
// pods of the node.
func (n *NodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	_, err := n.TakePod(pod)
	return err
}

// TakePod is RemovePod, and returns what was added for the pod that it removed. Of a pod that
// is there twice only it knows which of the two that is.
func (n *NodeInfo) TakePod(pod *v1.Pod) (fwk.PodInfo, error) {
	if pod.UID == "" {
		return nil, fmt.Errorf("pod %s/%s: metadata.uid is empty, want the UID it was added with", pod.Namespace, pod.Name)
	}
	removed := removePodByUID(&n.pods, pod.UID)
	if removed == nil {
		return nil, fmt.Errorf("pod %s/%s with UID %s is not on node %s", pod.Namespace, pod.Name, pod.UID, n.GetName())
	}
	if hasPodAffinity(OriginalPod(removed)) {
		removePodByUID(&n.podsWithAffinity, pod.UID)
	}
	if hasRequiredAntiAffinity(OriginalPod(removed)) {
		removePodByUID(&n.podsWithRequiredAntiAffinity, pod.UID)
	}
	n.applyPod(removed, -1)
	return removed, nil
}

// PlacedPods is the pods of a NodeInfo, each list in its order, and the host ports that count
// as used: as in kube-scheduler, a port that two pods use is free once one of them is removed.
type PlacedPods struct {
	pods, withAffinity, withRequiredAntiAffinity []fwk.PodInfo
	usedPorts                                    fwk.HostPortInfo
}

// All returns all pods.
func (p PlacedPods) All() []fwk.PodInfo { return p.pods }

// PlacedPods returns a copy of what n has.
func (n *NodeInfo) PlacedPods() PlacedPods {
	return PlacedPods{slices.Clone(n.pods), slices.Clone(n.podsWithAffinity), slices.Clone(n.podsWithRequiredAntiAffinity), clonePorts(n.usedPorts)}
}

// SetPlacedPods restores what PlacedPods returned, while n has the same pods again.
func (n *NodeInfo) SetPlacedPods(p PlacedPods) {
	n.pods, n.podsWithAffinity, n.podsWithRequiredAntiAffinity, n.usedPorts = p.pods, p.withAffinity, p.withRequiredAntiAffinity, p.usedPorts
}

// removePodByUID removes the pod with uid from list that was added last, and returns it,
// or nil: a pod of a group counts twice for a while when another component binds it to the
// node that was chosen for it. The last pod takes its place, as in kube-scheduler: the order
// of pods influences the choice of preemption victims.
func removePodByUID(list *[]fwk.PodInfo, uid types.UID) fwk.PodInfo {
	pods := *list
	at := len(pods) - 1
	for at >= 0 && OriginalPod(pods[at]).UID != uid {
		at--
	}
	if at < 0 {
		return nil
	}
	removed, last := pods[at], len(pods)-1
	pods[at], pods[last] = pods[last], nil
	*list = pods[:last]
	return removed
}

// applyPod adds sign times what pod requests to every sum.
func (n *NodeInfo) applyPod(pod fwk.PodInfo, sign int64) {
	requests := pod.CalculateResource()
	n.Requested.addSigned(requests.Resource, sign)
	n.NonZeroRequested.MilliCPU += sign * requests.Non0CPU
	n.NonZeroRequested.Memory += sign * requests.Non0Mem
	if ours, ok := pod.(*PodInfo); !ok || !ours.noPortsOrClaims {
		n.updateUsedPorts(OriginalPod(pod), sign)
		n.updatePVCRefCounts(OriginalPod(pod), sign)
	}
	n.bumpGeneration()
}

// usesNoPortsOrClaims reports whether the pod uses neither host ports nor
// claims, so that only its requests change a NodeInfo.
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

// HostPorts yields the host ports of pod's containers and restartable init
// containers.
func HostPorts(pod *v1.Pod) iter.Seq[*v1.ContainerPort] {
	return func(yield func(*v1.ContainerPort) bool) {
		for i := range pod.Spec.InitContainers {
			container := &pod.Spec.InitContainers[i]
			if IsRestartableInitContainer(container) && !yieldHostPorts(container, yield) {
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

// yieldHostPorts reports whether to continue.
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

// Tolerates reports whether one of tolerations tolerates taint. The operators
// Lt and Gt tolerate nothing, because the feature gate
// TaintTolerationComparisonOperators is off in 1.37.
func Tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}

// UntoleratedTaint returns the first taint with the effect NoSchedule or
// NoExecute that none of tolerations tolerates, or nil.
func UntoleratedTaint(taints []v1.Taint, tolerations []v1.Toleration) *v1.Taint {
	for i := range taints {
		taint := &taints[i]
		repels := taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
		if repels && !Tolerates(tolerations, taint) {
			return taint
		}
	}
	return nil
}
