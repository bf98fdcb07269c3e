package eventhandlers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
)

// Trim returns what drops from an object what nobody reads: managedFields, a
// third of an object, always; and of a pod what it runs and how that goes,
// unless strangers among the plugins may want to read it. It is the same as
// long as the process lives.
func Trim(strangers bool) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if object, err := meta.Accessor(obj); err == nil {
			object.SetManagedFields(nil)
		}
		if pod, is := obj.(*v1.Pod); is && !strangers {
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
			// What a pod takes while it is resized is accounted for from these.
			s := &statuses[i]
			statuses[i] = v1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: s.Resources}
		}
	}
	pod.Status.EphemeralContainerStatuses = nil
}
