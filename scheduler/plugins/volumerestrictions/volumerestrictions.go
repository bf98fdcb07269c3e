// Package volumerestrictions rejects nodes where another pod uses a disk of the pod,
// and all nodes while another pod uses a ReadWriteOncePod claim of the pod.
package volumerestrictions

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "VolumeRestrictions"

	reasonDisk  = "node(s) had no available disk"
	reasonClaim = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"

	preFilterStateKey fwk.StateKey = Name + "/filter"
)

// Plugin compares the disks and claims of pods.
type Plugin struct {
	claims       corelisters.PersistentVolumeClaimLister
	sharedLister fwk.SharedLister
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
	_ framework.ReadsDeclarer = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &Plugin{
		claims:       handle.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Lister(),
		sharedLister: handle.SnapshotSharedLister(),
	}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodVolumes,
		Filter: framework.NodePods | framework.StorageObjects | framework.ClaimsInUse,
	}
}

// SignPod signs the pod with its volumes.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}, nil
}

// preFilterState holds the ReadWriteOncePod claims of the pod.
type preFilterState struct {
	// readWriteOncePodClaims are the names of these claims.
	readWriteOncePodClaims sets.Set[string]
	// conflictingRefCount is the number of uses of these claims by other pods.
	conflictingRefCount int
}

// Clone returns a copy whose count AddPod and RemovePod can change.
func (a *preFilterState) Clone() fwk.StateData {
	clone := *a
	return &clone
}

// updateWithPod adds by for each claim that the pod uses. As upstream, it compares only
// names: a claim in another namespace may have the same name.
func (a *preFilterState) updateWithPod(pod *v1.Pod, by int) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && a.readWriteOncePodClaims.Has(claim.ClaimName) {
			a.conflictingRefCount += by
		}
	}
}

// PreFilter checks that the pod's claims exist, and counts the uses of its
// ReadWriteOncePod claims by other pods. It skips Filter for a pod that has no disks
// and whose ReadWriteOncePod claims no other pod uses.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s := &preFilterState{readWriteOncePodClaims: sets.New[string]()}
	disks := false
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		disks = disks || isRestrictedVolume(volume)
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(volume.PersistentVolumeClaim.ClaimName)
		if apierrors.IsNotFound(err) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		if slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
			s.readWriteOncePodClaims.Insert(claim.Name)
		}
	}
	for name := range s.readWriteOncePodClaims {
		// Counted once for any number of users: there should be at most one.
		if p.sharedLister.StorageInfos().IsPVCUsedByPods(pod.Namespace + "/" + name) {
			s.conflictingRefCount++
		}
	}
	if !disks && s.conflictingRefCount == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, s)
	return nil, nil
}

// PreFilterExtensions returns the plugin: a pod that is assumed to be removed frees its
// claims for all nodes.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts the claims of a pod that is assumed to be on a node.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return updateState(state, added, 1)
}

// RemovePod stops counting the claims of a pod that is assumed to be removed.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return updateState(state, removed, -1)
}

func updateState(state fwk.CycleState, pod fwk.PodInfo, by int) *fwk.Status {
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s.updateWithPod(pod.GetPod(), by)
	return nil
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
}

// Filter rejects a node where a pod uses one of the pod's disks, and every node while
// another pod uses one of its ReadWriteOncePod claims.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	for i := range pod.Spec.Volumes {
		if !isRestrictedVolume(&pod.Spec.Volumes[i]) {
			continue
		}
		for _, existing := range node.GetPods() {
			if conflictsWithPod(existing.GetPod(), &pod.Spec.Volumes[i]) {
				return fwk.NewStatus(fwk.Unschedulable, reasonDisk)
			}
		}
	}
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.conflictingRefCount > 0 {
		return fwk.NewStatus(fwk.Unschedulable, reasonClaim)
	}
	return nil
}

// isRestrictedVolume reports whether a volume is of a type that conflicts with other
// uses.
func isRestrictedVolume(v *v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// conflictsWithPod reports whether a volume of pod conflicts with volume. An AWS EBS
// volume can have one user on a node; other disks can have several if all of them are
// read-only.
func conflictsWithPod(pod *v1.Pod, v *v1.Volume) bool {
	for i := range pod.Spec.Volumes {
		if volumesConflict(v, &pod.Spec.Volumes[i]) {
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
