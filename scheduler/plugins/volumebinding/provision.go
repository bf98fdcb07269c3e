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

// provision plans that volumes are made for claims, or says why they cannot be
// on this node.
func (p *Plugin) provision(m *plan, claims []*v1.PersistentVolumeClaim, node *v1.Node) (why string, err error) {
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
		m.provisions = append(m.provisions, provision{claim, capacity})
	}
	return "", nil
}

// allows says whether volumes may be made for a node: without terms for any.
func allowsNode(terms []v1.TopologySelectorTerm, node *v1.Node) bool {
	for _, term := range terms {
		if len(term.MatchLabelExpressions) > 0 && matchesAll(term.MatchLabelExpressions, node.Labels) {
			return true
		}
	}
	return len(terms) == 0
}

// selects says whether all requirements are met; one that is malformed is not.
func matchesAll(requirements []v1.TopologySelectorLabelRequirement, set labels.Set) bool {
	for _, r := range requirements {
		parsed, err := labels.NewRequirement(r.Key, selection.In, r.Values)
		if err != nil || !parsed.Matches(set) {
			return false
		}
	}
	return true
}

// room looks for where a driver that counts what it has left could make a
// volume for a node. Other drivers are taken to have enough.
func (p *Plugin) findCapacity(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) (at *storagev1.CSIStorageCapacity, enough bool, err error) {
	if _, asks := claim.Spec.Resources.Requests[v1.ResourceStorage]; !asks {
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
		// Upstream takes the first that a map gives; here it is always the same.
		if at == nil || capacityKey(capacity) < capacityKey(at) {
			at = capacity
		}
	}
	return at, at != nil, nil
}

func capacityKey(of *storagev1.CSIStorageCapacity) string { return of.Namespace + "/" + of.Name }

// holds says whether a volume of that many bytes can be made there.
func hasCapacityFor(capacity *storagev1.CSIStorageCapacity, size int64) bool {
	limit := volumeLimit(capacity)
	return limit != nil && limit.Value() >= size
}

// limitOf is the largest volume that can be made; nil where none can.
func volumeLimit(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if capacity.MaximumVolumeSize != nil {
		return capacity.MaximumVolumeSize
	}
	return capacity.Capacity
}

// reaches says whether the node can use what is made there. A selector that is
// malformed selects none.
func isAvailableToNode(capacity *storagev1.CSIStorageCapacity, node *v1.Node) bool {
	if capacity.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(capacity.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// requested is what a claim asks for.
func requestedStorage(claim *v1.PersistentVolumeClaim) *resource.Quantity {
	quantity := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return &quantity
}
