package framework

import (
	"fmt"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

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
