package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
)

// CreateClaim creates the claim for a pod's extended resources. The API server chooses
// the name, after metadata.generateName; name, UID and status of claim are left out. The
// created claim is assumed at once. kube-scheduler waits for the informer first, with a
// poll of the cache.
func (d *Devices) CreateClaim(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if claim.GenerateName == "" {
		return nil, fmt.Errorf("claim for extended resources in namespace %s: metadata.generateName: is empty", claim.Namespace)
	}
	created := claim.DeepCopy()
	created.Name, created.UID, created.ResourceVersion = "", "", ""
	created.Status = resourceapi.ResourceClaimStatus{}
	d.claims.beginCreation()
	created, err := d.clientFor(claim).Create(ctx, created, metav1.CreateOptions{})
	if err != nil {
		claimsCreated.WithLabelValues("failure", "false", "", "Pod").Inc()
		d.claims.endCreation(nil)
		return nil, fmt.Errorf("create claim for extended resources %v: %w", klog.KObj(claim), err)
	}
	claimsCreated.WithLabelValues("success", "false", "", "Pod").Inc()
	d.claims.endCreation(created)
	d.dropUnlessSeen(created)
	return created, nil
}

// beginCreation makes c remember the claims that are deleted until endCreation.
func (c *claimCache) beginCreation() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creating++
}

// endCreation makes reads return a claim that was created, unless the informer has
// delivered it, or its deletion. nil means that no claim was created.
func (c *claimCache) endCreation(created *resourceapi.ResourceClaim) {
	c.update(func() {
		if created != nil && !c.deleted.Has(created.UID) && c.claims[keyOf(created)] == nil {
			cached := &cachedClaim{written: true}
			c.claims[keyOf(created)] = cached
			c.setLatest(keyOf(created), cached, created)
		}
		if c.creating--; c.creating == 0 {
			clear(c.deleted)
		}
	})
}

// unseenCheckInterval is the time between two checks of a claim that was created and has
// not been delivered by the informer.
const unseenCheckInterval = 2 * time.Minute

// dropUnlessSeen ends the assumption of a created claim which the informer has passed
// without delivering it: it was deleted while the informer had no watch, so that no
// event says so. Otherwise its devices would stay allocated.
func (d *Devices) dropUnlessSeen(created *resourceapi.ResourceClaim) {
	d.options.Clock.AfterFunc(unseenCheckInterval, func() {
		unseen := false
		d.claims.update(func() { unseen = d.claims.dropIfPassed(keyOf(created), created.UID) })
		if unseen {
			d.dropUnlessSeen(created)
		}
	})
}

// dropIfPassed drops a claim that the informer has not delivered although it has
// delivered newer objects. It reports whether the informer may still deliver the claim.
func (c *claimCache) dropIfPassed(key string, uid types.UID) (unseen bool) {
	cached := c.claims[key]
	if cached == nil || cached.api != nil || cached.latest.UID != uid {
		return false
	}
	if c.lastVersion != nil {
		if order, err := resourceversion.CompareResourceVersion(c.lastVersion(), cached.latest.ResourceVersion); err == nil && order > 0 {
			delete(c.claims, key)
			c.setLatest(key, cached, nil)
			return false
		}
	}
	return true
}

// DeleteClaim removes the scheduler's finalizer from a claim, and deletes the claim. A
// claim that does not exist is no error.
func (d *Devices) DeleteClaim(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	client, current := d.clientFor(claim), claim.DeepCopy()
	err := d.retryOnConflict(ctx, func(again bool) error {
		if again {
			fresh, err := client.Get(ctx, claim.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get resourceclaim %s/%s: %w", claim.Namespace, claim.Name, err)
			}
			if fresh.UID != claim.UID {
				return claimNotFound(keyOf(claim))
			}
			current = fresh
		}
		removeFinalizer(current)
		if _, err := client.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update resourceclaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		return nil
	})
	if err == nil {
		err = client.Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &claim.UID}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	d.claims.update(func() { d.claims.dropUnseen(keyOf(claim), claim.UID) })
	return nil
}

// DeleteStaleClaim deletes the claim for extended resources of an earlier attempt, in the
// background: kube-scheduler waits for the API server in the scheduling cycle. Then the
// pod of the claim is requeued.
func (d *Devices) DeleteStaleClaim(claim *resourceapi.ResourceClaim) {
	d.options.Go(func() {
		if err := d.DeleteClaim(klog.NewContext(context.Background(), d.options.Log), claim); err != nil {
			d.options.Log.Error(err, "Deleting the ResourceClaim of an earlier attempt failed", "resourceclaim", klog.KObj(claim))
		}
		d.requeue(eventStaleClaim, nil, nil, func(pod *v1.Pod) bool { return uses(pod, claim) })
	})
}

// SetExtendedResourceClaimStatus writes status.extendedResourceClaimStatus of a pod, by
// which the kubelet finds the devices of its containers. A pod of the same name that has
// another UID is left alone, with an error. A conflict is retried with the newest pod: the
// patch has the pod's resource version, so that the one of an earlier attempt, which names
// a claim that was deleted, fails when it arrives late. kube-scheduler's has none.
func (d *Devices) SetExtendedResourceClaimStatus(ctx context.Context, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	client, version := d.options.Client.CoreV1().Pods(pod.Namespace), pod.ResourceVersion
	err := d.retryOnConflict(ctx, func(again bool) error {
		if again {
			live, err := client.Get(ctx, pod.Name, metav1.GetOptions{})
			switch {
			case err != nil:
				return fmt.Errorf("get it after conflict: %w", err)
			case live.UID != pod.UID:
				return errors.New("it got deleted in the meantime")
			}
			version = live.ResourceVersion
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID, "resourceVersion": version},
			"status":   map[string]any{"extendedResourceClaimStatus": status},
		})
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// dropUnseen drops a deleted claim that the informer has not delivered. Where the
// informer has, it also delivers the deletion.
func (c *claimCache) dropUnseen(key string, uid types.UID) {
	if cached := c.claims[key]; cached != nil && cached.api == nil && cached.latest.UID == uid {
		delete(c.claims, key)
		c.setLatest(key, cached, nil)
	}
}
