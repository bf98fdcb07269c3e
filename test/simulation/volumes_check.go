package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/scheduler/framework"
)

// knownClaims are the claims of a pod as the scheduler knew them when it placed the pod.
type knownClaims struct {
	// uids are by the name of the claim, and boundTo has the volumes of those that were bound.
	uids    map[string]types.UID
	boundTo map[string]string
	// limit is how many volumes the node may have.
	limit int64
	// nodes are the nodes that were known. Pods on a node that is gone use no claims.
	nodes map[string]*v1.Node
}

// noLimit is the limit of a node without a CSINode.
const noLimit = 1 << 40

// noteClaims records the claims that the plugins find at the begin of an attempt.
func (sim *simulation) noteClaims(pod *v1.Pod) {
	if !sim.hasVolumes() {
		return
	}
	known := knownClaims{uids: map[string]types.UID{}, boundTo: map[string]string{}}
	names, own := claimNamesOf(pod)
	for _, name := range names {
		if claim := stored[*v1.PersistentVolumeClaim](sim, pod.Namespace+"/"+name); claim != nil {
			known.uids[name] = claim.UID
			if isClaimBound(claim) && !own[name] { // VolumeZone passes over ephemeral volumes
				known.boundTo[name] = claim.Spec.VolumeName
			}
		}
	}
	sim.volumes.known[pod.UID] = known
}

// notePlacedClaims forgets the claims that were replaced during the attempt.
func (sim *simulation) notePlacedClaims(pod *v1.Pod, node string) {
	if !sim.hasVolumes() {
		return
	}
	known := sim.volumes.known[pod.UID]
	for name, uid := range known.uids {
		if claim := stored[*v1.PersistentVolumeClaim](sim, pod.Namespace+"/"+name); claim == nil || claim.UID != uid {
			delete(known.uids, name)
		}
	}
	known.limit, known.nodes = volumeLimit(stored[*storagev1.CSINode](sim, node)), sim.tasks.current.known.nodes
	sim.volumes.known[pod.UID] = known
}

func volumeLimit(node *storagev1.CSINode) int64 {
	if node == nil {
		return noLimit
	}
	return int64(*node.Spec.Drivers[0].Allocatable.Count)
}

// checkVolumePatch checks each write of Berth to a volume: it does not take the volume from a claim.
func (sim *simulation) checkVolumePatch(p *v1.PersistentVolume, claim *v1.ObjectReference) {
	if p.Spec.ClaimRef != nil && (claim == nil || p.Spec.ClaimRef.UID != claim.UID) {
		sim.failf("volume %s is taken from claim %s (UID %s) for %+v", p.Name, p.Spec.ClaimRef.Name, p.Spec.ClaimRef.UID, claim)
	}
}

// checkVolumesOfBind checks the claims of a pod that was bound, as far as they are those that
// were known when it was placed: each is bound, to a volume that the node reaches; no other pod
// that we placed uses a claim for one pod; and the node has no more volumes than it may have.
func (sim *simulation) checkVolumesOfBind(pod *v1.Pod, d placement) {
	known := sim.volumes.known[pod.UID]
	for _, name := range slices.Sorted(maps.Keys(known.uids)) {
		claim := sim.knownClaim(pod, name)
		if claim == nil {
			continue
		}
		if claim.Spec.VolumeName == "" {
			sim.failf("%s was bound, and its claim %s is not", describe(pod), describe(claim))
			return
		}
		sim.count("a pod is bound with a claim")
		p := find[*v1.PersistentVolume](sim.server, claim.Spec.VolumeName)
		if p != nil && !sim.reachedSince(p, d.knownNode, known.boundTo[name] == p.Name) {
			sim.failf("%s was bound, and its claim %s is bound to volume %s, which the node does not reach", describe(pod), describe(claim), p.Name)
		}
		if !isForOnePod(claim) {
			continue
		}
		sim.count("a pod is bound with a claim for one pod")
		for uid, other := range sim.usersOnNodes(claim) {
			if uid != pod.UID && sim.knownClaim(other, name) != nil && sim.knewOther(pod, d, other) {
				sim.failf("%s was bound, and %s uses its claim %s as well, which is for one pod", describe(pod), describe(other), name)
			}
		}
	}
	sim.checkVolumeLimit(pod, d)
}

