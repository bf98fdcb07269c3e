package framework

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// HasVolumes says whether a disk or a claim stands behind any volume of a pod,
// so that PodVolumes of it are more than nothing.
func HasVolumes(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if hasDiskOrClaim(&pod.Spec.Volumes[i].VolumeSource) {
			return true
		}
	}
	return false
}

// attaches says whether a volume is claimed, is one of those that conflict on a
// node, or is a disk of a cloud that a CSI driver has taken over.
func hasDiskOrClaim(v *v1.VolumeSource) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil ||
		v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil ||
		v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// readsVolumes says whether a plugin reads the volumes of pods.
func readsVolumes(plugin fwk.Plugin) bool {
	return affectsPlacement(plugin) && readsOf(plugin).Pod&PodVolumes != 0
}

// torn says whether a plugin is asked about nodes, or before it is, though not at
// PreFilter, for which it is made: what it misses then, it misses of every pod,
// whatever the pod has.
func (f *Framework) lacksPreFilter(plugin fwk.Plugin) bool {
	name := plugin.Name()
	_, prepares := plugin.(fwk.PreFilterPlugin)
	asked := slices.ContainsFunc(f.filter, func(p countedFilter) bool { return p.Name() == name }) ||
		slices.ContainsFunc(f.preScore, func(p fwk.PreScorePlugin) bool { return p.Name() == name }) ||
		slices.ContainsFunc(f.score, func(s weightedScore) bool { return s.name == name })
	return prepares && asked && !slices.ContainsFunc(f.preFilter, func(p fwk.PreFilterPlugin) bool { return p.Name() == name })
}

// noVolumes is the ScoreForm of a plugin that reads volumes, for pods that have
// none.
type noVolumesScore struct{}

func (noVolumesScore) Score(_ []Slot, scores []int64) ScoreResult {
	clear(scores)
	return Scored
}
