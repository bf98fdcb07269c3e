package simulation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/queue"
)

// checkBind checks each Binding that the server commits: a Reserve decided it, the annotation
// names the spec, and the node, as it was known at the newest placement on it, has room for
// all pods that we placed there.
func (sim *simulation) checkBind(before, after *v1.Pod) {
	sim.checkEpoch(after)
	if before.Spec.NodeName != "" {
		sim.failf("%s was bound twice", describe(after))
	}
	d, ok := sim.placementOf(after)
	if !ok {
		sim.failf("%s was bound, and no spec placed it there", describe(after))
		return
	}
	sim.boundBy[after.UID] = d.process
	if d.undone {
		sim.failf("%s was bound by a Binding whose placement was undone", describe(after))
	}
	if !maps.Equal(before.Labels, d.pod.Labels) || len(before.Spec.Tolerations) != len(d.pod.Spec.Tolerations) {
		sim.failf("%s was bound and has changed since it was placed: %s", describe(after), describe(d.pod))
	}
	sim.checkRecord(after, d)
	sim.checkAnnotation(after, d)
	sim.checkCycleSpec(after, d)
	last := d
	for _, pod := range sim.podsOn(d.node) {
		if other, ours := sim.placementOf(pod); ours && other.number > last.number {
			last = other
		}
	}
	if why := overcommitted(last.knownNode, sim.podsConsidered(last)); why != "" {
		sim.failf("%s was bound, but on %s %s", describe(after), d.node, why)
	}
	if why := portConflict(after, sim.podsConsidered(d)); why != "" {
		sim.failf("%s was bound to %s, but %s", describe(after), d.node, why)
	}
	if sim.hasVolumes() {
		sim.checkVolumesOfBind(after, d)
	}
	sim.checkDevicesOfBind(after)
}

// podsConsidered are the pods on a node that a placement had to take into account: those that
// we placed there, earlier or later, and those of others that were known then.
func (sim *simulation) podsConsidered(d placement) []*v1.Pod {
	return slices.DeleteFunc(sim.podsOn(d.node), func(pod *v1.Pod) bool {
		_, ours := sim.placementOf(pod)
		return !ours && !slices.Contains(d.others, pod.UID)
	})
}

// checkFailure checks a failed attempt: the first conflict of a Binding must not fail it,
// since the pod is read first, and bound again where it is unchanged.
func (sim *simulation) checkFailure(pod *v1.Pod, note string) {
	if strings.Contains(note, "Operation cannot be fulfilled") && !strings.Contains(note, "was given up") && sim.bindingsSent[pod.UID] == 1 && !sim.isDeposed() {
		sim.failf("%s failed by the first conflict: %s", describe(pod), note)
	}
}

// checkRecord compares the annotation of a bound pod with the placement.
func (sim *simulation) checkRecord(pod *v1.Pod, d placement) {
	var record struct {
		Profile, Hash, Node string
	}
	if err := json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationDecision]), &record); err != nil {
		sim.failf("%s has no valid annotation: %v", describe(pod), err)
		return
	}
	if record.Node != d.node || record.Profile != pod.Spec.SchedulerName || sim.specOf[record.Hash] != d.spec {
		sim.failf("%s has the annotation %+v of spec %d, and was placed by spec %d", describe(pod), record, sim.specOf[record.Hash], d.spec)
	}
}

// checkAlways checks the invariants that hold at any moment.
func (sim *simulation) checkAlways() {
	if sim.hasReplicas() {
		sim.checkReplicas()
	}
	sim.checkQueueAndCache()
}

// checkQueueAndCache checks that the queue is consistent, and that no pod is both assigned and
// nominated.
func (sim *simulation) checkQueueAndCache() {
	if err := sim.sched.Components().Queue.Check(); err != nil {
		sim.failf("the queue is inconsistent: %v", err)
	}
	cache := sim.sched.Components().Cache
	for _, pod := range sim.server.sortedPods() {
		if node := cache.NominatedNode(pod.UID); node != "" && cache.IsAssigned(pod.UID) {
			sim.failf("%s is assigned, and still nominated for %s", describe(pod), node)
		}
	}
}

