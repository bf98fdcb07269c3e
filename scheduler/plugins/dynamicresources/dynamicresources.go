// Package dynamicresources allocates devices for the ResourceClaims of pods. It rejects
// nodes on which the devices of an allocated claim are not available, or on which a claim
// cannot be allocated, and writes the allocation in PreBind.
//
// Messages, formulas and defaults are those of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources with the default
// feature gates of 1.37.
package dynamicresources

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Name is the name of the plugin in profiles.
const Name = "DynamicResources"

// Plugin is the plugin DynamicResources.
type Plugin struct {
	handle  fwk.Handle
	devices framework.Devices
	clock   clock.PassiveClock
	// filterTimeout bounds the search for devices on one node; 0 for no limit.
	filterTimeout time.Duration
	// bindingTimeout is how long PreBind waits for binding conditions.
	bindingTimeout time.Duration
}

var (
	_ fwk.PreEnqueuePlugin         = (*Plugin)(nil)
	_ fwk.PreFilterPlugin          = (*Plugin)(nil)
	_ fwk.FilterPlugin             = (*Plugin)(nil)
	_ fwk.PostFilterPlugin         = (*Plugin)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*Plugin)(nil)
	_ fwk.ScorePlugin              = (*Plugin)(nil)
	_ fwk.ReservePlugin            = (*Plugin)(nil)
	_ fwk.PreBindPlugin            = (*Plugin)(nil)
	_ fwk.EnqueueExtensions        = (*Plugin)(nil)
	_ fwk.SignPlugin               = (*Plugin)(nil)
	_ framework.ReadsDeclarer      = (*Plugin)(nil)
	_ framework.DeviceReporter     = (*Plugin)(nil)
)

// New builds the plugin from *configv1.DynamicResourcesArgs. It returns an error if they
// are invalid, or if handle offers no devices.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.DynamicResourcesArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := Validate(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	devices, err := framework.DevicesOf(handle)
	if err != nil {
		return nil, err
	}
	return &Plugin{
		handle: handle, devices: devices, clock: framework.ClockOf(handle),
		filterTimeout: typed.FilterTimeout.Duration, bindingTimeout: typed.BindingTimeout.Duration,
	}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdicts depend on. It does not name
// the requests: a pod that requests devices by them belongs to no class.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodDevices,
		Filter: framework.NodeName | framework.NodeLabels | framework.NodeAllocatable | framework.DeviceObjects,
		Score:  framework.NodeName | framework.NodeLabels | framework.DeviceObjects,
	}
}

// SignPod signs no pod with claims. NodeResourcesFit signs none with extended resources
// that a class backs.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with dra resource claims are not signable")
	}
	return nil, nil
}

// Default sets timeouts of 10 seconds for Filter and of 600 seconds for binding
// conditions, where they are unset.
func Default(args *configv1.DynamicResourcesArgs) {
	if args.FilterTimeout == nil {
		args.FilterTimeout = &metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault}
	}
	if args.BindingTimeout == nil {
		args.BindingTimeout = &metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault}
	}
}

// Validate returns the invalid fields of defaulted args.
func Validate(args *configv1.DynamicResourcesArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch timeout := args.FilterTimeout; {
	case timeout == nil:
		errs = append(errs, field.Required(path.Child("filterTimeout"), "must be a duration"))
	case timeout.Duration < 0:
		errs = append(errs, field.Invalid(path.Child("filterTimeout"), timeout.Duration.String(), "must be zero or positive"))
	}
	switch timeout := args.BindingTimeout; {
	case timeout == nil:
		errs = append(errs, field.Required(path.Child("bindingTimeout"), "must be a duration"))
	case timeout.Duration < time.Second:
		errs = append(errs, field.Invalid(path.Child("bindingTimeout"), timeout.Duration.String(), "must be at least 1 second"))
	}
	return errs
}

// claimsOf returns the claims of a pod. A claim that was not generated, since the pod does
// not need it, is left out. The error says that a claim does not exist, is being deleted,
// or belongs to another pod.
func (p *Plugin) claimsOf(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	var claims []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, mustBeOwner, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim, err := p.devices.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		if claim.DeletionTimestamp != nil {
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		}
		if mustBeOwner {
			if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
				return nil, err
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// unresolvable returns the status of a refusal, which preemption cannot resolve.
func unresolvable(message string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message)
}
