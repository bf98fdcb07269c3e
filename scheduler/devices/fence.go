package devices

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// errNotFenced is why a claim is not fenced that the API server accepts without the finalizer.
var errNotFenced = errors.New("the claim keeps its finalizer and its resource version: does a webhook undo changes of its metadata?")

const (
	// fencesInFlight limits the claims that are fenced at a time, as binding.MaxInFlight does
	// for pods.
	fencesInFlight = 64
	// fencePause is the time between two attempts to fence a claim, and fenceTimeout how long one
	// may take, since a request may be lost. The API server waits ten seconds for a webhook that
	// hangs, by default.
	fencePause, fenceTimeout = time.Second, 15 * time.Second
)

// FenceClaims gives claims another resource version that an earlier leader may be about to
// allocate: its write carries the old one and fails, however late it arrives. Otherwise it
// could allocate devices that this leader has given to another claim. Such claims have the
// finalizer, which is written before the allocation, and no allocation: FenceClaims removes
// the finalizer. It begins in the order of their names. Claims that were allocated meanwhile are
// assumed as they are.
//
// It returns the claims that could not be fenced, in no order: the API server refused the write, a
// webhook undid it, or there were other errors until limit or ctx ended. An earlier leader may still
// allocate them, also after a refusal: the write of a status is another subresource, for which other
// rules apply.
func (d *Devices) FenceClaims(ctx context.Context, limit time.Duration) (unfenced []*resourceapi.ResourceClaim) {
	claims := slices.DeleteFunc(d.claims.list(), func(claim *resourceapi.ResourceClaim) bool { return !mayBeAllocated(claim) })
	slices.SortFunc(claims, func(a, b *resourceapi.ResourceClaim) int { return strings.Compare(keyOf(a), keyOf(b)) })
	limited, end := d.limit(ctx, limit)
	defer end()
	var mu sync.Mutex
	framework.ForEach(ctx, framework.Runtime{Go: d.options.Go, Wait: d.options.Wait}, fencesInFlight, claims, func(claim *resourceapi.ResourceClaim) {
		err := d.keepFencing(limited, claim)
		if err == nil {
			return
		}
		d.options.Log.Info("A ResourceClaim cannot be fenced", "resourceclaim", klog.KObj(claim), "reason", err.Error())
		mu.Lock()
		defer mu.Unlock()
		unfenced = append(unfenced, claim)
	})
	return unfenced
}

// keepFencing fences a claim. It returns the last error when the API server refuses that, or
// ctx ends.
func (d *Devices) keepFencing(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for {
		limited, end := d.limit(ctx, fenceTimeout)
		_, err := d.fenceClaim(limited, claim)
		end()
		if err == nil || isRefused(err) || d.sleep(ctx, fencePause) != nil {
			return err
		}
	}
}

// isRefused reports whether the API server or an admission policy refuses a write, so that it
// is of no use to send it again.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// fenceClaim is FenceClaims for one claim. It returns the claim as it is known then, which is
// assumed, or nil if it does not exist any more. After an error it is not fenced: one is a
// conflict if others change the claim again and again.
func (d *Devices) fenceClaim(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	client := d.clientFor(claim)
	for attempt := 1; mayBeAllocated(claim); attempt++ {
		fenced := claim.DeepCopy()
		removeFinalizer(fenced)
		updated, err := client.Update(ctx, fenced, metav1.UpdateOptions{})
		switch {
		// A claim that ended with its finalizer keeps its version, too.
		case err == nil && updated.ResourceVersion == claim.ResourceVersion && mayBeAllocated(updated):
			return nil, errNotFenced
		case err == nil:
			d.assumeWritten(updated)
			return updated, nil
		}
		if apierrors.IsConflict(err) && attempt < conflictAttempts {
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
