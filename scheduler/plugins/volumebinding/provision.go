package volumebinding

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/storage/volume"
)

// provision adds claims for which volumes are to be provisioned to the plan, or returns
// the reason for rejecting the node.
func (p *Plugin) provision(podPlan *plan, claims []*v1.PersistentVolumeClaim, node *v1.Node) (reason string, err error) {
	for _, claim := range claims {
		name := volume.GetPersistentVolumeClaimClass(claim)
		if name == "" {
			return "", fmt.Errorf("no class for claim %q", claim.Namespace+"/"+claim.Name)
		}
		class, err := p.classes.Get(name)
		if err != nil {
			return "", fmt.Errorf("failed to find storage class %q", name)
		}
		if class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner || !allowsNode(class.AllowedTopologies, node) {
			return reasonNoVolume, nil
		}
		capacity, enough, err := p.findCapacity(claim, class, node)
		if err != nil {
			return "", err
		}
		if !enough {
			return reasonNoSpace, nil
		}
		podPlan.provisions = append(podPlan.provisions, provision{claim, capacity})
	}
	return "", nil
}

// allowsNode reports whether volumes may be provisioned for a node; without terms they
// may for any node.
func allowsNode(terms []v1.TopologySelectorTerm, node *v1.Node) bool {
	for _, term := range terms {
		if len(term.MatchLabelExpressions) > 0 && matchesAll(term.MatchLabelExpressions, node.Labels) {
			return true
		}
	}
	return len(terms) == 0
}

// matchesAll reports whether set satisfies all requirements. A malformed requirement is
// not satisfied.
func matchesAll(requirements []v1.TopologySelectorLabelRequirement, set labels.Set) bool {
	for _, r := range requirements {
		parsed, err := labels.NewRequirement(r.Key, selection.In, r.Values)
		if err != nil || !parsed.Matches(set) {
			return false
		}
	}
	return true
}

// findCapacity finds the storage capacity from which a driver can provision a volume
// for a node. enough is true without a capacity for drivers that do not publish theirs.
func (p *Plugin) findCapacity(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) (best *storagev1.CSIStorageCapacity, enough bool, err error) {
	if _, hasRequest := claim.Spec.Resources.Requests[v1.ResourceStorage]; !hasRequest {
		return nil, true, nil
	}
	driver, err := p.drivers.Get(class.Provisioner)
	if apierrors.IsNotFound(err) {
		return nil, true, nil
	} else if err != nil {
		return nil, false, err
	}
	if driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, true, nil
	}
	capacities, err := p.capacities.List(labels.Everything())
	if err != nil {
		return nil, false, err
	}
	size := requestedStorage(claim).Value()
	for _, capacity := range capacities {
		if capacity.StorageClassName != class.Name || !hasCapacityFor(capacity, size) || !isAvailableToNode(capacity, node) {
			continue
		}
		// Upstream takes the first in map order; this choice is deterministic.
		if best == nil || capacityKey(capacity) < capacityKey(best) {
			best = capacity
		}
	}
	return best, best != nil, nil
}

func capacityKey(capacity *storagev1.CSIStorageCapacity) string {
	return capacity.Namespace + "/" + capacity.Name
}

// hasCapacityFor reports whether a volume of size bytes can be provisioned.
func hasCapacityFor(capacity *storagev1.CSIStorageCapacity, size int64) bool {
	limit := volumeLimit(capacity)
	return limit != nil && limit.Value() >= size
}

// volumeLimit returns the size of the largest volume that can be provisioned; nil if
// none can.
func volumeLimit(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if capacity.MaximumVolumeSize != nil {
		return capacity.MaximumVolumeSize
	}
	return capacity.Capacity
}

// isAvailableToNode reports whether the capacity is available to the node. A malformed
// selector selects no node.
func isAvailableToNode(capacity *storagev1.CSIStorageCapacity, node *v1.Node) bool {
	if capacity.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(capacity.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// requestedStorage returns the storage request of a claim.
func requestedStorage(claim *v1.PersistentVolumeClaim) *resource.Quantity {
	quantity := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return &quantity
}
