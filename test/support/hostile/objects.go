package hostile

import (
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// Node returns a node whose labels, taints and resources come from b.
func (b *Bytes) Node(name string) *v1.Node {
	node := fixture.Node(name).Obj()
	for key, value := range b.Labels(3) {
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
	}
	node.Spec.Unschedulable = b.One(8)
	if b.One(3) {
		node.Spec.Taints = List(b, 2, b.taint)
	}
	if b.One(2) {
		node.Status.Allocatable = b.ResourceList(5)
	} else {
		node.Status.Allocatable = fixture.Resources("cpu", "4", "memory", "16Gi", "pods", "10", "example.com/gpu", "2")
	}
	node.Status.Capacity = node.Status.Allocatable
	if b.One(4) {
		node.Status.Images = List(b, 2, func() v1.ContainerImage {
			return v1.ContainerImage{Names: List(b, 2, b.image), SizeBytes: Pick(b, int64(300<<20), 0, -1, math.MaxInt64, math.MinInt64)}
		})
	}
	if b.One(6) {
		node.Status.DeclaredFeatures = List(b, 2, func() string { return Pick(b, "RestartAllContainersOnContainerExits", "", "no feature!") })
	}
	return node
}

func (b *Bytes) image() string {
	return Pick(b, "registry.local/web:v1", "web", "", "@", "a:b:c", "registry.local/web@sha256:00")
}

// Pod returns a pod without a node, whose spec, labels and status come from b.
func (b *Bytes) Pod(key string) *v1.Pod {
	pod := fixture.Pod(key).Requests("cpu", "100m").Obj()
	pod.Labels = b.Labels(3)
	if b.One(2) {
		pod.Spec.Containers = List(b, 3, b.container)
	}
	if b.One(4) {
		pod.Spec.InitContainers = List(b, 2, b.initContainer)
	}
	pod.Spec.Affinity = b.affinity()
	if b.One(3) {
		pod.Spec.TopologySpreadConstraints = List(b, 3, b.spreadConstraint)
	}
	if b.One(3) {
		pod.Spec.Tolerations = List(b, 3, b.toleration)
	}
	if b.One(4) {
		pod.Spec.NodeSelector = b.Labels(2)
	}
	if b.One(3) {
		pod.Spec.Priority = new(b.number())
	}
	if b.One(4) {
		b.unusualFields(pod)
	}
	return pod
}

// unusualFields sets fields that few pods have.
func (b *Bytes) unusualFields(pod *v1.Pod) {
	for _, set := range []func(){
		func() { pod.Spec.Overhead = b.ResourceList(2) },
		func() {
			pod.Spec.Resources = &v1.ResourceRequirements{Requests: b.ResourceList(3), Limits: b.ResourceList(2)}
		},
		func() { pod.Status.NominatedNodeName = Pick(b, "n0", "n1", "n2", "nowhere") },
		func() {
			pod.Spec.PreemptionPolicy = new(Pick(b, v1.PreemptNever, v1.PreemptLowerPriority, "Sometimes"))
		},
		func() { pod.Status.ContainerStatuses = List(b, 2, func() v1.ContainerStatus { return b.status(pod) }) },
		func() { pod.Spec.Volumes = List(b, 2, func() v1.Volume { return v1.Volume{} }) },
		func() { pod.OwnerReferences = List(b, 2, b.owner) },
		func() { pod.Spec.HostNetwork = true },
		func() {
			pod.Annotations = map[string]string{"berth.dev/pod-group": Pick(b, "g", ""), "berth.dev/pod-group-min-count": Pick(b, "2", "-1", "", "x")}
		},
	} {
		if b.One(3) {
			set()
		}
	}
}

func (b *Bytes) container() v1.Container {
	container := v1.Container{Name: Pick(b, "c0", "c1", ""), Image: b.image(), Resources: v1.ResourceRequirements{Requests: b.ResourceList(4)}}
	if b.One(4) {
		container.Resources.Limits = b.ResourceList(2)
	}
	if b.One(4) {
		container.Ports = List(b, 2, func() v1.ContainerPort {
			return v1.ContainerPort{
				HostPort: Pick(b, int32(80), 443, 0, -1, math.MaxInt32, math.MinInt32), HostIP: Pick(b, "", "0.0.0.0", "127.0.0.1", "::", "nowhere"),
				Protocol: Pick(b, v1.ProtocolTCP, v1.ProtocolUDP, "", "PIGEON"),
			}
		})
	}
	return container
}

func (b *Bytes) initContainer() v1.Container {
	container := b.container()
	if b.One(2) {
		container.RestartPolicy = new(Pick(b, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever, "Somehow"))
	}
	return container
}

// status returns the status of a container, with resources that differ from its spec.
func (b *Bytes) status(pod *v1.Pod) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: Pick(b, "c0", "c1", ""), AllocatedResources: b.ResourceList(2)}
	if len(pod.Spec.Containers) > 0 && b.One(2) {
		status.Name = pod.Spec.Containers[0].Name
	}
	if b.One(2) {
		status.Resources = &v1.ResourceRequirements{Requests: b.ResourceList(2)}
	}
	return status
}

func (b *Bytes) owner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: Pick(b, "apps/v1", "v1", "a/b/c", ""), Kind: Pick(b, "ReplicaSet", "StatefulSet", "ReplicationController", "Job", ""),
		Name: Pick(b, "web", ""), Controller: new(b.One(2)),
	}
}
