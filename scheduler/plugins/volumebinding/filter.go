package volumebinding

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
)

// Filter refuses a node where one of the pod's claims cannot be had. What it
// finds for a node that fits, Reserve claims.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	noted, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if noted == nil {
		return nil
	}
	node := info.Node()
	made, reasons, err := p.findPodVolumes(noted.claims, node)
	if err != nil {
		p.volumes.CountFailure("predicate")
		return fwk.AsStatus(err)
	}
	if len(reasons) > 0 {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...)
	}
	noted.setPlan(node.Name, made)
	return nil
}

// Excludes reports whether a volume that the pod's claims are bound to cannot be
// reached from the node. Claims that are not bound yet exclude no node: volumes
// and storage capacity come and go.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) bool {
	noted, err := getStateData(state)
	if err != nil || noted == nil || len(noted.claims.bound) == 0 {
		return false
	}
	reachable, _, err := p.checkBoundClaims(noted.claims.bound, node.Node())
	return err == nil && !reachable
}

// find makes a plan for a node, or says why there is none.
func (p *Plugin) findPodVolumes(claims *podClaims, node *v1.Node) (*plan, []string, error) {
	var reasons []string
	gone := false
	if len(claims.bound) > 0 {
		reachable, there, err := p.checkBoundClaims(claims.bound, node)
		if err != nil {
			return nil, nil, err
		}
		if gone = !there; !reachable {
			reasons = append(reasons, reasonAffinity)
		}
	}
	made, why, err := p.planUnboundClaims(claims, node)
	if err != nil {
		return nil, nil, err
	}
	if why != "" {
		reasons = append(reasons, why)
	}
	if gone {
		reasons = append(reasons, reasonVolumeNotFound)
	}
	return made, reasons, nil
}

// reachable says whether the volumes of bound claims can be used on a node, and
// whether they are there. The first that is not ends the search.
func (p *Plugin) checkBoundClaims(claims []*v1.PersistentVolumeClaim, node *v1.Node) (reachable, there bool, err error) {
	csi := p.csiNode(node.Name)
	for _, claim := range claims {
		bound, err := p.volumes.Volume(claim.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return true, false, nil
		} else if err != nil {
			return true, false, err
		}
		if bound, err = p.translateToCSI(bound, csi); err != nil {
			return false, true, err
		}
		if volume.CheckNodeAffinity(bound, node.Labels) != nil {
			return false, true, nil
		}
	}
	return true, true, nil
}

// csiNode is what CSI drivers say of a node; nil where there is nothing.
func (p *Plugin) csiNode(name string) *storagev1.CSINode {
	csi, err := p.csiNodes.Get(name)
	if err != nil {
		return nil
	}
	return csi
}

// serve makes a plan for claims that wait for their first consumer, or says why
// there is none.
func (p *Plugin) planUnboundClaims(claims *podClaims, node *v1.Node) (made *plan, why string, err error) {
	made = &plan{}
	var toBind, toProvision []*v1.PersistentVolumeClaim
	for _, claim := range claims.delayed {
		switch selected, ok := claim.Annotations[volume.AnnSelectedNode]; {
		case !ok:
			toBind = append(toBind, claim)
		case selected == node.Name:
			toProvision = append(toProvision, claim)
		default: // It is being provisioned elsewhere.
			return made, reasonNoVolume, nil
		}
	}
	left, err := made.findMatchingVolumes(toBind, claims.volumes, node)
	if err != nil {
		return nil, "", err
	}
	why, err = p.provision(made, append(toProvision, left...), node)
	return made, why, err
}

// match finds a volume for each claim, the smallest claim first, and returns the
// claims that have none.
func (m *plan) findMatchingVolumes(claims []*v1.PersistentVolumeClaim, volumes map[string][]*v1.PersistentVolume, node *v1.Node) (left []*v1.PersistentVolumeClaim, err error) {
	slices.SortStableFunc(claims, func(a, b *v1.PersistentVolumeClaim) int {
		return requestedStorage(a).Cmp(*requestedStorage(b))
	})
	chosen := map[string]*v1.PersistentVolume{}
	for _, claim := range claims {
		class := volume.GetPersistentVolumeClaimClass(claim)
		found, err := volume.FindMatchingVolume(claim, volumes[class], node, chosen, true, true)
		if err != nil {
			return nil, err
		}
		if found == nil {
			left = append(left, claim)
			continue
		}
		chosen[found.Name] = found
		m.bindings = append(m.bindings, binding{claim, found})
	}
	return left, nil
}
