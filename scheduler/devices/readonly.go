package devices

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// ReadOnly returns d for the plugins of a sandbox that shares d with the scheduler: they
// cannot allocate or write anything.
func (d *Devices) ReadOnly() framework.Devices { return readOnly{offline{d}} }

// Offline returns d for the plugins of a sandbox that has d for itself: they can allocate
// devices, and write nothing.
func (d *Devices) Offline() framework.Devices { return offline{d} }

// EndAllocation ends the allocation in flight for which claim was written, or whose claim
// was deleted. Sandboxes call it, in which no pod reaches PreBind.
func (d *Devices) EndAllocation(claim *resourceapi.ResourceClaim) {
	c := d.claims
	c.mu.RLock()
	uid := claim.UID
	for pendingUID, pending := range c.pending {
		if pending.claim.Name == framework.ExtendedClaimName && sameOwner(pending.claim, claim) {
			uid = pendingUID
		}
	}
	c.mu.RUnlock()
	c.MaybeRemoveClaimPendingAllocation(uid, true)
}

// sameOwner reports whether two claims belong to one pod.
func sameOwner(a, b *resourceapi.ResourceClaim) bool {
	ownerA, ownerB := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	return ownerA != nil && ownerB != nil && ownerA.UID == ownerB.UID && b.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

type offline struct{ *Devices }

type readOnly struct{ offline }

var (
	errNoAllocation = errors.New("a sandbox allocates no devices")
	errNoWrites     = errors.New("a sandbox writes no claims")
)

func (r readOnly) ResourceClaims() fwk.ResourceClaimTracker { return readOnlyClaims{r.claims} }

func (offline) BindClaim(context.Context, *resourceapi.ResourceClaim, *resourceapi.AllocationResult, *v1.Pod) (*resourceapi.ResourceClaim, error) {
	return nil, errNoWrites
}

func (offline) UnreserveClaim(context.Context, *resourceapi.ResourceClaim, *v1.Pod) error {
	return errNoWrites
}

// EndPending does nothing, as nothing is pending.
func (readOnly) EndPending(types.UID, bool) bool { return false }

// DeallocateClaim does nothing.
func (offline) DeallocateClaim(*resourceapi.ResourceClaim) {}

func (offline) CreateClaim(context.Context, *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	return nil, errNoWrites
}

func (offline) DeleteClaim(context.Context, *resourceapi.ResourceClaim) error { return errNoWrites }

// DeleteStaleClaim does nothing.
func (offline) DeleteStaleClaim(*resourceapi.ResourceClaim) {}

func (offline) SetExtendedResourceClaimStatus(context.Context, *v1.Pod, *v1.PodExtendedResourceClaimStatus) error {
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
