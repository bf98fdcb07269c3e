package devices

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The events that requeue the pods of a claim. CustomLabel is the event's name in metrics.
var (
	// eventDeallocationFailed says that a claim could not be deallocated, so that the next
	// attempts of its pods see the claim as it is.
	eventDeallocationFailed = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ClaimDeallocationFailed"}
	// eventStaleClaim says that the claim of an earlier attempt was deleted, or could not
	// be. The hints of the deletion pass a claim by that was not allocated.
	eventStaleClaim = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "StaleClaimDeletion"}
)

// DeallocateClaim removes allocation, reservations and device status of a claim, in the
// background: kube-scheduler waits for the API server in the scheduling cycle. claim is
// the version for which the caller decided that nobody needs it. A claim that is reserved
// in a newer version is left as it is: BindClaim may have renewed the reservation for a pod
// that is being bound. The next attempt of the pod decides by that version.
func (d *Devices) DeallocateClaim(claim *resourceapi.ResourceClaim) {
	d.options.Go(func() {
		err := d.deallocate(klog.NewContext(context.Background(), d.options.Log), claim)
		if err == nil {
			return
		}
		d.options.Log.Error(err, "Deallocating a ResourceClaim failed", "resourceclaim", klog.KObj(claim))
		d.requeue(eventDeallocationFailed, nil, nil, func(pod *v1.Pod) bool { return uses(pod, claim) })
	})
}

func (d *Devices) deallocate(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	client, current := d.clientFor(claim), claim
	return d.retryOnConflict(ctx, func(again bool) error {
		if again {
			fresh, err := d.currentClaim(ctx, claim)
			if err != nil || fresh == nil || fresh.Status.Allocation == nil {
				return err
			}
			if err := checkUnused(claim, fresh); err != nil {
				return err
			}
			current = fresh
		}
		emptied := current.DeepCopy()
		emptied.Status = resourceapi.ResourceClaimStatus{}
		updated, err := client.UpdateStatus(ctx, emptied, metav1.UpdateOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		d.assumeWritten(updated)
		return nil
	})
}

// checkUnused returns an error if a newer version of a claim has another allocation, or
// is reserved.
func checkUnused(claim, fresh *resourceapi.ResourceClaim) error {
	switch {
	case !equality.Semantic.DeepEqual(claim.Status.Allocation, fresh.Status.Allocation):
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", klog.KObj(claim))
	case len(fresh.Status.ReservedFor) > 0:
		consumer := fresh.Status.ReservedFor[0]
		return fmt.Errorf("claim %s has changed, and is reserved for %s %s", klog.KObj(claim), consumer.Resource, consumer.Name)
	}
	return nil
}

// uses reports whether a pod owns a claim, or names it in its spec or its status.
func uses(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	if pod.Namespace != claim.Namespace {
		return false
	}
	isIt := func(name *string) bool { return name != nil && *name == claim.Name }
	extended := pod.Status.ExtendedResourceClaimStatus
	if metav1.IsControlledBy(claim, pod) {
		return true
	}
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(r v1.PodResourceClaim) bool { return isIt(r.ResourceClaimName) }) ||
		slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(s v1.PodResourceClaimStatus) bool { return isIt(s.ResourceClaimName) }) ||
		extended != nil && extended.ResourceClaimName == claim.Name
}
