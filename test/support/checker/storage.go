package checker

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/support/history"
)

// unpreparedVolumes returns which volume of a pod keeps it from its node at its bind: a claim
// without a volume, a volume of other nodes, or one that only one pod may use.
func (r *replay) unpreparedVolumes(change *history.Change, pod *corev1.Pod, enabled pluginSet) string {
	for _, name := range claimNames(pod) {
		version := r.at(key{"PersistentVolumeClaim", pod.Namespace, name}, change.Revision)
		if version == nil {
			continue // deleted since
		}
		claim := version.Object.(*corev1.PersistentVolumeClaim)
		if enabled.has(pluginVolumes) {
			if why := r.wrongVolume(change, claim, pod.Spec.NodeName); why != "" {
				return why
			}
		}
		if !enabled.has(pluginRestrictions) || !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		for _, pods := range r.onNode {
			for _, other := range pods {
				if other.UID != pod.UID && other.Namespace == pod.Namespace && slices.Contains(claimNames(other), name) {
					return fmt.Sprintf("its claim %s is ReadWriteOncePod, and pod %s uses it", name, other.Name)
				}
			}
		}
	}
	return ""
}

// claimNames returns the names of the claims of a pod.
func claimNames(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// wrongVolume says that a claim has no volume, or one that is not for this node.
func (r *replay) wrongVolume(change *history.Change, claim *corev1.PersistentVolumeClaim, node string) string {
	if claim.Spec.VolumeName == "" {
		return fmt.Sprintf("its claim %s has no volume", claim.Name)
	}
	version := r.at(key{"PersistentVolume", "", claim.Spec.VolumeName}, change.Revision)
	if version == nil {
		return fmt.Sprintf("volume %s of its claim %s does not exist", claim.Spec.VolumeName, claim.Name)
	}
	volume := version.Object.(*corev1.PersistentVolume)
	if !isFor(volume.Spec.ClaimRef, claim) {
		return fmt.Sprintf("volume %s of its claim %s is bound to another claim", volume.Name, claim.Name)
	}
	if at := r.nodes[node]; at != nil && volume.Spec.NodeAffinity != nil && volume.Spec.NodeAffinity.Required != nil &&
		!matchesNode(volume.Spec.NodeAffinity.Required, at) {
		return fmt.Sprintf("volume %s of its claim %s is not for this node", volume.Name, claim.Name)
	}
	return ""
}

// isFor reports whether the claimRef of a volume is a claim. An administrator who reserves a volume
// for a claim writes no UID.
func isFor(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// unpreparedDevices returns which ResourceClaim of a pod keeps it from its node at its bind.
func (r *replay) unpreparedDevices(change *history.Change, pod *corev1.Pod, enabled pluginSet) string {
	if !enabled.has(pluginDevices) {
		return ""
	}
	for _, name := range resourceClaimNames(pod) {
		version := r.at(key{"ResourceClaim", pod.Namespace, name}, change.Revision)
		if version == nil {
			continue // deleted since
		}
		claim := version.Object.(*resourcev1.ResourceClaim)
		allocation := claim.Status.Allocation
		reserved := slices.ContainsFunc(claim.Status.ReservedFor, func(c resourcev1.ResourceClaimConsumerReference) bool { return c.UID == pod.UID })
		switch at := r.nodes[pod.Spec.NodeName]; {
		case allocation == nil:
			return fmt.Sprintf("its ResourceClaim %s is not allocated", name)
		case !reserved && !reservedForGroup(claim):
			return fmt.Sprintf("its ResourceClaim %s is not reserved for it", name)
		case at != nil && allocation.NodeSelector != nil && !matchesNode(allocation.NodeSelector, at):
			return fmt.Sprintf("the devices of its ResourceClaim %s are not of this node", name)
		}
	}
	return ""
}

// reservedForGroup reports whether a claim is reserved for something else than pods.
func reservedForGroup(claim *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(c resourcev1.ResourceClaimConsumerReference) bool { return c.Resource != "pods" })
}

// resourceClaimNames returns the names of the ResourceClaims of a pod.
func resourceClaimNames(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	for i := range pod.Status.ResourceClaimStatuses {
		if name := pod.Status.ResourceClaimStatuses[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}

// device is a device that a claim has for itself.
type device struct{ driver, pool, name string }

// checkClaims checks that no device is allocated to two claims at once. Devices for
// administrators and shares of devices are not exclusive.
func (r *results) checkClaims(t *timeline) {
	holder, devicesOf := map[device]types.UID{}, map[types.UID][]device{}
	for i := range t.History.Changes {
		change := &t.History.Changes[i]
		claim, is := change.Object.(*resourcev1.ResourceClaim)
		if !is {
			continue
		}
		for _, d := range devicesOf[claim.UID] {
			if holder[d] == claim.UID {
				delete(holder, d)
			}
		}
		delete(devicesOf, claim.UID)
		if change.Deleted || claim.Status.Allocation == nil {
			continue
		}
		r.checked(I1)
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess || result.ShareID != nil {
				continue
			}
			d := device{result.Driver, result.Pool, result.Device}
			if other, taken := holder[d]; taken && other != claim.UID {
				r.fail(I1, change.Revision, keyOf(claim).String(), "device %s/%s/%s is allocated to it, and to another claim", d.driver, d.pool, d.name)
			}
			holder[d] = claim.UID
			devicesOf[claim.UID] = append(devicesOf[claim.UID], d)
		}
	}
}