// checkNominations checks that the nominated pods are pending, and that their statuses say so.
func (sim *simulation) checkNominations() {
	live := map[types.UID]bool{}
	for _, pod := range sim.server.pods {
		live[pod.UID] = isPending(pod)
	}
	nominations := sim.sched.Components().Cache.Nominator
	for _, node := range sim.server.nodes {
		for _, info := range nominations.NominatedPodsForNode(node.Name) {
			pod := info.GetPod()
			if !live[pod.UID] {
				sim.failf("%s is nominated for %s and is not pending", describe(pod), node.Name)
			} else if written := sim.server.pods[keyOf(pod)].Status.NominatedNodeName; written != node.Name && sim.settings.requestFaults["patch"] == 0 && !sim.unwritable[pod.UID] {
				// A write that its sender is not permitted to repeat, since it does not lead, is lost.
				sim.failf("%s is nominated for %s, and its status says %q", describe(pod), node.Name, written)
			}
		}
	}
}

// checkCache compares the cache with the server.
func (sim *simulation) checkCache() {
	snapshot := sim.sched.Components().Cache.UpdateSnapshot()
	if snapshot.Len() != len(sim.server.nodes) {
		sim.failf("the cache has %d nodes, the cluster %d", snapshot.Len(), len(sim.server.nodes))
		return
	}
	placed := 0
	for _, pod := range sim.server.pods {
		if pod.Spec.NodeName != "" && isLivePod(pod) {
			placed++
		}
	}
	if pods, assumed := sim.sched.Components().Cache.Sizes(); pods != placed || assumed > 0 {
		sim.failf("the cache holds %d pods, %d of them assumed; the cluster has %d on nodes", pods, assumed, placed)
	}
	for _, node := range sim.server.sortedNodes() {
		info := snapshot.Node(node.Name)
		if info == nil || info.Node().ResourceVersion != node.ResourceVersion {
			sim.failf("the cache has another version of node %s than the cluster", node.Name)
			continue
		}
		there, want := map[types.UID]bool{}, sim.podsOn(node.Name)
		for _, pod := range info.GetPods() {
			there[pod.GetPod().UID] = true
		}
		var cpu int64
		for _, pod := range want {
			cpu += cpuOf(pod).MilliValue()
			if !there[pod.UID] {
				sim.failf("the cache lacks %s", describe(pod))
			}
		}
		if len(there) != len(want) || info.GetRequested().GetMilliCPU() != cpu {
			sim.failf("the cache has %d pods with %dm cpu on %s, the cluster %d with %dm", len(there),
				info.GetRequested().GetMilliCPU(), node.Name, len(want), cpu)
		}
	}
}

// checkIdle checks the invariants that hold where only time can advance.
func (sim *simulation) checkIdle() {
	for _, pod := range sim.server.sortedPods() {
		if pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" && sim.sched.Components().Waiting.Has(pod.UID) {
			sim.failf("%s waits on Permit, and is being deleted", describe(pod))
		}
	}
}

// idle says that only time can advance, and all that the watches read was delivered.
func (sim *simulation) idle() bool {
	if len(sim.requests) > 0 || len(sim.tasks.runnable()) > 0 || len(sim.controllerSteps()) > 0 {
		return false
	}
	for _, r := range sim.replicas {
		for _, watch := range r.informers {
			if watch.hasUnread() || watch.hasPending() {
				return false
			}
		}
	}
	return true
}

// endFaults ends faults and actions, waits until the history is quiescent, and checks it.
func (sim *simulation) endFaults() {
	if sim.failure != nil {
		return
	}
	sim.healed = true
	sim.logf("faults and actions end")
	if sim.hasReplicas() {
		sim.heal()
	}
	for _, pod := range sim.server.sortedPods() {
		if pod.Labels[permitLabel] != "" {
			sim.updatePod(pod, "is permitted", func(p *v1.Pod) { delete(p.Labels, permitLabel) })
		}
	}
	if sim.hasVolumes() {
		sim.healVolumes()
	}
	if sim.hasGangs() {
		sim.endGangs()
	}
	if len(sim.server.nodes) == 0 {
		// Without nodes, pods are retried without end, as upstream.
		addNode(sim, sim.random)
	}
	for n := 0; sim.failure == nil && !sim.quiescent(); n++ {
		if n == sim.patience() {
			sim.failf("not quiescent; pods by queue: %v", sim.places())
		}
		sim.step()
	}
	if sim.failure == nil {
		sim.checkQuiescent()
	}
}

// patience is how many steps a history may take until nothing happens any more.
func (sim *simulation) patience() int {
	return 20000*len(sim.replicas) + 1000*sim.settings.gangs
}

