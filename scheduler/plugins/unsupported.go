package plugins

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// requirement is a field of a pod's spec that only a certain plugin can honor.
type requirement struct {
	// field is the path of the field.
	field string
	// plugin is the name of the plugin; empty if there is no such plugin in any build.
	plugin string
	isSet  func(spec *v1.PodSpec) bool
}

// requirements are in the order in which they are checked and reported. Only
// requirements hold a pod; preferences that no plugin honors do not.
var requirements = []requirement{
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

// Unsupported returns a function that returns a field of a pod that no plugin in
// registry honors, and why the pod is held; empty for a pod that can be scheduled
// correctly. A profile that does not enable a registered plugin is the user's choice
// and no reason to hold a pod.
func Unsupported(registry framework.Registry) func(pod *v1.Pod) (field, reason string) {
	var missing []requirement
	for _, d := range requirements {
		if _, ok := registry[d.plugin]; !ok {
			missing = append(missing, d)
		}
	}
	return func(pod *v1.Pod) (field, reason string) {
		for _, d := range missing {
			if d.isSet(&pod.Spec) {
				return d.field, fmt.Sprintf("this version of Berth does not support it yet; the pod is held so that it is not bound incorrectly%s", missingPluginHint(d))
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