// knewOther says whether we placed another pod, and the later of both placements knew the node of
// the earlier one.
func (sim *simulation) knewOther(pod *v1.Pod, d placement, other *v1.Pod) bool {
	of, ours := sim.placementOf(other)
	if ours && of.number > d.number {
		return sim.volumes.known[other.UID].nodes[d.node] != nil
	}
	return ours && sim.volumes.known[pod.UID].nodes[of.node] != nil
}

// knownClaim returns a claim of a pod, nil where it is not the one that was known when the pod was
// placed.
func (sim *simulation) knownClaim(pod *v1.Pod, name string) *v1.PersistentVolumeClaim {
	claim := find[*v1.PersistentVolumeClaim](sim.server, pod.Namespace+"/"+name)
	if claim == nil || claim.UID != sim.volumes.known[pod.UID].uids[name] {
		return nil
	}
	return claim
}

// checkVolumeLimit compares the volumes of the pods that we placed on a node with the highest limit
// that was known when one of them was placed.
func (sim *simulation) checkVolumeLimit(pod *v1.Pod, d placement) {
	handles, limit := map[string]bool{}, int64(0)
	for _, other := range sim.podsConsidered(d) {
		if !sim.placedByUs(other) {
			continue
		}
		for name := range sim.volumes.known[other.UID].uids {
			if claim := sim.knownClaim(other, name); claim != nil {
				limit = max(limit, sim.volumes.known[other.UID].limit)
				if handle := sim.handleOf(claim); handle != "" {
					handles[handle] = true
				}
			}
		}
	}
	if int64(len(handles)) > limit {
		sim.failf("%s was bound, and %s has %d volumes of %d", describe(pod), d.node, len(handles), limit)
	}
	if limit < noLimit && int64(len(handles)) == limit && limit > 0 {
		sim.count("a node has as many volumes as it may have")
	}
}

// handleOf returns what identifies the volume of the driver that a claim has or will have; empty
// for none.
func (sim *simulation) handleOf(claim *v1.PersistentVolumeClaim) string {
	if p := find[*v1.PersistentVolume](sim.server, claim.Spec.VolumeName); p != nil {
		if p.Spec.CSI == nil {
			return ""
		}
		return p.Spec.CSI.VolumeHandle
	}
	class := find[*storagev1.StorageClass](sim.server, *claim.Spec.StorageClassName)
	if class == nil || class.Provisioner != driverName {
		return ""
	}
	return "claim " + claim.Name
}

func isForOnePod(claim *v1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod)
}

// reachedSince says whether a node reaches a volume, or did since it was as known.
func (sim *simulation) reachedSince(p *v1.PersistentVolume, known *v1.Node, labels bool) bool {
	if reaches(p, known, labels) {
		return true
	}
	for _, c := range slices.Backward(sim.server.log) {
		node, is := c.new.(*v1.Node)
		switch {
		case !is || node.Name != known.Name:
		case versionOf(node) <= versionOf(known):
			return false
		case reaches(p, node, labels):
			return true
		}
	}
	return false
}

func versionOf(o object) int {
	version, _ := strconv.Atoi(o.GetResourceVersion())
	return version
}

// reaches says whether a node is in the volume's node affinity and, with labels, in the zone that
// its label names.
func reaches(p *v1.PersistentVolume, node *v1.Node, labels bool) bool {
	if zone, has := p.Labels[v1.LabelTopologyZone]; has && labels && node.Labels[v1.LabelTopologyZone] != zone {
		return false
	}
	if p.Spec.NodeAffinity == nil {
		return true
	}
	for _, r := range p.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if !slices.Contains(r.Values, node.Labels[r.Key]) {
			return false
		}
	}
	return true
}

