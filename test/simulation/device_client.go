package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
)

// The verbs of Berth's requests about claims.
const (
	writeClaim       = "write claim"
	writeClaimStatus = "write claim status"
	readClaim        = "read claim"
)

var deviceClaimResource = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}

func (c *client) ResourceV1() resourceclient.ResourceV1Interface { return resourceV1{client: c} }

type resourceV1 struct {
	resourceclient.ResourceV1Interface
	client *client
}

func (c resourceV1) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return deviceClaimClient{sim: c.client.sim, process: c.client.process, namespace: namespace}
}

type deviceClaimClient struct {
	resourceclient.ResourceClaimInterface
	sim       *simulation
	process   int
	namespace string
}

func (c deviceClaimClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (found *resourceapi.ResourceClaim, err error) {
	key := c.namespace + "/" + name
	err = c.sim.callOrCancel(ctx, readClaim, "get device claim "+key, "", func() error {
		if found = find[*resourceapi.ResourceClaim](c.sim.server, key); found == nil {
			return apierrors.NewNotFound(deviceClaimResource, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found.DeepCopy(), nil // as each response is decoded
}

// Update writes all but the status.
func (c deviceClaimClient) Update(ctx context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	finalizers := slices.Clone(claim.Finalizers)
	what := fmt.Sprintf("update device claim %s with the finalizers %v", describe(claim), finalizers)
	written, err := c.write(ctx, writeClaim, what, claim, func(stored *resourceapi.ResourceClaim) error {
		return nil
	}, func(c *resourceapi.ResourceClaim) { c.Finalizers = finalizers })
	if c.sim.inHandover() {
		c.sim.devices.unfenced[claim.UID] = err != nil
	}
	return written, err
}

// UpdateStatus writes nothing but the status.
func (c deviceClaimClient) UpdateStatus(ctx context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	status := claim.Status.DeepCopy()
	what := fmt.Sprintf("allocate %v for %d to %s%s", devicesOf(status.Allocation), len(status.ReservedFor), describe(claim), claimWrite)
	return c.write(ctx, writeClaimStatus, what, claim, func(stored *resourceapi.ResourceClaim) error {
		if why := invalidStatus(stored, status); why != "" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceClaim"}, claim.Name, nil)
		}
		c.sim.checkAllocation(stored, status, c.process)
		return nil
	}, func(c *resourceapi.ResourceClaim) { c.Status = *status })
}

// invalidStatus says why the API server refuses a status.
func invalidStatus(stored *resourceapi.ResourceClaim, status *resourceapi.ResourceClaimStatus) string {
	switch {
	case stored.DeletionTimestamp != nil && stored.Status.Allocation == nil && status.Allocation != nil:
		return "the claim is being deleted"
	case stored.DeletionTimestamp != nil && len(status.ReservedFor) > len(stored.Status.ReservedFor):
		return "the claim is being deleted"
	case len(status.ReservedFor) > 0 && status.Allocation == nil:
		return "a claim that is not allocated is reserved"
	}
	return ""
}

// write replaces what change does in a claim, at the UID and the version of the caller's object.
func (c deviceClaimClient) write(
	ctx context.Context, verb, what string, claim *resourceapi.ResourceClaim, check func(stored *resourceapi.ResourceClaim) error, change func(*resourceapi.ResourceClaim),
) (written *resourceapi.ResourceClaim, err error) {
	key, uid, version := c.namespace+"/"+claim.Name, claim.UID, claim.ResourceVersion
	err = c.sim.callOrCancel(ctx, verb, what, uid, func() error {
		stored := find[*resourceapi.ResourceClaim](c.sim.server, key)
		switch {
		case stored == nil:
			return apierrors.NewNotFound(deviceClaimResource, key)
		case stored.UID != uid:
			return apierrors.NewConflict(deviceClaimResource, key, fmt.Errorf("the UID is another"))
		case version == "":
			c.sim.failf("%q has no version", what)
		case stored.ResourceVersion != version:
			if c.process < c.sim.process {
				c.sim.count("a late write to a claim by an earlier leader is refused")
			}
			return apierrors.NewConflict(deviceClaimResource, key, fmt.Errorf("the resource version is another"))
		}
		if err := check(stored); err != nil {
			return err
		}
		written = c.sim.updateDeviceClaim(stored, change)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written.DeepCopy(), nil
}

// reservationPatch is the patch that ends the reservation of one pod.
type reservationPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		ReservedFor []struct {
			Patch string    `json:"$patch"`
			UID   types.UID `json:"uid"`
		} `json:"reservedFor"`
	} `json:"status"`
}

// Patch is a patch of the status that ends the reservation of a pod.
func (c deviceClaimClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (written *resourceapi.ResourceClaim, err error) {
	var patch reservationPatch
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	if len(patch.Status.ReservedFor) != 1 || patch.Status.ReservedFor[0].Patch != "delete" {
		return nil, fmt.Errorf("the model knows no such patch: %s", data)
	}
	key, uid := c.namespace+"/"+name, patch.Status.ReservedFor[0].UID
	err = c.sim.callOrCancel(ctx, writeClaimStatus, fmt.Sprintf("end the reservation of device claim %s for %s", key, uid), "", func() error {
		stored := find[*resourceapi.ResourceClaim](c.sim.server, key)
		if stored == nil {
			return apierrors.NewNotFound(deviceClaimResource, key)
		}
		switch {
		case stored.UID != patch.Metadata.UID:
			return apierrors.NewConflict(deviceClaimResource, key, fmt.Errorf("the UID is another"))
		case patch.Metadata.ResourceVersion != "" && stored.ResourceVersion != patch.Metadata.ResourceVersion:
			return apierrors.NewConflict(deviceClaimResource, key, fmt.Errorf("the resource version is another"))
		}
		c.sim.count("a reservation is taken back")
		written = c.sim.updateDeviceClaim(stored, func(claim *resourceapi.ResourceClaim) {
			claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == uid })
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written.DeepCopy(), nil
}

// devicesOf are the devices of an allocation, each as pool/device; nil has none.
func devicesOf(allocation *resourceapi.AllocationResult) (devices []string) {
	if allocation == nil {
		return nil
	}
	for _, result := range allocation.Devices.Results {
		devices = append(devices, result.Pool+"/"+result.Device)
	}
	return devices
}
