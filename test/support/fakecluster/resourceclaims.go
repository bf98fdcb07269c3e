package fakecluster

import (
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
)

var resourceClaimResource = resourceapi.SchemeGroupVersion.WithResource("resourceclaims")

// ResourceV1 returns a client for the ResourceClaims of the cluster, and for slices and
// classes as the embedded clientset has it.
func (c *Cluster) ResourceV1() resourceclient.ResourceV1Interface {
	return resources{c.Interface.ResourceV1(), c}
}

type resources struct {
	resourceclient.ResourceV1Interface
	cluster *Cluster
}

func (r resources) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return resourceClaims{r.ResourceV1Interface.ResourceClaims(namespace), r.cluster, namespace}
}

// resourceClaims records calls with the verbs getclaim, createclaim, updateclaim,
// updateclaimstatus, patchclaimstatus and deleteclaim. Writes are checked as in the API
// server: UID and resource version must be those of the stored claim if they are given,
// an update leaves the status as it is, an update of the status leaves all else, an
// allocation does not change, only an allocated claim is reserved, a deleted claim
// stays until it has no finalizers, and a write that changes nothing, or removes the claim,
// returns the version that was sent.
type resourceClaims struct {
	resourceclient.ResourceClaimInterface
	cluster   *Cluster
	namespace string
}

func (r resourceClaims) Get(ctx context.Context, name string, _ metav1.GetOptions) (claim *resourceapi.ResourceClaim, err error) {
	err = r.cluster.call(ctx, "getclaim", name, func() error {
		claim, err = r.stored(name)
		return err
	})
	return claim, err
}

func (r resourceClaims) Create(ctx context.Context, claim *resourceapi.ResourceClaim, _ metav1.CreateOptions) (*resourceapi.ResourceClaim, error) {
	created := claim.DeepCopy()
	err := r.cluster.call(ctx, "createclaim", claim.Name+claim.GenerateName, func() error {
		if claim.ResourceVersion != "" {
			return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
		}
		r.cluster.setResourceVersion(created)
		if created.Name == "" {
			created.Name = created.GenerateName + created.ResourceVersion
		}
		created.Namespace, created.UID = r.namespace, types.UID("uid-"+created.ResourceVersion)
		created.Status = resourceapi.ResourceClaimStatus{}
		return r.cluster.tracker.Create(resourceClaimResource, created.DeepCopy(), r.namespace)
	})
	if err != nil {
		return nil, err
	}
	return created, nil
}

func (r resourceClaims) Update(ctx context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	return r.write(ctx, "updateclaim", claim, func(stored *resourceapi.ResourceClaim) {
		status, deleted := stored.Status, stored.DeletionTimestamp
		claim.DeepCopyInto(stored)
		stored.Status, stored.DeletionTimestamp = status, deleted
	})
}

func (r resourceClaims) UpdateStatus(ctx context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	return r.write(ctx, "updateclaimstatus", claim, func(stored *resourceapi.ResourceClaim) { claim.Status.DeepCopyInto(&stored.Status) })
}

// Patch executes strategic merge patches of the status.
func (r resourceClaims) Patch(ctx context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*resourceapi.ResourceClaim, error) {
	var precondition, patched resourceapi.ResourceClaim
	err := r.cluster.call(ctx, "patchclaimstatus", name, func() error {
		stored, err := r.stored(name)
		if err != nil {
			return err
		}
		original, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		merged, err := strategicpatch.StrategicMergePatch(original, patch, stored)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(merged, &precondition); err != nil {
			return err
		}
		if err := r.check(stored, &precondition); err != nil {
			return err
		}
		stored.Status = precondition.Status
		patched = *stored.DeepCopy()
		return r.store(&patched)
	})
	if err != nil {
		return nil, err
	}
	return &patched, nil
}

