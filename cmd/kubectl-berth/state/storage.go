package state

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// withoutStorage is what an answer lacks that was not told of all that volumes
// depend on.
const withoutStorage = "what is said of pods with volumes may be wrong"

// storage are the kinds that tell where volumes are, can be reached and can be
// made: those that the manager's intake listens to.
var storage = []Kind{
	{&v1.PersistentVolumeList{}, "persistentvolumes", withoutStorage},
	{&v1.PersistentVolumeClaimList{}, "persistentvolumeclaims", withoutStorage},
	{&storagev1.StorageClassList{}, "storageclasses.storage.k8s.io", withoutStorage},
	{&storagev1.CSINodeList{}, "csinodes.storage.k8s.io", withoutStorage},
	{&storagev1.CSIDriverList{}, "csidrivers.storage.k8s.io", withoutStorage},
	{&storagev1.CSIStorageCapacityList{}, "csistoragecapacities.storage.k8s.io", withoutStorage},
	{&storagev1.VolumeAttachmentList{}, "volumeattachments.storage.k8s.io", withoutStorage},
}

// StorageRights are what those take.
func StorageRights(why string, verbs ...string) []verb.Right {
	rights := []verb.Right{
		{Verbs: verbs, Resource: "persistentvolumes", For: why},
		{Verbs: verbs, Resource: "persistentvolumeclaims", For: why},
	}
	for _, resource := range []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"} {
		rights = append(rights, verb.Right{Verbs: verbs, Group: "storage.k8s.io", Resource: resource, For: why})
	}
	return rights
}
