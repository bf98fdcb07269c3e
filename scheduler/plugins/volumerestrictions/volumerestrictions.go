// Package volumerestrictions keeps a pod off nodes where another one has a disk
// that it wants, and off all nodes while another one has a claim that only one
// pod may use.
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
	// Name is how profiles name the plugin.
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

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdict depends on.
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

// alone is what a pod wants for itself.
type preFilterState struct {
	// claims are the names of those that one pod may use at a time.
	readWriteOncePodClaims sets.Set[string]
	// uses is how often other pods use them.
	conflictingRefCount int
}

// Clone returns a copy that counts by itself.
func (a *preFilterState) Clone() fwk.StateData {
	clone := *a
	return &clone
}

// shift counts what a pod uses in or out. As upstream's it compares names alone:
// the claims of another namespace may have the same.
func (a *preFilterState) updateWithPod(pod *v1.Pod, by int) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && a.readWriteOncePodClaims.Has(claim.ClaimName) {
			a.conflictingRefCount += by
		}
	}
}

// PreFilter looks for the pod's claims, which have to be there, and for who else
// uses those that one pod may use at a time. A pod skips Filter that has no
// disks, and whose claims nobody else uses.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	wants := &preFilterState{readWriteOncePodClaims: sets.New[string]()}
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
			wants.readWriteOncePodClaims.Insert(claim.Name)
		}
	}
	for name := range wants.readWriteOncePodClaims {
		// Once, however many use it: there should be one at most.
		if p.sharedLister.StorageInfos().IsPVCUsedByPods(pod.Namespace + "/" + name) {
			wants.conflictingRefCount++
		}
	}
	if !disks && wants.conflictingRefCount == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, wants)
	return nil, nil
}

// PreFilterExtensions returns the plugin: a pod that is thought of as gone frees
// its claims on all nodes.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts in the claims of a pod that is thought of as on a node.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return updateState(state, added, 1)
}

// RemovePod counts out the claims of a pod that is thought of as gone.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return updateState(state, removed, -1)
}

func updateState(state fwk.CycleState, pod fwk.PodInfo, by int) *fwk.Status {
	wants, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	wants.updateWithPod(pod.GetPod(), by)
	return nil
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
}

// Filter refuses a node where a pod has one of the disks, and every node while
// some pod uses one of the claims that one pod may use at a time.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	for i := range pod.Spec.Volumes {
		if !isRestrictedVolume(&pod.Spec.Volumes[i]) {
			continue
		}
		for _, there := range node.GetPods() {
			if conflictsWithPod(there.GetPod(), &pod.Spec.Volumes[i]) {
				return fwk.NewStatus(fwk.Unschedulable, reasonDisk)
			}
		}
	}
	wants, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if wants.conflictingRefCount > 0 {
		return fwk.NewStatus(fwk.Unschedulable, reasonClaim)
	}
	return nil
}