func (r resourceClaims) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return r.cluster.call(ctx, "deleteclaim", name, func() error {
		stored, err := r.stored(name)
		if err != nil {
			return err
		}
		if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != stored.UID {
			return apierrors.NewConflict(resourceClaimResource.GroupResource(), name, fmt.Errorf("the UID is %s", stored.UID))
		}
		now := metav1.Now()
		stored.DeletionTimestamp = &now
		return r.store(stored)
	})
}

// MutateClaims calls mutate for each write of a ResourceClaim, as a webhook does.
func (c *Cluster) MutateClaims(mutate func(*resourceapi.ResourceClaim)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mutateClaim = mutate
}

func (r resourceClaims) stored(name string) (*resourceapi.ResourceClaim, error) {
	obj, err := r.cluster.tracker.Get(resourceClaimResource, r.namespace, name)
	if err != nil {
		return nil, err
	}
	return obj.(*resourceapi.ResourceClaim).DeepCopy(), nil
}

func (r resourceClaims) write(ctx context.Context, verb string, claim *resourceapi.ResourceClaim, change func(stored *resourceapi.ResourceClaim)) (written *resourceapi.ResourceClaim, err error) {
	err = r.cluster.call(ctx, verb, claim.Name, func() error {
		stored, err := r.stored(claim.Name)
		if err != nil {
			return err
		}
		if err := r.check(stored, claim); err != nil {
			return err
		}
		before := stored.DeepCopy()
		change(stored)
		if r.cluster.mutateClaim != nil {
			r.cluster.mutateClaim(stored)
		}
		if err := checkStatus(before, stored); err != nil {
			return err
		}
		written = stored
		if equality.Semantic.DeepEqual(before, stored) {
			return nil
		}
		return r.store(stored)
	})
	if err != nil {
		return nil, err
	}
	return written.DeepCopy(), nil
}

// check returns a conflict if a write is meant for another version than the stored one.
func (r resourceClaims) check(stored, claim *resourceapi.ResourceClaim) error {
	if claim.UID != "" && claim.UID != stored.UID || claim.ResourceVersion != "" && claim.ResourceVersion != stored.ResourceVersion {
		return apierrors.NewConflict(resourceClaimResource.GroupResource(), claim.Name,
			fmt.Errorf("the UID is %s and the version is %s", stored.UID, stored.ResourceVersion))
	}
	return nil
}

// checkStatus returns an error if the API server would reject the new status.
func checkStatus(before, after *resourceapi.ResourceClaim) error {
	invalid := func(reason string) error {
		return apierrors.NewBadRequest(fmt.Sprintf("ResourceClaim %q is invalid: status: %s", after.Name, reason))
	}
	if a, b := before.Status.Allocation, after.Status.Allocation; a != nil && b != nil && !equality.Semantic.DeepEqual(a.Devices, b.Devices) {
		return invalid("allocation: field is immutable")
	}
	if after.Status.Allocation == nil && len(after.Status.ReservedFor) > 0 {
		return invalid("reservedFor: may not be specified when `allocated` is not set")
	}
	seen := map[types.UID]bool{}
	for _, consumer := range after.Status.ReservedFor {
		if seen[consumer.UID] {
			return invalid("reservedFor: duplicate value")
		}
		seen[consumer.UID] = true
	}
	return nil
}

// store stores a new version of a claim, or removes it if nothing keeps it any more.
func (r resourceClaims) store(claim *resourceapi.ResourceClaim) error {
	if claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0 {
		return r.cluster.tracker.Delete(resourceClaimResource, r.namespace, claim.Name)
	}
	r.cluster.setResourceVersion(claim)
	return r.cluster.tracker.Update(resourceClaimResource, claim.DeepCopy(), r.namespace)
}

// ResourceClaims returns the stored ResourceClaims of all namespaces.
func (c *Cluster) ResourceClaims() []resourceapi.ResourceClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := c.tracker.List(resourceClaimResource, resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), "")
	if err != nil {
		panic(err)
	}
	return list.(*resourceapi.ResourceClaimList).Items
}