// checkVolumes checks, where the history is quiescent, that nothing is assumed of a volume or a
// claim any more.
func (sim *simulation) checkVolumes() {
	if !sim.hasVolumes() || sim.handle == nil {
		return
	}
	volumes, err := framework.VolumesOf(sim.handle)
	if err != nil {
		sim.failf("%v", err)
		return
	}
	for _, p := range all[*v1.PersistentVolume](sim.server) {
		if is, err := volumes.Volume(p.Name); err != nil || !equality.Semantic.DeepEqual(is, p) {
			sim.failf("volume %s is assumed to be %+v (%v), and is %+v", p.Name, is, err, p)
		}
	}
	for _, claim := range all[*v1.PersistentVolumeClaim](sim.server) {
		if is, err := volumes.Claim(claim.Namespace, claim.Name); err != nil || !equality.Semantic.DeepEqual(is, claim) {
			sim.failf("claim %s is assumed to be %+v (%v), and is %+v", claim.Name, is, err, claim)
		}
	}
}

// volumesRefuse says why a pod cannot be on a node because of its claims, beside other pods there,
// of which it may be one itself.
func (sim *simulation) volumesRefuse(pod *v1.Pod, node *v1.Node, there []*v1.Pod) string {
	if !sim.hasVolumes() {
		return ""
	}
	names, own := claimNamesOf(pod)
	var unbound []*v1.PersistentVolumeClaim
	for _, name := range names {
		claim := find[*v1.PersistentVolumeClaim](sim.server, pod.Namespace+"/"+name)
		why, isBound := sim.claimRefuses(claim, node, there, pod)
		switch {
		case why != "":
			return why
		case own[name] && !metav1.IsControlledBy(claim, pod):
			return "a claim of its name is not for it"
		case !isBound:
			unbound = append(unbound, claim)
		}
	}
	if why := sim.cannotBind(unbound, node); why != "" {
		return why
	}
	return sim.exceedsVolumes(pod, node, there)
}

// claimRefuses says why a node is out of the question for one claim of a pod; nil: there is none.
func (sim *simulation) claimRefuses(claim *v1.PersistentVolumeClaim, node *v1.Node, there []*v1.Pod, pod *v1.Pod) (why string, isBound bool) {
	if claim == nil || claim.Status.Phase == v1.ClaimLost || claim.DeletionTimestamp != nil {
		return "a claim does not exist, is lost or is being deleted", false
	}
	if isForOnePod(claim) {
		users := sim.usersOnNodes(claim)
		for _, other := range there {
			if names, _ := claimNamesOf(other); slices.Contains(names, claim.Name) {
				users[other.UID] = other
			}
		}
		delete(users, pod.UID)
		maps.DeleteFunc(users, func(_ types.UID, other *v1.Pod) bool {
			return other.Spec.NodeName != "" && sim.server.nodes[other.Spec.NodeName] == nil
		})
		if len(users) > 0 {
			return "another pod uses a claim that is for one pod", false
		}
	}
	if isClaimBound(claim) {
		own := metav1.IsControlledBy(claim, pod)
		if p := find[*v1.PersistentVolume](sim.server, claim.Spec.VolumeName); p == nil || !reaches(p, node, !own) {
			return "the node does not reach a volume", true
		}
		return "", true
	}
	class := find[*storagev1.StorageClass](sim.server, *claim.Spec.StorageClassName)
	if class == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		return "a claim is not bound yet", false
	}
	if selected, is := claim.Annotations[volume.AnnSelectedNode]; is && selected != node.Name {
		return "a volume is being provisioned for another node", false
	}
	return "", false
}

// cannotBind says why claims that wait for a pod get no volumes on a node.
func (sim *simulation) cannotBind(claims []*v1.PersistentVolumeClaim, node *v1.Node) string {
	taken := map[string]bool{}
	slices.SortStableFunc(claims, func(a, b *v1.PersistentVolumeClaim) int {
		return cmp.Compare(a.Spec.Resources.Requests.Storage().Value(), b.Spec.Resources.Requests.Storage().Value())
	})
	for _, claim := range claims {
		if _, selected := claim.Annotations[volume.AnnSelectedNode]; !selected {
			if p := sim.smallestVolume(claim, node, taken); p != nil {
				taken[p.Name] = true
				continue
			}
		}
		if why := sim.cannotProvision(claim, node); why != "" {
			return why
		}
	}
	return ""
}

