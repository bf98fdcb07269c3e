package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
)

// The API server checks a write of allocation or reservations as one of the subresource
// binding too, on which it is allowed since Kubernetes 1.36.
//
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims,verbs=get;create;update;delete,roleName=device-allocator-role
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims/status;resourceclaims/binding,verbs=update;patch,roleName=device-allocator-role

func (d *Devices) clientFor(claim *resourceapi.ResourceClaim) resourceclient.ResourceClaimInterface {
	return d.options.Client.ResourceV1().ResourceClaims(claim.Namespace)
}

// binding is one call of BindClaim.
type binding struct {
	*Devices
	client resourceclient.ResourceClaimInterface
	// allocation is that with which the pod was placed. allocate says that it is to be
	// written; otherwise the claim had it.
	allocation *resourceapi.AllocationResult
	allocate   bool
	pod        *v1.Pod
	// claim is the claim as it was read or written last, with the changes to be written.
	claim *resourceapi.ResourceClaim
	// written is the claim as it was written last, nil if nothing was written.
	written *resourceapi.ResourceClaim
}

// BindClaim adds the finalizer and the allocation to a claim, unless allocation is nil,
// and the reservation for a pod. A reservation that the pod has already is removed and
// added anew: an earlier write that is still under way, such as a deallocation, has an
// older resource version then and fails. It returns the claim as it was written last, also
// with an error, and nil if nothing was written. That version is assumed.
func (d *Devices) BindClaim(ctx context.Context, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult, pod *v1.Pod) (*resourceapi.ResourceClaim, error) {
	if claim.ResourceVersion == "" {
		// The API server would overwrite changes by others.
		return nil, fmt.Errorf("claim %s: metadata.resourceVersion: is empty, want that of a claim in the API server", klog.KObj(claim))
	}
	b := &binding{Devices: d, client: d.clientFor(claim), allocation: claim.Status.Allocation, allocate: allocation != nil, pod: pod, claim: claim.DeepCopy()}
	if b.allocate {
		b.allocation = allocation
	}
	err := d.retryOnConflict(ctx, func(again bool) error {
		if again {
			if err := b.refresh(ctx); err != nil {
				return err
			}
		}
		return b.write(ctx)
	})
	if b.written != nil {
		d.assumeWritten(b.written)
	}
	return b.written, err
}

// refresh reads the claim after a conflict.
func (b *binding) refresh(ctx context.Context) error {
	fresh, err := b.client.Get(ctx, b.claim.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get updated claim %s after conflict: %w", klog.KObj(b.claim), err)
	}
	if fresh.UID != b.claim.UID {
		return fmt.Errorf("claim %s got deleted in the meantime", klog.KObj(b.claim))
	}
	b.claim = fresh
	return nil
}

// write ends an earlier reservation for the pod, adds the finalizer, and writes the status.
// Each write has the resource version of the claim that was checked.
func (b *binding) write(ctx context.Context) error {
	switch {
	case b.claim.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s got deleted in the meantime", klog.KObj(b.claim))
	case b.claim.Status.Allocation == nil && !b.allocate:
		return fmt.Errorf("claim %s got deallocated elsewhere in the meantime", klog.KObj(b.claim))
	case b.claim.Status.Allocation != nil && !isSameAllocation(b.allocation, b.claim.Status.Allocation):
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", klog.KObj(b.claim))
	}
	if err := b.removeReservation(ctx); err != nil {
		return err
	}
	action := "add reservation"
	// Another pod of the group may have written the allocation.
	allocates := b.claim.Status.Allocation == nil
	if allocates {
		action = "add allocation and reservation"
		if err := b.addFinalizer(ctx); err != nil {
			return err
		}
		b.claim.Status.Allocation = b.allocation.DeepCopy()
		// kube-scheduler adds the time to any allocation without one, which the API server refuses.
		if b.claim.Status.Allocation.AllocationTimestamp == nil {
			b.claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: b.options.Clock.Now()}
		}
	}
	// The API server rejects a reservation that is not possible.
	b.claim.Status.ReservedFor = append(b.claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
		Resource: "pods", Name: b.pod.Name, UID: b.pod.UID,
	})
	updated, err := b.client.UpdateStatus(ctx, b.claim, metav1.UpdateOptions{})
	if err != nil {
		if allocates && mayBeWritten(err) {
			b.holdInDoubt(b.claim)
		}
		return fmt.Errorf("%s to claim %s: %w", action, klog.KObj(b.claim), err)
	}
	b.claim, b.written = updated, updated
	return nil
}

