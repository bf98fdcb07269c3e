package eventhandlers

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
)

// Trim returns a transform that drops fields which no plugin reads, to save memory:
// managedFields, a third of an object, always; and, unless there are out-of-tree
// plugins, which may read them, the fields of a pod about how its containers run, and
// those of a node's status about the machine.
// The transform must be the same for the life of the process.
func Trim(outOfTreePlugins bool) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if object, err := meta.Accessor(obj); err == nil {
			object.SetManagedFields(nil)
		}
		if outOfTreePlugins {
			return obj, nil
		}
		switch o := obj.(type) {
		case *v1.Pod:
			trimPod(o)
		case *v1.Node:
			trimNode(o)
		}
		return obj, nil
	}
}

func trimNode(node *v1.Node) {
	s := &node.Status
	node.Status = v1.NodeStatus{Allocatable: s.Allocatable, Conditions: s.Conditions, Images: s.Images, DeclaredFeatures: s.DeclaredFeatures}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if trimmed := (v1.NodeCondition{Type: c.Type, Status: c.Status}); *c != trimmed { // other nodes may have the same
			*c = trimmed
		}
	}
}

func trimPod(pod *v1.Pod) {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if !isTrimmed(&containers[i]) { // other pods may have the same containers
				trimContainer(&containers[i])
			}
		}
	}
	for i := range pod.Spec.Volumes {
		// What the kubelet mounts wherever the pod runs.
		v := &pod.Spec.Volumes[i]
		v.GitRepo, v.Secret, v.NFS, v.DownwardAPI, v.ConfigMap, v.Projected = nil, nil, nil, nil, nil, nil
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.VolumeSource == v1.VolumeSource{} })
	if len(pod.Spec.Volumes) == 0 {
		pod.Spec.Volumes = nil
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			// The resources of a pod that is being resized are computed from these.
			s := &statuses[i]
			statuses[i] = v1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: s.Resources}
		}
	}
	pod.Status.EphemeralContainerStatuses = nil
}

func trimContainer(c *v1.Container) {
	c.Command, c.Args, c.Env, c.EnvFrom, c.Lifecycle = nil, nil, nil, nil, nil
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
	c.WorkingDir, c.TerminationMessagePath, c.TerminationMessagePolicy = "", "", ""
	for i := range c.VolumeMounts {
		c.VolumeMounts[i] = v1.VolumeMount{BindMountOptions: c.VolumeMounts[i].BindMountOptions}
	}
}

// isTrimmed reports whether trimContainer changes nothing.
func isTrimmed(c *v1.Container) bool {
	for i := range c.VolumeMounts {
		if m := &c.VolumeMounts[i]; m.Name != "" || m.MountPath != "" || m.ReadOnly || m.SubPath != "" || m.SubPathExpr != "" ||
			m.MountPropagation != nil || m.RecursiveReadOnly != nil {
			return false
		}
	}
	return c.Command == nil && c.Args == nil && c.Env == nil && c.EnvFrom == nil && c.Lifecycle == nil &&
		c.LivenessProbe == nil && c.ReadinessProbe == nil && c.StartupProbe == nil &&
		c.WorkingDir == "" && c.TerminationMessagePath == "" && c.TerminationMessagePolicy == ""
}
