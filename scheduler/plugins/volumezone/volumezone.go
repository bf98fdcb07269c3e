// Package volumezone places a pod in the zones and regions of its volumes, if labels of
// the volumes name these.
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
	// Name is the name of the plugin in profiles.
	Name = "VolumeZone"

	reasonZone              = "node(s) had no available volume zone"
	reasonClaimWithoutName  = "PersistentVolumeClaim had no name"
	reasonClaimWithoutClass = "PersistentVolumeClaim had no pv name and storageClass name"
	reasonVolumeWithoutName = "PersistentVolume had no name"
	reasonNoBindingMode     = "VolumeBindingMode not set for StorageClass %q"

	preFilterStateKey fwk.StateKey = Name + "/filter"
)

// Plugin compares topology labels of volumes and nodes.
type Plugin struct {
	volumes corelisters.PersistentVolumeLister
	claims  corelisters.PersistentVolumeClaimLister
	classes storagelisters.StorageClassLister
}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
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

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdict depends on.
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

// PreFilter reads the topology labels of the volumes that the pod's claims are bound
// to. It skips Filter if there are none.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	topologies, status := p.topologiesOfPod(pod)
	if !status.IsSuccess() {
		return nil, status
	}
	if len(topologies) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, topologies)
	return nil, nil
}

// topologiesOfPod reads the topology labels of all volumes that the pod's claims are
// bound to. It returns a status if an unbound claim does not wait for its first
// consumer.
func (p *Plugin) topologiesOfPod(pod *v1.Pod) (pvTopologies, *fwk.Status) {
	var topologies pvTopologies
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		if source.ClaimName == "" {
			return nil, unresolvableStatus(reasonClaimWithoutName)
		}
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(source.ClaimName)
		if err != nil {
			return nil, errorStatus(err)
		}
		if claim.Spec.VolumeName == "" {
			if status := p.checkUnboundClaim(claim); !status.IsSuccess() {
				return nil, status
			}
			continue
		}
		bound, err := p.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return nil, errorStatus(err)
		}
		topologies = append(topologies, topologiesOfVolume(bound)...)
	}
	return topologies, nil
}

// checkUnboundClaim returns a status if an unbound claim does not wait for its first
// consumer.
func (p *Plugin) checkUnboundClaim(claim *v1.PersistentVolumeClaim) *fwk.Status {
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return unresolvableStatus(reasonClaimWithoutClass)
	}
	class, err := p.classes.Get(name)
	switch {
	case err != nil:
		return errorStatus(err)
	case class.VolumeBindingMode == nil:
		return unresolvableStatus(fmt.Sprintf(reasonNoBindingMode, name))
	case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return unresolvableStatus(reasonVolumeWithoutName)
	}
	return nil
}

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a node whose topology labels do not match those of the volumes. In a
// profile that does not enable PreFilter it reads the volumes itself.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, _ := state.Read(preFilterStateKey)
	topologies, ok := data.(pvTopologies)
	if !ok {
		var status *fwk.Status
		if topologies, status = p.topologiesOfPod(pod); !status.IsSuccess() {
			return status
		}
	}
	if !topologies.matches(node.Node()) {
		return unresolvableStatus(reasonZone)
	}
	return nil
}

// RejectsPermanently reports whether Filter rejects the node: neither bound volumes nor
// nodes change their zone.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return p.Filter(context.Background(), state, pod, node).IsRejected()
}

func unresolvableStatus(reason string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

func errorStatus(err error) *fwk.Status {
	if apierrors.IsNotFound(err) {
		return unresolvableStatus(err.Error())
	}
	return fwk.AsStatus(err)
}
