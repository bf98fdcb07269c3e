// Package nodevolumelimits rejects nodes to which a CSI driver cannot attach more
// volumes of the pod, or where the driver is not installed.
package nodevolumelimits

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	csitranslation "k8s.io/csi-translation-lib"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "NodeVolumeLimits"

	reasonMaxVolumeCountExceeded = "node(s) exceed max volume count"
	reasonDriverNotInstalled     = "%s CSI driver is not installed on the node"
)

// Plugin counts the volumes of nodes.
type Plugin struct {
	csiManager fwk.CSIManager
	volumes    corelisters.PersistentVolumeLister
	claims     corelisters.PersistentVolumeClaimLister
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	// attachments are the VolumeAttachments, indexed by node.
	attachments toolscache.Indexer
	translator  csitranslation.CSITranslator
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
	_ framework.ReadsDeclarer = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	core, storage := handle.SharedInformerFactory().Core().V1(), handle.SharedInformerFactory().Storage().V1()
	attachments := storage.VolumeAttachments().Informer()
	if err := attachments.AddIndexers(toolscache.Indexers{nodeNameIndex: nodeNameIndexFunc}); err != nil {
		// Another instance on the same informer may have added it.
		if _, exists := attachments.GetIndexer().GetIndexers()[nodeNameIndex]; !exists {
			return nil, fmt.Errorf("indexing VolumeAttachments: %w", err)
		}
	}
	return &Plugin{
		csiManager:  handle.SharedCSIManager(),
		volumes:     core.PersistentVolumes().Lister(),
		claims:      core.PersistentVolumeClaims().Lister(),
		classes:     storage.StorageClasses().Lister(),
		drivers:     storage.CSIDrivers().Lister(),
		attachments: attachments.GetIndexer(),
		translator:  csitranslation.New(),
	}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodVolumes,
		Filter: framework.NodeName | framework.NodePods | framework.StorageObjects,
	}
}

// SignPod signs the pod with its volumes.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}, nil
}

// PreFilter skips Filter for pods that have no volume which a CSI driver attaches.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.hasAttachableVolume(pod) {
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// hasAttachableVolume reports whether a CSI driver may attach a volume of the pod.
func (p *Plugin) hasAttachableVolume(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if p.isAttachable(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

// isAttachable reports whether a CSI driver may attach a volume. ConfigMaps, tokens and
// emptyDirs, which nearly every pod has, are not attached.
func (p *Plugin) isAttachable(v *v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || p.translator.IsInlineMigratable(v)
}

// PreFilterExtensions returns nil: Filter reads the volumes of other pods from the
// NodeInfo.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a node where a driver that requires it is not installed, and a node
// where the pod would exceed the volume limit of a driver.
func (p *Plugin) Filter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	// A node without a CSINode has no limits.
	node, _ := p.csiManager.CSINodes().Get(info.Node().Name)
	c := &volumeCounter{Plugin: p, ctx: ctx, csiNode: node}
	wanted, err := c.podVolumes(pod)
	if apierrors.IsNotFound(err) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if err != nil {
		return fwk.AsStatus(err)
	}
	if len(wanted) == 0 {
		return nil
	}
	missing, err := p.missingDriver(wanted, node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if missing != "" {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf(reasonDriverNotInstalled, missing))
	}
	limits := attachLimits(node)
	if len(limits) == 0 {
		return nil
	}
	used, err := c.nodeVolumes(info)
	if err != nil {
		return fwk.AsStatus(err)
	}
	attached, err := p.attachedVolumes(info.Node().Name)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if exceedsLimits(limits, wanted, used, attached) {
		return fwk.NewStatus(fwk.Unschedulable, reasonMaxVolumeCountExceeded)
	}
	return nil
}

// exceedsLimits reports whether the wanted volumes, with those that pods on the node
// use and those that are attached, exceed the limit of a driver. As upstream, a wanted
// volume that is attached and that no pod on the node uses counts twice.
func exceedsLimits(limits map[string]int64, wanted, used, attached driverByVolume) bool {
	sum, additional := map[string]int64{}, map[string]int64{}
	for _, driver := range used {
		sum[driver]++
	}
	for volume, driver := range attached {
		if _, counted := used[volume]; !counted {
			sum[driver]++
		}
	}
	for volume, driver := range wanted {
		if _, exists := used[volume]; !exists {
			additional[driver]++
		}
	}
	for driver, n := range additional {
		if limit, limited := limits[driver]; limited && sum[driver]+n > limit {
			return true
		}
	}
	return false
}

// attachLimits returns the limits of the drivers on a node. A driver without an entry
// has no limit.
func attachLimits(node *storagev1.CSINode) map[string]int64 {
	limits := map[string]int64{}
	if node == nil {
		return limits
	}
	for i := range node.Spec.Drivers {
		if d := &node.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return limits
}

// missingDriver returns a driver that is not installed on the node and does not allow
// pods that need it there. Of several it is the first by name; upstream returns any.
func (p *Plugin) missingDriver(wanted driverByVolume, node *storagev1.CSINode) (string, error) {
	for _, name := range slices.Sorted(maps.Values(wanted)) {
		driver, err := p.drivers.Get(name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("error getting CSIDriver for provider %s: %w", name, err)
		}
		if preventsSchedulingIfMissing(driver) && !hasDriver(node, name) {
			return name, nil
		}
	}
	return "", nil
}

// preventsSchedulingIfMissing reports whether a driver allows its pods only on nodes
// where it is installed.
func preventsSchedulingIfMissing(driver *storagev1.CSIDriver) bool {
	return driver.Spec.PreventPodSchedulingIfMissing != nil && *driver.Spec.PreventPodSchedulingIfMissing
}

// hasDriver reports whether a driver is installed on a node. It returns false for a nil
// CSINode.
func hasDriver(node *storagev1.CSINode, name string) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
}