// removeReservation removes the reservation for the pod that an earlier attempt has left.
func (b *binding) removeReservation(ctx context.Context) error {
	others := slices.DeleteFunc(slices.Clone(b.claim.Status.ReservedFor), func(consumer resourceapi.ResourceClaimConsumerReference) bool { return consumer.UID == b.pod.UID })
	if len(others) == len(b.claim.Status.ReservedFor) {
		return nil
	}
	b.claim.Status.ReservedFor = others
	updated, err := b.client.UpdateStatus(ctx, b.claim, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("remove earlier reservation from claim %s: %w", klog.KObj(b.claim), err)
	}
	b.claim, b.written = updated.DeepCopy(), updated
	return nil
}

// isSameAllocation reports whether a claim has the allocation with which a pod was placed.
// kube-scheduler reserves a claim that was allocated anew elsewhere, after a conflict.
func isSameAllocation(chosen, written *resourceapi.AllocationResult) bool {
	undated := *written
	undated.AllocationTimestamp = chosen.AllocationTimestamp
	return equality.Semantic.DeepEqual(chosen, &undated)
}

// addFinalizer adds the finalizer, which a write of the status cannot add.
func (b *binding) addFinalizer(ctx context.Context) error {
	if slices.Contains(b.claim.Finalizers, resourceapi.Finalizer) {
		return nil
	}
	b.claim.Finalizers = append(b.claim.Finalizers, resourceapi.Finalizer)
	updated, err := b.client.Update(ctx, b.claim, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("add finalizer to claim %s: %w", klog.KObj(b.claim), err)
	}
	b.claim, b.written = updated.DeepCopy(), updated
	return nil
}

// removeFinalizer removes what addFinalizer adds from a claim in memory.
func removeFinalizer(claim *resourceapi.ResourceClaim) {
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(name string) bool { return name == resourceapi.Finalizer })
}

// UnreserveClaim removes a pod's reservation from a claim, unless the claim was deleted or
// is not reserved for the pod any more. A conflict is retried with the newest claim; the
// claim as written is assumed. The patch has the claim's resource version, so that it
// cannot remove the reservation of a later attempt when it arrives late. kube-scheduler's
// has none.
func (d *Devices) UnreserveClaim(ctx context.Context, claim *resourceapi.ResourceClaim, pod *v1.Pod) error {
	client, version := d.clientFor(claim), claim.ResourceVersion
	return d.retryOnConflict(ctx, func(again bool) error {
		if again {
			fresh, err := d.currentClaim(ctx, claim)
			if err != nil || fresh == nil || !resourceclaim.IsReservedForPod(pod, fresh, false) {
				return err
			}
			version = fresh.ResourceVersion
		}
		patch := fmt.Sprintf(`{"metadata": {"uid": %q, "resourceVersion": %q}, "status": { "reservedFor": [ {"$patch": "delete", "uid": %q} ] }}`, claim.UID, version, pod.UID)
		patched, err := client.Patch(ctx, claim.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
		d.assumeWritten(patched)
		return nil
	})
}

// currentClaim reads a claim after a conflict. It returns nil if the claim does not exist any
// more.
func (d *Devices) currentClaim(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	fresh, err := d.clientFor(claim).Get(ctx, claim.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && fresh.UID != claim.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get resourceclaim %s after conflict: %w", klog.KObj(claim), err)
	}
	return fresh, nil
}

// assumeWritten makes reads return the API server's answer to a write, until the informer
// delivers it. An error is normal: the claim was deleted, or there is a newer version.
func (d *Devices) assumeWritten(claim *resourceapi.ResourceClaim) {
	d.claims.update(func() {
		if err := d.claims.assume(claim, true); err != nil {
			d.options.Log.V(5).Info("Claim not stored in assume cache", "claim", klog.KObj(claim), "reason", err.Error())
		}
	})
}

// The number of attempts and the time between two, as in retry.DefaultRetry of client-go.
const (
	conflictAttempts = 5
	conflictPause    = 10 * time.Millisecond
)

// retryOnConflict calls do until its error is no conflict, at most conflictAttempts
// times, and returns the last error. again is false in the first call.
func (d *Devices) retryOnConflict(ctx context.Context, do func(again bool) error) error {
	err := do(false)
	for attempt := 1; apierrors.IsConflict(err) && attempt < conflictAttempts; attempt++ {
		if waitErr := d.sleep(ctx, conflictPause); waitErr != nil {
			return waitErr
		}
		err = do(true)
	}
	return err
}
