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

// volumes are drivers by what identifies a volume: the driver and its handle.
type driverByVolume map[string]string

func (v driverByVolume) add(driver, handle string) { v[driver+"/"+handle] = driver }

// unbound begins the handles of volumes that are not there yet. No driver has
// such a handle.
const unboundHandlePrefix = "berth.dev/not-bound-yet"

// count is the counting of volumes on one node.
type volumeCounter struct {
	*Plugin
	ctx context.Context
	// node says which drivers are there; nil where it is not known.
	csiNode *storagev1.CSINode
}

// wanted are the volumes of a pod that is to go to the node. Its claims have to
// be there.
func (c *volumeCounter) podVolumes(pod *v1.Pod) (driverByVolume, error) {
	found := driverByVolume{}
	return found, c.addPodVolumes(pod, found, func(key string, err error) error { return fmt.Errorf("looking up PVC %s: %w", key, err) })
}

// used are the volumes of the pods on the node.
func (c *volumeCounter) nodeVolumes(info fwk.NodeInfo) (driverByVolume, error) {
	found := driverByVolume{}
	// A claim that is gone stands for no volume.
	passOver := func(string, error) error { return nil }
	for _, there := range info.GetPods() {
		if err := c.addPodVolumes(there.GetPod(), found, passOver); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// of adds the volumes of a pod that CSI drivers attach to found. unclaimed makes
// of an error what to do about a claim that is not there; nil: nothing.
func (c *volumeCounter) addPodVolumes(pod *v1.Pod, found driverByVolume, unclaimed func(key string, err error) error) error {
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
			if err := unclaimed(pod.Namespace+"/"+name, err); err != nil {
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

// inline adds a disk that the pod names itself, where a CSI driver has taken
// over from what attached it once.
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

// takenOver says whether the disks of an in-tree provisioner are counted with
// those of a CSI driver, which they are where something is known of the node.
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

// claimed is the driver and the handle of the volume that a claim is bound to or
// will be; empty where it is none that counts.
func (c *volumeCounter) volumeOfClaim(claim *v1.PersistentVolumeClaim) (driver, handle string) {
	if claim.Spec.VolumeName == "" {
		return c.volumeToProvision(claim)
	}
	bound, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return c.volumeToProvision(claim) // it may come, or be made anew
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

// provisioned is the driver that will make the volume of a claim, and a handle
// of the claim's own. A claim without a class was bound before its pods come.
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
