// Package volumebinding rejects nodes where a claim of the pod cannot be used: the
// volume of a bound claim must be available to the node, and for a claim that waits for
// its first consumer there must be a volume to bind or capacity to provision one. It
// binds these claims in PreBind.
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
	"k8s.io/apimachinery/pkg/util/validation/field"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is the name of the plugin in profiles.
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
	// timeout is how long PreBind waits for claims to be bound.
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

// New builds the plugin from *configv1.VolumeBindingArgs. It returns an error when they
// are invalid or when handle offers no volumes.
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

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdicts depend on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodVolumes,
		Filter: framework.NodeName | framework.NodeLabels | framework.StorageObjects,
		Score:  framework.NodeName | framework.NodeLabels | framework.StorageObjects,
	}
}

// SignPod signs the pod with its volumes, except for those of generic ephemeral
// volumes.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}, nil
}

// Default sets a timeout of 600 seconds, and a shape that prefers more free storage,
// where they are unset.
func Default(args *configv1.VolumeBindingArgs) {
	if args.BindTimeoutSeconds == nil {
		args.BindTimeoutSeconds = ptr.To[int64](600)
	}
	if len(args.Shape) == 0 {
		args.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	}
}

// maxTimeoutSeconds is a limit below which the timeout does not overflow a
// time.Duration.
const maxTimeoutSeconds = 1 << 33

// Validate returns the invalid fields of defaulted args.
func Validate(args *configv1.VolumeBindingArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch seconds := args.BindTimeoutSeconds; {
	case seconds == nil:
		errs = append(errs, field.Required(path.Child("bindTimeoutSeconds"), "must be a number of seconds"))
	case *seconds < 0:
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *seconds, "must not be negative"))
	case *seconds > maxTimeoutSeconds:
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *seconds, "must not be longer than 2^33 seconds"))
	}
	return append(errs, framework.ValidateShape(args.Shape, path.Child("shape"))...)
}
