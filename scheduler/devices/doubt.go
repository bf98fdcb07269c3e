package devices

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The number of attempts to fence a claim whose write is in doubt, and the time between
// two. An informer that has no events for longer is no base for allocations anyway.
const (
	doubtAttempts = 300
	doubtPause    = time.Second
)

// mayBeWritten reports whether a write with this error may have been stored: its
// connection may have broken after the API server got it.
func mayBeWritten(err error) bool {
	return !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) &&
		!apierrors.IsBadRequest(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsMethodNotSupported(err) && !apierrors.IsTooManyRequests(err)
}

// holdInDoubt keeps the devices of a claim, whose write may have been stored or may yet be,
// allocated until the outcome is known. kube-scheduler gives them to other claims, and
// learns from the informer that they had been taken.
func (d *Devices) holdInDoubt(claim *resourceapi.ResourceClaim) {
	claim = claim.DeepCopy()
	d.claims.update(func() {
		d.claims.allocated.add(claim.Status.Allocation)
		d.claims.changed = true
	})
	d.options.Go(func() {
		live := d.endDoubt(klog.NewContext(context.Background(), d.options.Log), claim)
		d.claims.update(func() {
			d.claims.allocated.remove(claim.Status.Allocation)
			d.claims.changed = true
			// No event of the API server says that the devices are free after all.
			switch {
			case live == nil:
				d.addEvent(fwk.ResourceClaim, claim, nil)
			case live.Status.Allocation == nil:
				d.addEvent(fwk.ResourceClaim, claim, live)
			}
		})
	})
}

// endDoubt fences a claim until the API server answers: a write that it has not stored by
// then fails. It returns the claim as it is then, and nil if it does not exist or if
// endDoubt gives up.
func (d *Devices) endDoubt(ctx context.Context, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	unwritten := claim.DeepCopy()
	unwritten.Status.Allocation = nil
	for range doubtAttempts {
		live, err := d.fenceClaim(ctx, unwritten)
		if err == nil {
			return live
		}
		d.options.Log.Error(err, "Cannot find out whether a ResourceClaim was allocated; its devices stay allocated", "resourceclaim", klog.KObj(claim))
		if d.sleep(ctx, doubtPause) != nil {
			return nil
		}
	}
	return nil
}
