package eventhandlers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
)

// Trim returns a transform that drops fields which no plugin reads, to save memory:
// managedFields, a third of an object, always; and, unless there are out-of-tree
// plugins, which may read them, the fields of a pod about how its containers run.
// The transform must be the same for the life of the process.
func Trim(outOfTreePlugins bool) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if object, err := meta.Accessor(obj); err == nil {
			object.SetManagedFields(nil)
		}
		if pod, ok := obj.(*v1.Pod); ok && !outOfTreePlugins {
			trimPod(pod)
		}
		return obj, nil
	}
}

func trimPod(pod *v1.Pod) {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Command, c.Args, c.Env, c.EnvFrom, c.Lifecycle = nil, nil, nil, nil, nil
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
		}
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
