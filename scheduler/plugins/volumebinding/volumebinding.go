// Package volumebinding keeps a pod off nodes where its claims cannot be had: a
// bound claim's volume must be reachable from the node, and for one that waits
// for its first consumer there must be a volume to bind, or room to provision
// one. It binds such claims on the pod's way to its node.
//
// Formulas, reasons, errors and defaults are those of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding.
package volumebinding

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "VolumeBinding"

	reasonImmediate      = "pod has unbound immediate PersistentVolumeClaims"
	reasonNoVolume       = "node(s) didn't find available persistent volumes to bind"
	reasonAffinity       = "node(s) didn't match PersistentVolume's node affinity"
	reasonNoSpace        = "node(s) did not have enough free storage"
	reasonVolumeNotFound = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// Plugin finds volumes for claims.
type Plugin struct {
	volumes framework.Volumes
	// timeout is how long a claim may take to be bound.
	timeout time.Duration
	shape   framework.Shape

	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	claims     corelisters.PersistentVolumeClaimLister
	classes    storagelisters.StorageClassLister
	csiNodes   storagelisters.CSINodeLister
	drivers    storagelisters.CSIDriverLister
	capacities storagelisters.CSIStorageCapacityLister
	translator csitranslation.CSITranslator
}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.PreScorePlugin          = (*Plugin)(nil)
	_ fwk.ScorePlugin             = (*Plugin)(nil)
	_ fwk.ReservePlugin           = (*Plugin)(nil)
	_ fwk.PreBindPlugin           = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
)

// New builds the plugin from *configv1.VolumeBindingArgs. The error says what is
// wrong with them, or that handle lends no volumes.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.VolumeBindingArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := Validate(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	volumes, err := framework.VolumesOf(handle)
	if err != nil {
		return nil, err
	}
	core, storage := handle.SharedInformerFactory().Core().V1(), handle.SharedInformerFactory().Storage().V1()
	return &Plugin{
		volumes:    volumes,
		timeout:    time.Duration(*typed.BindTimeoutSeconds) * time.Second,
		shape:      framework.NewShape(typed.Shape),
		pods:       core.Pods().Lister(),
		nodes:      core.Nodes().Lister(),
		claims:     core.PersistentVolumeClaims().Lister(),
		classes:    storage.StorageClasses().Lister(),
		csiNodes:   storage.CSINodes().Lister(),
		drivers:    storage.CSIDrivers().Lister(),
		capacities: storage.CSIStorageCapacities().Lister(),
		translator: csitranslation.New(),
	}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdicts depend on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodVolumes,
		Filter: framework.NodeName | framework.NodeLabels | framework.StorageObjects,
		Score:  framework.NodeName | framework.NodeLabels | framework.StorageObjects,
	}
}

// SignPod signs the pod with its volumes, but for those that are made for it.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}, nil
}
