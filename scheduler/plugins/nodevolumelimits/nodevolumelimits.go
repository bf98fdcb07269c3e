// Package nodevolumelimits keeps a pod off nodes to which the CSI driver of one
// of its volumes can attach no more, or where that driver is missing.
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
	// Name is how profiles name the plugin.
	Name = "NodeVolumeLimits"

	reasonMaxVolumeCountExceeded = "node(s) exceed max volume count"
	reasonDriverNotInstalled     = "%s CSI driver is not installed on the node"
)

// Plugin counts the volumes on nodes.
type Plugin struct {
	csiManager fwk.CSIManager
	volumes    corelisters.PersistentVolumeLister
	claims     corelisters.PersistentVolumeClaimLister
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	// attachments are VolumeAttachments, by node.
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
		if _, there := attachments.GetIndexer().GetIndexers()[nodeNameIndex]; !there {
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

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdict depends on.
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

// PreFilter lets pods skip Filter whose volumes no CSI driver attaches.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.hasAttachableVolume(pod) {
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// mayAttach says whether a CSI driver may attach any volume of a pod.
func (p *Plugin) hasAttachableVolume(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if p.isAttachable(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

// attachable says whether a CSI driver may attach a volume: ConfigMaps, tokens and
// scratch space, which nearly every pod has, are not attached.
func (p *Plugin) isAttachable(v *v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || p.translator.IsInlineMigratable(v)
}

// PreFilterExtensions is nil: Filter reads the volumes of other pods from the
// node.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a node that lacks the driver of a volume which is not there
// yet, if the driver asks for that, or that has no room for the volume.
func (p *Plugin) Filter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	// A node without one has no limits.
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

// full says whether volumes that are wanted, beside those that pods use and
// those that are attached, are more than some driver attaches. As upstream has
// it, one that is attached and wanted, but that no pod there uses, counts twice.
func exceedsLimits(limits map[string]int64, wanted, used, attached driverByVolume) bool {
	sum, more := map[string]int64{}, map[string]int64{}
	for _, driver := range used {
		sum[driver]++
	}
	for volume, driver := range attached {
		if _, counted := used[volume]; !counted {
			sum[driver]++
		}
	}
	for volume, driver := range wanted {
		if _, there := used[volume]; !there {
			more[driver]++
		}
	}
	for driver, n := range more {
		if limit, limited := limits[driver]; limited && sum[driver]+n > limit {
			return true
		}
	}
	return false
}

// limitsOf are how many volumes drivers attach to a node; of those that do not
// say, any number.
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

// missing is a driver that is not on the node, and does not want pods there that
// need it. Of several it is the first by name; upstream's is any.
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

// needed says whether a driver wants pods only where it is.
func preventsSchedulingIfMissing(driver *storagev1.CSIDriver) bool {
	return driver.Spec.PreventPodSchedulingIfMissing != nil && *driver.Spec.PreventPodSchedulingIfMissing
}

// hasDriver says whether a driver is on a node; nil has none.
func hasDriver(node *storagev1.CSINode, name string) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
}
