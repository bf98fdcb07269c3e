package nodevolumelimits

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// driverByVolume maps each volume, as driver/handle, to its driver.
type driverByVolume map[string]string

func (v driverByVolume) add(driver, handle string) { v[driver+"/"+handle] = driver }

// unboundHandlePrefix is the prefix of the handles of volumes that are not provisioned
// yet. No driver has such a handle.
const unboundHandlePrefix = "berth.dev/not-bound-yet"

// volumeCounter counts the volumes of one node.
type volumeCounter struct {
	*Plugin
	ctx context.Context
	// csiNode lists the drivers on the node; nil if there is no CSINode.
	csiNode *storagev1.CSINode
}

// podVolumes returns the volumes of the incoming pod. It returns an error if one of its
// claims does not exist.
func (c *volumeCounter) podVolumes(pod *v1.Pod) (driverByVolume, error) {
	found := driverByVolume{}
	return found, c.addPodVolumes(pod, found, func(key string, err error) error { return fmt.Errorf("looking up PVC %s: %w", key, err) })
}

// nodeVolumes returns the volumes of the pods on the node.
func (c *volumeCounter) nodeVolumes(info fwk.NodeInfo) (driverByVolume, error) {
	found := driverByVolume{}
	// A claim that no longer exists has no volume.
	skipClaim := func(string, error) error { return nil }
	for _, existing := range info.GetPods() {
		if err := c.addPodVolumes(existing.GetPod(), found, skipClaim); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// addPodVolumes adds the volumes of a pod that CSI drivers attach to found.
// onMissingClaim turns the error about a claim that does not exist into the error to
// return; nil skips the claim.
func (c *volumeCounter) addPodVolumes(pod *v1.Pod, found driverByVolume, onMissingClaim func(key string, err error) error) error {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		var name string
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, v)
		default:
			if err := c.addInlineVolume(pod, v, found); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			return errors.New("PersistentVolumeClaim had no name")
		}
		claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			if err := onMissingClaim(pod.Namespace+"/"+name, err); err != nil {
				return err
			}
			continue
		}
		if v.Ephemeral != nil {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return err
			}
		}
		if driver, handle := c.volumeOfClaim(claim); driver != "" && handle != "" {
			found.add(driver, handle)
		}
	}
	return nil
}

// addInlineVolume adds an inline volume of the pod that is migrated from an in-tree
// plugin to a CSI driver.
func (c *volumeCounter) addInlineVolume(pod *v1.Pod, v *v1.Volume, found driverByVolume) error {
	if !c.translator.IsInlineMigratable(v) {
		return nil
	}
	provisioner, err := c.translator.GetInTreePluginNameFromSpec(nil, v)
	if err != nil {
		return fmt.Errorf("looking up provisioner name for volume %s: %w", v.Name, err)
	}
	if !c.isMigrated(provisioner) {
		return nil
	}
	translated, err := c.translator.TranslateInTreeInlineVolumeToCSI(klog.FromContext(c.ctx), v, pod.Namespace)
	if err != nil || translated == nil {
		return fmt.Errorf("converting volume(%s) from inline to csi: %w", v.Name, err)
	}
	driver, err := c.translator.GetCSINameFromInTreeName(provisioner)
	if err != nil {
		return fmt.Errorf("looking up CSI driver name for provisioner %s: %w", provisioner, err)
	}
	if translated.Spec.CSI != nil {
		found.add(driver, translated.Spec.CSI.VolumeHandle)
	}
	return nil
}

// isMigrated reports whether the volumes of an in-tree provisioner count as volumes of
// a CSI driver. They do on nodes with a CSINode.
func (c *volumeCounter) isMigrated(provisioner string) bool {
	if c.csiNode == nil {
		return false
	}
	switch provisioner {
	case csiplugins.AWSEBSInTreePluginName, csiplugins.PortworxVolumePluginName, csiplugins.GCEPDInTreePluginName,
		csiplugins.AzureDiskInTreePluginName, csiplugins.CinderInTreePluginName:
		return true
	}
	return false
}

// volumeOfClaim returns the driver and the handle of the volume that a claim is bound
// to or will be bound to; empty if that volume does not count.
func (c *volumeCounter) volumeOfClaim(claim *v1.PersistentVolumeClaim) (driver, handle string) {
	if claim.Spec.VolumeName == "" {
		return c.volumeToProvision(claim)
	}
	bound, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return c.volumeToProvision(claim) // it may be created, or provisioned again
	}
	if csi := bound.Spec.CSI; csi != nil {
		return csi.Driver, csi.VolumeHandle
	}
	if !c.translator.IsPVMigratable(bound) {
		return "", ""
	}
	provisioner, err := c.translator.GetInTreePluginNameFromSpec(bound, nil)
	if err != nil || !c.isMigrated(provisioner) {
		return "", ""
	}
	translated, err := c.translator.TranslateInTreePVToCSI(klog.FromContext(c.ctx), bound)
	if err != nil || translated.Spec.CSI == nil {
		return "", ""
	}
	return translated.Spec.CSI.Driver, translated.Spec.CSI.VolumeHandle
}

// volumeToProvision returns the driver that will provision the volume of a claim, and a
// handle that is unique to the claim. A claim without a class is bound before its pods
// are scheduled.
func (c *volumeCounter) volumeToProvision(claim *v1.PersistentVolumeClaim) (driver, handle string) {
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return "", ""
	}
	class, err := c.classes.Get(name)
	if err != nil {
		return "", ""
	}
	driver = class.Provisioner
	if c.translator.IsMigratableIntreePluginByName(driver) {
		if !c.isMigrated(driver) {
			return "", ""
		}
		if driver, err = c.translator.GetCSINameFromInTreeName(driver); err != nil {
			return "", ""
		}
	}
	return driver, fmt.Sprintf("%s-%s/%s", unboundHandlePrefix, claim.Namespace, claim.Name)
}

// nodeNameIndex is the index of VolumeAttachments by spec.nodeName.
const nodeNameIndex = "spec.nodeName"

func nodeNameIndexFunc(obj any) ([]string, error) {
	attachment, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return nil, fmt.Errorf("indexing a %T, want a VolumeAttachment", obj)
	}
	return []string{attachment.Spec.NodeName}, nil
}

// attachedVolumes returns the CSI volumes with a VolumeAttachment for node, whether a
// pod on the node uses them or not.
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
		pv, err := p.volumes.Get(*spec.Source.PersistentVolumeName)
		if err != nil || pv.Spec.CSI == nil {
			continue
		}
		found.add(spec.Attacher, pv.Spec.CSI.VolumeHandle)
	}
	return found, nil
}
