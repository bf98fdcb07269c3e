package devices

import (
	"fmt"
	"net/http"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// claimCache holds the newest known version of each claim, which may be one that the
// informer has not delivered yet, the allocations that are in flight, and the devices
// that both hold: all under one lock, so that no reader finds a device free between two
// steps of one allocation. It is safe for concurrent use.
type claimCache struct {
	parent *Devices

	mu sync.RWMutex
	// claims are by namespace/name.
	claims map[string]*cachedClaim
	// owned are the namespaces/names of claims by the UID of their controller.
	owned map[types.UID]sets.Set[string]
	// pending are the allocations in flight by the UID of the claim.
	pending   map[types.UID]*pendingAllocation
	allocated allocatedDevices
	// changed says that the running update has changed what reads return.
	changed bool

	// creating counts the calls of CreateClaim that wait for the API server, and
	// deleted are the UIDs of claims that were deleted meanwhile.
	creating int
	deleted  sets.Set[types.UID]
	// lastVersion returns the version of the newest object of the informer; nil before
	// useInformer.
	lastVersion func() string
}

// cachedClaim is one claim.
type cachedClaim struct {
	// latest is the version that reads return.
	latest *resourceapi.ResourceClaim
	// api is the version that the informer delivered last; nil before it did.
	api *resourceapi.ResourceClaim
	// written says that latest is the API server's answer to a write of Devices, which the
	// informer has not delivered yet: nothing but a newer version replaces it.
	written bool
}

func newClaimCache(parent *Devices) *claimCache {
	return &claimCache{
		parent: parent, claims: map[string]*cachedClaim{}, owned: map[types.UID]sets.Set[string]{}, pending: map[types.UID]*pendingAllocation{},
		allocated: newAllocatedDevices(), deleted: sets.New[types.UID](),
	}
}

func keyOf(claim metav1.Object) string { return toolscache.MetaObjectToName(claim).String() }

// useInformer follows the claims of an informer.
func (c *claimCache) useInformer(claims toolscache.SharedIndexInformer) (toolscache.ResourceEventHandlerRegistration, error) {
	c.mu.Lock()
	c.lastVersion = claims.LastSyncResourceVersion
	c.mu.Unlock()
	observe := func(obj any) {
		if claim, ok := obj.(*resourceapi.ResourceClaim); ok {
			c.update(func() { c.observe(claim) })
		}
	}
	return claims.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: observe, UpdateFunc: func(_, obj any) { observe(obj) },
		DeleteFunc: func(obj any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = tombstone.Obj
				}
				claim, _ := obj.(*resourceapi.ResourceClaim)
				c.update(func() { c.observeDeletion(key, claim) })
			}
		},
	})
}

// observe handles a version that the informer delivers. A version that is not newer than
// the latest one is no event: the scheduler knows what comes after it.
func (c *claimCache) observe(claim *resourceapi.ResourceClaim) {
	key := keyOf(claim)
	cached := c.claims[key]
	if cached == nil {
		cached = &cachedClaim{}
		c.claims[key] = cached
	}
	cached.api = claim
	switch order, err := compareVersions(claim, cached.latest); {
	case err != nil || order > 0:
		cached.written = false
		c.setLatest(key, cached, claim)
	case order == 0 && cached.written:
		c.allocated.replace(cached.latest, claim)
		cached.latest, cached.written = claim, false
	}
}

// observeDeletion handles a deletion. claim is the deleted version, nil if unknown.
func (c *claimCache) observeDeletion(key string, claim *resourceapi.ResourceClaim) {
	if claim != nil && c.creating > 0 {
		c.deleted.Insert(claim.UID)
	}
	cached := c.claims[key]
	if cached == nil {
		return
	}
	delete(c.claims, key)
	c.setLatest(key, cached, nil)
}

// setLatest makes reads return another version, nil for none, and adds the event. A claim that
// takes the place of another one of its name is a deletion and an addition: after a lost watch the
// informer delivers both as one update, and what compares two versions of a claim takes the spec for
// the same.
func (c *claimCache) setLatest(key string, cached *cachedClaim, claim *resourceapi.ResourceClaim) {
	switch {
	case cached.latest == nil:
		c.parent.addEvent(fwk.ResourceClaim, nil, claim)
	case claim == nil:
		c.parent.addEvent(fwk.ResourceClaim, cached.latest, nil)
	case cached.latest.UID != claim.UID:
		c.parent.addEvent(fwk.ResourceClaim, cached.latest, nil)
		c.parent.addEvent(fwk.ResourceClaim, nil, claim)
	default:
		c.parent.addEvent(fwk.ResourceClaim, cached.latest, claim)
	}
	c.changed = true
	c.allocated.replace(cached.latest, claim)
	c.setOwner(key, controllerOf(cached.latest), controllerOf(claim))
	cached.latest = claim
	c.parent.waiters.wake(key)
}

// setOwner moves a claim in owned; the UIDs are "" for none.
func (c *claimCache) setOwner(key string, before, after types.UID) {
	if before == after {
		return
	}
	if keys := c.owned[before]; keys.Delete(key).Len() == 0 {
		delete(c.owned, before)
	}
	if after == "" {
		return
	}
	if c.owned[after] == nil {
		c.owned[after] = sets.New[string]()
	}
	c.owned[after].Insert(key)
}

// controllerOf returns the UID of a claim's controller, "" for none. claim may be nil.
func controllerOf(claim *resourceapi.ResourceClaim) types.UID {
	if claim == nil {
		return ""
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
		return owner.UID
	}
	return ""
}

// assume makes a version that the API server has returned the latest one. written is as
// in cachedClaim.
func (c *claimCache) assume(claim *resourceapi.ResourceClaim, written bool) error {
	key := keyOf(claim)
	cached := c.claims[key]
	if cached == nil {
		return claimNotFound(key)
	}
	order, err := compareVersions(claim, cached.latest)
	switch {
	case err != nil:
		return fmt.Errorf("error parsing ResourceVersion %q for ResourceClaim %q: %w", claim.ResourceVersion, key, err)
	case order < 0:
		return fmt.Errorf("ResourceClaim %q is out of sync (stored: %s, assume: %s)", key, cached.latest.ResourceVersion, claim.ResourceVersion)
	case order == 0 && written && cached.latest == cached.api:
		return nil // the informer was faster
	}
	cached.written = cached.written || written
	c.setLatest(key, cached, claim)
	return nil
}

// compareVersions returns the order of two versions of a claim; 1 if b is nil.
func compareVersions(a, b *resourceapi.ResourceClaim) (int, error) {
	if b == nil {
		return 1, nil
	}
	return resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
}

// update calls change with the lock, and then delivers the events that it has added.
func (c *claimCache) update(change func()) {
	c.mu.Lock()
	change()
	changed := c.changed
	c.changed = false
	c.mu.Unlock()
	if changed {
		// Another goroutine may be about to deliver the event, which comes too late for
		// what this one does next.
		c.parent.options.Changed()
	}
	c.parent.events.deliver()
}

// claimNotFound is the error about a claim, by its namespace/name, that does not exist.
// Its text is that of kube-scheduler, and apierrors.IsNotFound is true.
type claimNotFound string

func (key claimNotFound) Error() string {
	return fmt.Sprintf("could not find ResourceClaim %q", string(key))
}

// Status implements errors.APIStatus.
func (key claimNotFound) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: key.Error()}
}
