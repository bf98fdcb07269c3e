package volumerestrictions

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// isDisk says whether a volume is one of those that conflict.
func isRestrictedVolume(v *v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// hasDisk says whether a pod has the disk of another pod's volume in a way that
// leaves no room for the other: disks of Amazon have one user on a node, the
// others several if all of them only read.
func conflictsWithPod(pod *v1.Pod, wanted *v1.Volume) bool {
	for i := range pod.Spec.Volumes {
		if volumesConflict(wanted, &pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func volumesConflict(a, b *v1.Volume) bool {
	if x, y := a.GCEPersistentDisk, b.GCEPersistentDisk; x != nil && y != nil && x.PDName == y.PDName && !(x.ReadOnly && y.ReadOnly) {
		return true
	}
	if x, y := a.AWSElasticBlockStore, b.AWSElasticBlockStore; x != nil && y != nil && x.VolumeID == y.VolumeID {
		return true
	}
	if x, y := a.ISCSI, b.ISCSI; x != nil && y != nil && x.IQN == y.IQN && !(x.ReadOnly && y.ReadOnly) {
		return true
	}
	x, y := a.RBD, b.RBD
	return x != nil && y != nil && x.RBDPool == y.RBDPool && x.RBDImage == y.RBDImage && !(x.ReadOnly && y.ReadOnly) &&
		slices.ContainsFunc(x.CephMonitors, func(monitor string) bool { return slices.Contains(y.CephMonitors, monitor) })
}
