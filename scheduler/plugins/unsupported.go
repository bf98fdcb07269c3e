package plugins

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// demand is something a pod can ask for that takes a plugin to honour.
type requirement struct {
	// field is what asks, as the user wrote it.
	field string
	// plugin is what honours it; no build has one for an empty name.
	plugin string
	isSet  func(spec *v1.PodSpec) bool
}

// demands are in the order in which pods are told of them. A preference that
// nobody honours is no reason to hold a pod; a requirement is.
var requirements = []requirement{
	{"spec.schedulingGroup", "", func(s *v1.PodSpec) bool { return s.SchedulingGroup != nil }},
	{"spec.resourceClaims", "DynamicResources", func(s *v1.PodSpec) bool { return len(s.ResourceClaims) > 0 }},
	{"spec.schedulingGates", "SchedulingGates", func(s *v1.PodSpec) bool { return len(s.SchedulingGates) > 0 }},
	{"spec.volumes", "VolumeBinding", needsVolume},
	{"spec.containers.ports.hostPort", "NodePorts", needsHostPort},
	{"spec.topologySpreadConstraints", "PodTopologySpread", needsSpread},
	{"spec.affinity.podAffinity", "InterPodAffinity", func(s *v1.PodSpec) bool {
		return s.Affinity != nil && s.Affinity.PodAffinity != nil &&
			len(s.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	}},
	{"spec.affinity.podAntiAffinity", "InterPodAffinity", func(s *v1.PodSpec) bool {
		return s.Affinity != nil && s.Affinity.PodAntiAffinity != nil &&
			len(s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	}},
}

// Unsupported returns what says which field of a pod asks for something that
// no plugin in registry honours; its answer is empty for a pod that can be
// scheduled rightly. A profile that leaves a registered plugin out is the
// user's wish and no reason to hold a pod. devices says of an extended resource
// whether a DeviceClass names it.
func Unsupported(registry framework.Registry, devices func(resource string) bool) func(pod *v1.Pod) (field, why string) {
	var missing []requirement
	backed := requirement{"spec.containers.resources.requests", "DynamicResources", func(s *v1.PodSpec) bool { return needsDevices(s, devices) }}
	for _, d := range append(slices.Clip(requirements), backed) {
		if _, ok := registry[d.plugin]; !ok {
			missing = append(missing, d)
		}
	}
	return func(pod *v1.Pod) (field, why string) {
		for _, d := range missing {
			if d.isSet(&pod.Spec) {
				return d.field, fmt.Sprintf("this version of Berth does not schedule by it yet; the pod is held rather than bound wrongly%s", missingPluginHint(d))
			}
		}
		return "", ""
	}
}

func missingPluginHint(d requirement) string {
	if d.plugin == "" {
		return ""
	}
	return " (plugin " + d.plugin + " is missing)"
}

func needsVolume(spec *v1.PodSpec) bool {
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

func needsDevices(spec *v1.PodSpec, devices func(resource string) bool) bool {
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if isBackedByDevices(string(name), devices) {
					return true
				}
			}
		}
	}
	return false
}

// isBacked says whether devices back a resource: its name names a class, or a class names it.
func isBackedByDevices(resource string, devices func(resource string) bool) bool {
	return strings.HasPrefix(resource, resourcev1.ResourceDeviceClassPrefix) || strings.Contains(resource, "/") && devices(resource)
}

func needsHostPort(spec *v1.PodSpec) bool {
	for range framework.HostPorts(&v1.Pod{Spec: *spec}) {
		return true
	}
	return false
}

func needsSpread(spec *v1.PodSpec) bool {
	for i := range spec.TopologySpreadConstraints {
		if spec.TopologySpreadConstraints[i].WhenUnsatisfiable == v1.DoNotSchedule {
			return true
		}
	}
	return false
}
