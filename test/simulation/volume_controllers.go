package simulation

import (
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/test/support/fixture"
)

// The controllers of volumes do one write in each step: they bind a claim to the volume that
// names it, choose volumes for claims that do not wait for a pod, provision, reclaim, create the
// claims of ephemeral volumes, and delete what nobody needs any more. They read the objects as the
// API server has them.
// Source: k8s.io/kubernetes/pkg/controller/volume, sigs.k8s.io/sig-storage-lib-external-provisioner.

// volumeSteps are the steps that the controllers could do now.
func (sim *simulation) volumeSteps() (steps []func()) {
	add := func(do func()) {
		if do != nil {
			steps = append(steps, do)
		}
	}
	for _, claim := range all[*v1.PersistentVolumeClaim](sim.server) {
		add(sim.claimStep(claim))
	}
	for _, p := range all[*v1.PersistentVolume](sim.server) {
		add(sim.volumeStep(p))
	}
	for _, pod := range sim.server.sorted {
		add(sim.ephemeralStep(pod))
	}
	return steps
}

// claimStep returns what is to do for a claim; nil for nothing.
func (sim *simulation) claimStep(claim *v1.PersistentVolumeClaim) func() {
	switch {
	case claim.DeletionTimestamp != nil:
		if len(sim.usersOnNodes(claim)) > 0 {
			return nil
		}
		return func() { sim.dropClaim(claim, "no pod uses it any more") }
	case sim.ownerIsGone(claim):
		return func() { sim.dropClaim(claim, "its pod is gone") }
	case claim.Spec.VolumeName != "":
		if find[*v1.PersistentVolume](sim.server, claim.Spec.VolumeName) != nil || claim.Status.Phase == v1.ClaimLost {
			return nil
		}
		return func() {
			sim.count("a claim is lost")
			sim.logf("controller: claim %s is lost", describe(claim))
			edit(sim.server, claim, func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost })
		}
	}
	if named := sim.volumesFor(claim); len(named) > 0 {
		return func() { sim.bindClaim(claim, named[sim.random.IntN(len(named))]) }
	}
	class := find[*storagev1.StorageClass](sim.server, *claim.Spec.StorageClassName)
	switch {
	case class == nil:
		return nil
	case *class.VolumeBindingMode == storagev1.VolumeBindingImmediate:
		return func() { sim.provision(claim, zones[sim.random.IntN(len(zones))]) }
	case class.Provisioner == volume.NotSupportedProvisioner:
		return nil
	}
	return sim.provisioningStep(claim)
}

// provisioningStep returns how a volume is provisioned for the node that the scheduler has
// selected; nil for none, or as long as the provisioner is slow.
func (sim *simulation) provisioningStep(claim *v1.PersistentVolumeClaim) func() {
	name, selected := claim.Annotations[volume.AnnSelectedNode]
	if !selected {
		return nil
	}
	node := sim.server.nodes[name]
	if node == nil {
		return func() { sim.giveUpProvisioning(claim, "its node is gone") }
	}
	at, known := sim.volumes.provisionAt[claim.UID]
	switch {
	case sim.healed:
		return func() { sim.provision(claim, node.Labels[v1.LabelTopologyZone]) }
	case !known:
		at = sim.clock.now
		if sim.random.IntN(4) == 0 {
			at = at.Add(time.Duration(1+sim.random.IntN(100)) * 10 * time.Second)
			sim.clock.add(at, func() {}).periodic = true // a history may end before
		}
		sim.volumes.provisionAt[claim.UID] = at
	}
	if sim.clock.now.Before(at) {
		return nil
	}
	return func() {
		delete(sim.volumes.provisionAt, claim.UID)
		switch sim.random.IntN(8) {
		case 0:
			sim.giveUpProvisioning(claim, "it fails")
		case 1:
			sim.count("a volume is provisioned in any zone")
			sim.provision(claim, zones[sim.random.IntN(len(zones))])
		default:
			sim.provision(claim, node.Labels[v1.LabelTopologyZone])
		}
	}
}

// giveUpProvisioning lets the scheduler select another node.
func (sim *simulation) giveUpProvisioning(claim *v1.PersistentVolumeClaim, why string) {
	sim.count("provisioning is given up: " + why)
	sim.logf("controller: provisioning for claim %s is given up: %s", describe(claim), why)
	edit(sim.server, claim, func(c *v1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) })
}

// provision creates a volume for a claim, reachable in one zone.
func (sim *simulation) provision(claim *v1.PersistentVolumeClaim, zone string) {
	sim.count("a volume is provisioned")
	name := "pv" + itoa(sim.server.version)
	sim.putVolume(fixture.Volume(name, *claim.Spec.StorageClassName).Capacity(claim.Spec.Resources.Requests.Storage().String()).
		NodeAffinity(v1.LabelTopologyZone, zone).BoundTo(claim).Mutate(allowEveryMode).
		Mutate(func(p *v1.PersistentVolume) {
			p.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: driverName}
			p.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: name}}
			p.Status.Phase = v1.VolumePending
		}).Obj())
}

