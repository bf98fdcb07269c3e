package state

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// withoutStorage is what an answer lacks that was not told of all that volumes
// depend on.
const storageUnreadable = "what is said of pods with volumes may be wrong"

// storage are the kinds that tell where volumes are, can be reached and can be
// made: those that the manager's intake listens to.
var storageKinds = []ReadableKind{
	{&v1.PersistentVolumeList{}, "persistentvolumes", storageUnreadable},
	{&v1.PersistentVolumeClaimList{}, "persistentvolumeclaims", storageUnreadable},
	{&storagev1.StorageClassList{}, "storageclasses.storage.k8s.io", storageUnreadable},
	{&storagev1.CSINodeList{}, "csinodes.storage.k8s.io", storageUnreadable},
	{&storagev1.CSIDriverList{}, "csidrivers.storage.k8s.io", storageUnreadable},
	{&storagev1.CSIStorageCapacityList{}, "csistoragecapacities.storage.k8s.io", storageUnreadable},
	{&storagev1.VolumeAttachmentList{}, "volumeattachments.storage.k8s.io", storageUnreadable},
}

// StorageRights are what those take.
func StoragePermissions(why string, verbs ...string) []verb.Permission {
	rights := []verb.Permission{
		{Verbs: verbs, Resource: "persistentvolumes", Purpose: why},
		{Verbs: verbs, Resource: "persistentvolumeclaims", Purpose: why},
	}
	for _, resource := range []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"} {
		rights = append(rights, verb.Permission{Verbs: verbs, Group: "storage.k8s.io", Resource: resource, Purpose: why})
	}
	return rights
}
