// Package volumezone keeps a pod on nodes in the zones and regions of its
// volumes, where labels of the volumes say which those are.
package volumezone

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "VolumeZone"

	reasonZone      = "node(s) had no available volume zone"
	reasonNameless  = "PersistentVolumeClaim had no name"
	reasonClassless = "PersistentVolumeClaim had no pv name and storageClass name"
	reasonUnbound   = "PersistentVolume had no name"
	reasonNoMode    = "VolumeBindingMode not set for StorageClass %q"

	filterKey fwk.StateKey = Name + "/filter"
)

// Plugin compares labels of volumes and nodes.
type Plugin struct {
	volumes corelisters.PersistentVolumeLister
	claims  corelisters.PersistentVolumeClaimLister
	classes storagelisters.StorageClassLister
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
	_ framework.Reader      = (*Plugin)(nil)
	_ framework.Excluder    = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	informers := handle.SharedInformerFactory()
	return &Plugin{
		volumes: informers.Core().V1().PersistentVolumes().Lister(),
		claims:  informers.Core().V1().PersistentVolumeClaims().Lister(),
		classes: informers.Storage().V1().StorageClasses().Lister(),
	}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodVolumes,
		Filter: framework.NodeLabels | framework.StorageObjects,
	}
}

// SignPod signs the pod with its volumes.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}, nil
}

// PreFilter reads where the volumes are that the pod's claims are bound to. A
// pod skips Filter whose volumes do not say.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	places, status := p.placesOf(pod)
	if !status.IsSuccess() {
		return nil, status
	}
	if len(places) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, places)
	return nil, nil
}

// placesOf reads the labels of all volumes that the pod's claims are bound to. A
// claim that is not bound must be one that waits for its first pod.
func (p *Plugin) placesOf(pod *v1.Pod) (places, *fwk.Status) {
	var all places
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		if source.ClaimName == "" {
			return nil, unresolvable(reasonNameless)
		}
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(source.ClaimName)
		if err != nil {
			return nil, failed(err)
		}
		if claim.Spec.VolumeName == "" {
			if status := p.waits(claim); !status.IsSuccess() {
				return nil, status
			}
			continue
		}
		bound, err := p.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return nil, failed(err)
		}
		all = append(all, placesOfVolume(bound)...)
	}
	return all, nil
}

// waits says what keeps a claim from being bound once its pod has a node.
func (p *Plugin) waits(claim *v1.PersistentVolumeClaim) *fwk.Status {
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return unresolvable(reasonClassless)
	}
	class, err := p.classes.Get(name)
	switch {
	case err != nil:
		return failed(err)
	case class.VolumeBindingMode == nil:
		return unresolvable(fmt.Sprintf(reasonNoMode, name))
	case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return unresolvable(reasonUnbound)
	}
	return nil
}

// PreFilterExtensions is nil: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a node that says where it is, if that is not where the volumes
// are. Where PreFilter is not enabled it looks for them itself.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	note, _ := state.Read(filterKey)
	all, ok := note.(places)
	if !ok {
		var status *fwk.Status
		if all, status = p.placesOf(pod); !status.IsSuccess() {
			return status
		}
	}
	if !all.hold(node.Node()) {
		return unresolvable(reasonZone)
	}
	return nil
}

// Excludes reports whether Filter refuses the node: neither a bound volume nor a
// node changes its zone.
func (p *Plugin) Excludes(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return p.Filter(context.Background(), state, pod, node).IsRejected()
}

func unresolvable(reason string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

func failed(err error) *fwk.Status {
	if apierrors.IsNotFound(err) {
		return unresolvable(err.Error())
	}
	return fwk.AsStatus(err)
}
