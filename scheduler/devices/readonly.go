package devices

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// ReadOnly returns d for the plugins of a sandbox: they cannot allocate or write
// anything.
func (d *Devices) ReadOnly() framework.Devices { return readOnly{d} }

type readOnly struct{ *Devices }

var (
	errNoAllocation = errors.New("a sandbox allocates no devices")
	errNoWrites     = errors.New("a sandbox writes no claims")
)

func (r readOnly) ResourceClaims() fwk.ResourceClaimTracker { return readOnlyClaims{r.claims} }

func (readOnly) BindClaim(context.Context, *resourceapi.ResourceClaim, *resourceapi.AllocationResult, *v1.Pod) (*resourceapi.ResourceClaim, error) {
	return nil, errNoWrites
}

func (readOnly) UnreserveClaim(context.Context, *resourceapi.ResourceClaim, *v1.Pod) error {
	return errNoWrites
}

// DeallocateClaim does nothing.
func (readOnly) DeallocateClaim(*resourceapi.ResourceClaim) {}

func (readOnly) CreateClaim(context.Context, *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	return nil, errNoWrites
}

func (readOnly) DeleteClaim(context.Context, *resourceapi.ResourceClaim) error { return errNoWrites }

// DeleteStaleClaim does nothing.
func (readOnly) DeleteStaleClaim(*resourceapi.ResourceClaim) {}

func (readOnly) SetExtendedResourceClaimStatus(context.Context, *v1.Pod, *v1.PodExtendedResourceClaimStatus) error {
	return errNoWrites
}

type readOnlyClaims struct{ *claimCache }

func (readOnlyClaims) SignalClaimPendingAllocation(types.UID, *resourceapi.ResourceClaim) error {
	return errNoAllocation
}

func (readOnlyClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return false }

func (readOnlyClaims) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error {
	return errNoAllocation
}

func (readOnlyClaims) AssumedClaimRestore(string, string) {}