// quiescent says that nothing but clocks will ever advance.
func (sim *simulation) quiescent() bool {
	if len(sim.lateWrites) > 0 || len(sim.terminating) > 0 || !sim.idle() || !sim.hasLeader() {
		return false
	}
	for _, place := range sim.sched.Components().Queue.Places() {
		if place == queue.Active || place == queue.Backoff || place == queue.InFlight || place == "" {
			return false
		}
	}
	for _, p := range sim.profiles {
		if p.running != nil && sim.sched.Components().Queue.Counts(p.name).Quarantined > 0 {
			return false // it is released later
		}
	}
	return sim.onlyPeriodic() && sim.waitingPods() == 0 && sim.explained() && sim.reported()
}

// waitingPods is the number of pods that wait on Permit.
func (sim *simulation) waitingPods() (n int) {
	sim.sched.Components().Waiting.Each(func(fwk.WaitingPod) { n++ })
	return n
}

func (sim *simulation) places() map[string]int {
	counts := map[string]int{}
	for _, place := range sim.sched.Components().Queue.Places() {
		counts[string(place)]++
	}
	return counts
}

// checkQuiescent checks the invariants that hold where the history is quiescent.
func (sim *simulation) checkQuiescent() {
	sim.checkAlways()
	sim.checkProfiles()
	sim.checkQueue()
	sim.checkCache()
	if sim.hasReplicas() {
		sim.checkStandbys()
	}
	sim.checkVolumes()
	sim.checkDevices()
	if markers, kept := sim.sched.Components().Queue.InFlightCounts(); markers+kept > 0 {
		sim.failf("the log of events keeps %d markers and %d events", markers, kept)
	}
	for _, p := range sim.probes {
		if len(p.reserved) > 0 {
			sim.failf("reserved and neither bound nor unreserved: %v", p.reserved)
		}
	}
}

// checkProfiles checks that the last applied spec of each profile runs, and that no other
// Generation is open.
func (sim *simulation) checkProfiles() {
	open := 0
	for _, p := range sim.profiles {
		running, ok := sim.sched.Profiles().Running(p.name)
		if ok {
			open++
		}
		if ok != (p.running != nil) {
			sim.failf("profile %s runs: %v, want %v", p.name, ok, p.running)
		} else if ok && sim.specOf[running.Blueprint.Hash] != p.running.number {
			sim.failf("profile %s runs spec %d, want %d", p.name, sim.specOf[running.Blueprint.Hash], p.running.number)
		}
	}
	if sim.openGenerations != open {
		sim.failf("%d generations are open, and %d profiles run", sim.openGenerations, open)
	}
}

// checkQueue checks that every pending pod is in the right queue, and no other pod in any.
func (sim *simulation) checkQueue() {
	places := sim.sched.Components().Queue.Places()
	for _, pod := range sim.server.sortedPods() {
		place, queued := places[pod.UID]
		delete(places, pod.UID)
		if p := sim.profileOf(pod); p != nil && isPending(pod) {
			sim.checkPlace(pod, p, place, queued)
		} else if queued && pod.DeletionTimestamp == nil {
			sim.failf("%s is queued as %s and is not pending", describe(pod), place)
		}
	}
	for uid := range places {
		sim.failf("UID %s is queued and no such pod exists", uid)
	}
	sim.checkNominations()
}

func (sim *simulation) profileOf(pod *v1.Pod) *profile {
	return sim.profileNamed(pod.Spec.SchedulerName)
}

func (sim *simulation) profileNamed(name string) *profile {
	for _, p := range sim.profiles {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (sim *simulation) checkPlace(pod *v1.Pod, p *profile, place queue.Place, queued bool) {
	want := queue.Unschedulable
	switch {
	case p.running == nil:
		if queued && place != queue.Held {
			sim.failf("%s is %s, and its profile does not run", describe(pod), place)
		}
		return
	case p.paused:
		want = queue.Held
	case sim.isGrouped(pod, p.running):
		sim.checkGroupPlace(sim.gangOf(pod), p, place)
		return
	case isGatedPod(pod, p.running):
		want = queue.Gated
	}
	if want == queue.Unschedulable && place == queue.Gated && sim.hasUnusableDeviceClaim(pod) {
		want = queue.Gated // by DynamicResources
	}
	sim.count("a quiescent pod is " + string(want))
	if place != want {
		sim.failf("%s is at %q, want %s", describe(pod), place, want)
		return
	}
	if want == queue.Unschedulable {
		if node, ok := sim.feasibleNode(pod, p); ok {
			sim.failf("%s is unschedulable, and fits on %s", describe(pod), node)
		}
	}
}
