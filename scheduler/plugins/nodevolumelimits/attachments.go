package nodevolumelimits

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
)

// byNode is the index of VolumeAttachments by the node that they are for.
const nodeNameIndex = "spec.nodeName"

func nodeNameIndexFunc(obj any) ([]string, error) {
	attachment, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return nil, fmt.Errorf("indexing a %T, want a VolumeAttachment", obj)
	}
	return []string{attachment.Spec.NodeName}, nil
}

// attached are the CSI volumes that are attached to a node, or are to be, though
// no pod there may use them.
func (p *Plugin) attachedVolumes(node string) (driverByVolume, error) {
	objects, err := p.attachments.ByIndex(nodeNameIndex, node)
	if err != nil {
		return nil, err
	}
	found := driverByVolume{}
	for _, object := range objects {
		spec := &object.(*storagev1.VolumeAttachment).Spec
		if spec.Attacher == "" || spec.Source.PersistentVolumeName == nil {
			continue
		}
		volume, err := p.volumes.Get(*spec.Source.PersistentVolumeName)
		if err != nil || volume.Spec.CSI == nil {
			continue
		}
		found.add(spec.Attacher, volume.Spec.CSI.VolumeHandle)
	}
	return found, nil
}
