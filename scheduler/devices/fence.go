package devices

import (
	"context"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
)

// FenceClaims gives claims another resource version that an earlier leader may be about to
// allocate: its write carries the old one and fails, however late it arrives. Otherwise it
// could allocate devices that this leader has given to another claim. Such claims have the
// finalizer, which is written before the allocation, and no allocation: FenceClaims removes
// the finalizer, in the order of their names. Claims that were allocated meanwhile are assumed as
// they are.
//
// The first error that is neither a conflict nor the end of a claim ends it; then it may be
// called again.
func (d *Devices) FenceClaims(ctx context.Context) error {
	all, err := d.claims.List()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *resourceapi.ResourceClaim) int { return strings.Compare(keyOf(a), keyOf(b)) })
	for _, claim := range all {
		_, err := d.fenceClaim(ctx, claim)
		switch {
		case apierrors.IsForbidden(err):
			// Then an earlier leader did not allocate it either.
			d.options.Log.Info("A ResourceClaim cannot be fenced", "resourceclaim", klog.KObj(claim), "reason", err.Error())
		case err != nil:
			return err
		}
	}
	return nil
}

// fenceClaim is FenceClaims for one claim. It returns the claim as it is known then, which is
// assumed, or nil if it does not exist any more. After Forbidden it is not fenced.
func (d *Devices) fenceClaim(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	client := d.clientFor(claim)
	for mayBeAllocated(claim) {
		fenced := claim.DeepCopy()
		removeFinalizer(fenced)
		updated, err := client.Update(ctx, fenced, metav1.UpdateOptions{})
		if err == nil {
			d.assumeWritten(updated)
			return updated, nil
		}
		if apierrors.IsConflict(err) {
			updated, err = d.currentClaim(ctx, claim)
		}
		switch {
		case apierrors.IsNotFound(err), err == nil && updated == nil:
			return nil, nil
		case err != nil:
			return nil, err
		}
		claim = updated
		d.assumeWritten(claim)
	}
	return claim, nil
}

// mayBeAllocated reports whether a claim is in the state between the two writes of
// BindClaim.
func mayBeAllocated(claim *resourceapi.ResourceClaim) bool {
	return claim.Status.Allocation == nil && slices.Contains(claim.Finalizers, resourceapi.Finalizer)
}

// HasSeenClaim reports whether reads return that version of a claim or a newer one, or no
// such claim because the informer has seen its deletion.
func (d *Devices) HasSeenClaim(namespace, name, version string) bool {
	c := d.claims
	c.mu.RLock()
	defer c.mu.RUnlock()
	seen := ""
	if cached := c.claims[namespace+"/"+name]; cached != nil {
		seen = cached.latest.ResourceVersion
	} else if c.lastVersion != nil {
		seen = c.lastVersion()
	}
	order, err := resourceversion.CompareResourceVersion(seen, version)
	return err == nil && order >= 0
}