// volumesFor are the volumes that name an unbound claim.
func (sim *simulation) volumesFor(claim *v1.PersistentVolumeClaim) (named []*v1.PersistentVolume) {
	for _, p := range all[*v1.PersistentVolume](sim.server) {
		if p.Spec.ClaimRef != nil && p.Spec.ClaimRef.UID == claim.UID {
			named = append(named, p)
		}
	}
	return named
}

// bindClaim binds a claim to a volume that names it.
func (sim *simulation) bindClaim(claim *v1.PersistentVolumeClaim, p *v1.PersistentVolume) {
	sim.count("a claim is bound")
	sim.logf("controller: claim %s is bound to volume %s", describe(claim), p.Name)
	edit(sim.server, claim, func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = p.Name, v1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	})
}

// volumeStep returns what is to do for a volume; nil for nothing.
func (sim *simulation) volumeStep(p *v1.PersistentVolume) func() {
	if p.Spec.ClaimRef == nil {
		return nil
	}
	claim := find[*v1.PersistentVolumeClaim](sim.server, p.Spec.ClaimRef.Namespace+"/"+p.Spec.ClaimRef.Name)
	switch {
	case claim == nil || claim.UID != p.Spec.ClaimRef.UID:
		return func() { sim.reclaim(p, "its claim is gone") }
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != p.Name:
		return func() {
			sim.count("a volume names a claim that is bound to another one")
			sim.reclaim(p, "its claim is bound to another one")
		}
	case claim.Spec.VolumeName == p.Name && p.Status.Phase != v1.VolumeBound:
		return func() { edit(sim.server, p, func(p *v1.PersistentVolume) { p.Status.Phase = v1.VolumeBound }) }
	}
	return nil
}

// reclaim deletes a provisioned volume, and makes another one available again.
func (sim *simulation) reclaim(p *v1.PersistentVolume, why string) {
	sim.logf("controller: volume %s is reclaimed: %s", describe(p), why)
	if metav1.HasAnnotation(p.ObjectMeta, volume.AnnDynamicallyProvisioned) {
		sim.server.drop(p)
		return
	}
	sim.count("a volume is available again")
	edit(sim.server, p, func(p *v1.PersistentVolume) {
		p.Spec.ClaimRef, p.Status.Phase = nil, v1.VolumeAvailable
		delete(p.Annotations, volume.AnnBoundByController)
	})
}

func (sim *simulation) dropClaim(claim *v1.PersistentVolumeClaim, why string) {
	sim.logf("controller: claim %s is deleted: %s", describe(claim), why)
	sim.server.drop(claim)
}

// ephemeralStep returns how the claim of a pod's ephemeral volume is created; nil where it exists,
// or another one of its name.
func (sim *simulation) ephemeralStep(pod *v1.Pod) func() {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || pod.DeletionTimestamp != nil || !isLivePod(pod) {
			continue
		}
		name := ephemeral.VolumeClaimName(pod, v)
		if find[*v1.PersistentVolumeClaim](sim.server, pod.Namespace+"/"+name) == nil {
			return func() {
				sim.count("the claim of an ephemeral volume is created")
				sim.addClaim(name, pod, sim.random)
			}
		}
	}
	return nil
}

// ownerIsGone says whether the pod is gone that controls a claim.
func (sim *simulation) ownerIsGone(claim *v1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOf(claim)
	if owner == nil {
		return false
	}
	pod := sim.server.pods[claim.Namespace+"/"+owner.Name]
	return pod == nil || pod.UID != owner.UID
}

// claimNamesOf are the names of the claims that a pod uses, in the order of its volumes, and
// whether each belongs to the pod.
func claimNamesOf(pod *v1.Pod) (names []string, own map[string]bool) {
	own = map[string]bool{}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			name := ephemeral.VolumeClaimName(pod, v)
			names, own[name] = append(names, name), true
		}
	}
	return names, own
}

// usersOnNodes are the live pods with a node that use a claim.
func (sim *simulation) usersOnNodes(claim *v1.PersistentVolumeClaim) map[types.UID]*v1.Pod {
	users := map[types.UID]*v1.Pod{}
	for _, pod := range sim.server.sorted {
		if pod.Spec.NodeName == "" || !isLivePod(pod) || pod.Namespace != claim.Namespace {
			continue
		}
		names, _ := claimNamesOf(pod)
		for _, name := range names {
			if name == claim.Name {
				users[pod.UID] = pod
			}
		}
	}
	return users
}
