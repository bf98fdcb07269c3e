package devices

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The number of attempts to read a claim whose write is in doubt, and the time between
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

// holdInDoubt keeps the devices of a claim, whose write may have been stored, allocated
// until a read says whether it was. kube-scheduler gives them to other claims, and
// learns from the informer that they had been taken.
func (d *Devices) holdInDoubt(claim *resourceapi.ResourceClaim) {
	claim = claim.DeepCopy()
	d.claims.update(func() {
		d.claims.allocated.add(claim.Status.Allocation)
		d.claims.changed = true
	})
	d.options.Go(func() {
		live := d.readInDoubt(klog.NewContext(context.Background(), d.options.Log), claim)
		d.claims.update(func() {
			d.claims.allocated.remove(claim.Status.Allocation)
			d.claims.changed = true
			if live != nil && live.Status.Allocation == nil {
				// No event of the API server says that the devices are free after all.
				d.addEvent(fwk.ResourceClaim, claim, live)
			}
		})
	})
}

// readInDoubt reads a claim until the API server answers, and assumes what it reads. It
// returns nil if the claim does not exist, or if it gives up.
func (d *Devices) readInDoubt(ctx context.Context, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for range doubtAttempts {
		live, err := d.clientFor(claim).Get(ctx, claim.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			d.assumeWritten(live)
			return live
		}
		d.options.Log.Error(err, "Cannot find out whether a ResourceClaim was allocated; its devices stay allocated", "resourceclaim", klog.KObj(claim))
		if d.sleep(ctx, doubtPause) != nil {
			return nil
		}
	}
	return nil
}