// smallestVolume returns the smallest volume that is free and large enough for a claim on a node.
func (sim *simulation) smallestVolume(claim *v1.PersistentVolumeClaim, node *v1.Node, taken map[string]bool) (best *v1.PersistentVolume) {
	for _, p := range all[*v1.PersistentVolume](sim.server) {
		fits := p.Spec.StorageClassName == *claim.Spec.StorageClassName && p.Spec.ClaimRef == nil && !taken[p.Name] &&
			p.Spec.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) >= 0 && reaches(p, node, false)
		if fits && (best == nil || p.Spec.Capacity.Storage().Cmp(*best.Spec.Capacity.Storage()) < 0) {
			best = p
		}
	}
	return best
}

func (sim *simulation) cannotProvision(claim *v1.PersistentVolumeClaim, node *v1.Node) string {
	class := find[*storagev1.StorageClass](sim.server, *claim.Spec.StorageClassName)
	if class.Provisioner != driverName {
		return "no volume fits"
	}
	if !sim.volumes.publishesCapacity {
		return ""
	}
	capacity := find[*storagev1.CSIStorageCapacity](sim.server, "system/"+class.Name+"-"+node.Labels[v1.LabelTopologyZone])
	if capacity == nil || capacity.Capacity.Cmp(*claim.Spec.Resources.Requests.Storage()) < 0 {
		return "the storage capacity is too small"
	}
	return ""
}

// exceedsVolumes says that a pod would exceed the number of volumes that a node may have.
func (sim *simulation) exceedsVolumes(pod *v1.Pod, node *v1.Node, there []*v1.Pod) string {
	limit := volumeLimit(find[*storagev1.CSINode](sim.server, node.Name))
	used, more := map[string]bool{}, map[string]bool{}
	for _, other := range there {
		if other.UID != pod.UID {
			sim.addHandles(other, used)
		}
	}
	sim.addHandles(pod, more)
	maps.DeleteFunc(more, func(handle string, _ bool) bool { return used[handle] })
	if len(more) > 0 && int64(len(used)+len(more)) > limit {
		return fmt.Sprintf("it would have %d volumes of %d", len(used)+len(more), limit)
	}
	return ""
}

// addHandles adds what identifies the volumes of a pod.
func (sim *simulation) addHandles(pod *v1.Pod, handles map[string]bool) {
	names, _ := claimNamesOf(pod)
	for _, name := range names {
		if claim := find[*v1.PersistentVolumeClaim](sim.server, pod.Namespace+"/"+name); claim != nil {
			if handle := sim.handleOf(claim); handle != "" {
				handles[handle] = true
			}
		}
	}
}

// requiredVolumeEvents are what a thousand seeds of histories of volumes must have seen.
func requiredVolumeEvents() []string {
	required := []string{
		"a claim is bound", "a volume is provisioned", "a volume is provisioned in any zone", "a claim is lost",
		"provisioning is given up: it fails", "provisioning is given up: its node is gone",
		"a volume is available again",
		"the claim of an ephemeral volume is created", "a claim is deleted while a pod uses it",
		"a pod is bound with a claim", "a pod is bound with a claim for one pod", "a node has as many volumes as it may have",
		"a swap", "a swap meets a refused pod", "event FailedScheduling", "event Preempted", "unreserved", "post-bound", leaderReplaced,
	}
	for _, action := range volumeActions {
		required = append(required, action.name)
	}
	for _, verb := range []string{patchVolume, patchClaim} {
		required = append(required, verb+" done", verb+" refused", verb+" canceled", "late "+verb+" done", "late "+verb+" refused")
		for _, outcome := range outcomes {
			required = append(required, verb+" "+outcome.name)
		}
	}
	return required
}
