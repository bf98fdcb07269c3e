package volumebinding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Filter rejects a node where a claim of the pod cannot be used. For a node that fits
// it stores a plan, which Reserve assumes.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if data == nil {
		return nil
	}
	node := info.Node()
	podPlan, reasons, err := p.findPodVolumes(data.claims, node)
	if err != nil {
		p.volumes.CountFailure("predicate")
		return fwk.AsStatus(err)
	}
	if len(reasons) > 0 {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...)
	}
	data.setPlan(node.Name, podPlan)
	return nil
}

// RejectsPermanently reports whether a volume that a claim of the pod is bound to is
// not available to the node. Unbound claims reject no node permanently: volumes and
// storage capacity change.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) bool {
	data, err := getStateData(state)
	if err != nil || data == nil || len(data.claims.bound) == 0 {
		return false
	}
	reachable, _, err := p.checkBoundClaims(data.claims.bound, node.Node())
	return err == nil && !reachable
}

// findPodVolumes returns a plan for a node, or the reasons for rejecting it.
func (p *Plugin) findPodVolumes(claims *podClaims, node *v1.Node) (*plan, []string, error) {
	var reasons []string
	notFound := false
	if len(claims.bound) > 0 {
		reachable, exists, err := p.checkBoundClaims(claims.bound, node)
		if err != nil {
			return nil, nil, err
		}
		if notFound = !exists; !reachable {
			reasons = append(reasons, reasonAffinity)
		}
	}
	podPlan, reason, err := p.planUnboundClaims(claims, node)
	if err != nil {
		return nil, nil, err
	}
	if reason != "" {
		reasons = append(reasons, reason)
	}
	if notFound {
		reasons = append(reasons, reasonVolumeNotFound)
	}
	return podPlan, reasons, nil
}

// checkBoundClaims reports whether the volumes of bound claims are available to a node,
// and whether they exist. It stops at the first volume that is not.
func (p *Plugin) checkBoundClaims(claims []*v1.PersistentVolumeClaim, node *v1.Node) (reachable, exists bool, err error) {
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

// csiNode returns the CSINode of a node; nil if there is none.
func (p *Plugin) csiNode(name string) *storagev1.CSINode {
	csi, err := p.csiNodes.Get(name)
	if err != nil {
		return nil
	}
	return csi
}

// planUnboundClaims returns a plan for the claims that wait for their first consumer,
// or the reason for rejecting the node.
func (p *Plugin) planUnboundClaims(claims *podClaims, node *v1.Node) (podPlan *plan, reason string, err error) {
	podPlan = &plan{}
	var toBind, toProvision []*v1.PersistentVolumeClaim
	for _, claim := range claims.delayed {
		switch selected, ok := claim.Annotations[volume.AnnSelectedNode]; {
		case !ok:
			toBind = append(toBind, claim)
		case selected == node.Name:
			toProvision = append(toProvision, claim)
		default: // A volume is being provisioned for another node.
			return podPlan, reasonNoVolume, nil
		}
	}
	unmatched, err := podPlan.findMatchingVolumes(toBind, claims.volumes, node)
	if err != nil {
		return nil, "", err
	}
	reason, err = p.provision(podPlan, append(toProvision, unmatched...), node)
	return podPlan, reason, err
}

// findMatchingVolumes adds a volume for each claim to the plan, starting with the
// smallest claim, and returns the claims without a matching volume.
func (m *plan) findMatchingVolumes(claims []*v1.PersistentVolumeClaim, volumes map[string][]*v1.PersistentVolume, node *v1.Node) (unmatched []*v1.PersistentVolumeClaim, err error) {
	slices.SortStableFunc(claims, func(a, b *v1.PersistentVolumeClaim) int {
		return requestedStorage(a).Cmp(*requestedStorage(b))
	})
	chosenVolumes := map[string]*v1.PersistentVolume{}
	for _, claim := range claims {
		class := volume.GetPersistentVolumeClaimClass(claim)
		found, err := volume.FindMatchingVolume(claim, volumes[class], node, chosenVolumes, true, true)
		if err != nil {
			return nil, err
		}
		if found == nil {
			unmatched = append(unmatched, claim)
			continue
		}
		chosenVolumes[found.Name] = found
		m.bindings = append(m.bindings, binding{claim, found})
	}
	return unmatched, nil
}

// migratedPlugins are the in-tree plugins whose volumes a CSI driver may serve.
var migratedPlugins = []string{
	csiplugins.AWSEBSInTreePluginName, csiplugins.GCEPDInTreePluginName, csiplugins.AzureDiskInTreePluginName,
	csiplugins.CinderInTreePluginName, csiplugins.PortworxVolumePluginName,
}

// translateToCSI translates a volume of an in-tree plugin to the CSI driver that serves
// it on the node, if the plugin is migrated there: the driver uses topology labels of
// its own.
func (p *Plugin) translateToCSI(pv *v1.PersistentVolume, node *storagev1.CSINode) (*v1.PersistentVolume, error) {
	if !p.translator.IsPVMigratable(pv) {
		return pv, nil
	}
	plugin, err := p.translator.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil {
		return nil, fmt.Errorf("could not get plugin name from pv: %w", err)
	}
	if !slices.Contains(migratedPlugins, plugin) || !isMigratedOn(node, plugin) {
		return pv, nil
	}
	translated, err := p.translator.TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return translated, nil
}

// isMigratedOn reports whether a CSI driver serves the plugin's volumes on the node.
func isMigratedOn(node *storagev1.CSINode, plugin string) bool {
	return node != nil && slices.Contains(strings.Split(node.Annotations[v1.MigratedPluginsAnnotationKey], ","), plugin)
}
