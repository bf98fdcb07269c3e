package sim

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/queue"
)

// checkBind holds each Binding that the server commits to what must be true
// of it: it was decided, it says by whom, and all that we put on the node has
// room there by what was known when the last of it was decided.
func (w *world) checkBind(before, after *v1.Pod) {
	if before.Spec.NodeName != "" {
		w.fail("%s was bound twice", describe(after))
	}
	d, ok := w.decisionFor(after)
	if !ok {
		w.fail("%s was bound, which nobody decided", describe(after))
		return
	}
	if d.undone {
		w.fail("%s was bound by a Binding that was given up", describe(after))
	}
	if !maps.Equal(before.Labels, d.pod.Labels) || len(before.Spec.Tolerations) != len(d.pod.Spec.Tolerations) {
		w.fail("%s was bound and is not what was decided about: %s", describe(after), describe(d.pod))
	}
	w.checkRecord(after, d)
	last := d
	for _, pod := range w.on(d.node) {
		if other, ours := w.decisionFor(pod); ours && other.number > last.number {
			last = other
		}
	}
	if why := crowded(last.room, w.together(last)); why != "" {
		w.fail("%s was bound, but on %s %s", describe(after), d.node, why)
	}
	if why := clash(after, w.together(d)); why != "" {
		w.fail("%s was bound to %s, but %s", describe(after), d.node, why)
	}
}

// together are the pods on a node that a decision for it had to reckon with:
// those that we put there, before it or since, and those of others that were
// known then.
func (w *world) together(d decided) []*v1.Pod {
	return slices.DeleteFunc(w.on(d.node), func(pod *v1.Pod) bool {
		_, ours := w.decisionFor(pod)
		return !ours && !slices.Contains(d.foreign, pod.UID)
	})
}

// checkFailure holds a failed attempt to what may fail it: a conflict says
// nothing before the pod was read, and a pod that is there unchanged is bound
// again.
func (w *world) checkFailure(pod *v1.Pod, note string) {
	if strings.Contains(note, "Operation cannot be fulfilled") && !strings.Contains(note, "was given up") && w.binds[pod.UID] == 1 {
		w.fail("%s failed by the first conflict: %s", describe(pod), note)
	}
}

// checkRecord holds the annotation of a bound pod to the decision.
func (w *world) checkRecord(pod *v1.Pod, d decided) {
	var record struct {
		Profile, Hash, Node string
	}
	if err := json.Unmarshal([]byte(pod.Annotations[decision.AnnotationKey]), &record); err != nil {
		w.fail("%s carries no record: %v", describe(pod), err)
		return
	}
	if record.Node != d.node || record.Profile != pod.Spec.SchedulerName || w.markOf[record.Hash] != d.mark {
		w.fail("%s carries the record %+v of mark %d, decided by mark %d", describe(pod), record, w.markOf[record.Hash], d.mark)
	}
}

// checkAlways is what is true at any moment.
func (w *world) checkAlways() {
	if err := w.sched.Rooms().Queue.Check(); err != nil {
		w.fail("the queue's books: %v", err)
	}
	cache := w.sched.Rooms().Cache
	for _, pod := range w.server.sortedPods() {
		if node := cache.NominatedNode(pod.UID); node != "" && cache.Placed(pod.UID) {
			w.fail("%s has a node, and room promised on %s besides", describe(pod), node)
		}
	}
}

// checkStill is what is true when nothing but time can move.
func (w *world) checkStill() {
	for _, pod := range w.server.sortedPods() {
		if pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" && w.sched.Rooms().Waiting.Has(pod.UID) {
			w.fail("%s waits at Permit, and is being deleted", describe(pod))
		}
	}
}

// still says whether nothing but time can move, and all that the watches saw
// was told.
func (w *world) still() bool {
	if len(w.requests) > 0 || len(w.tasks.runnable()) > 0 {
		return false
	}
	for _, watch := range w.watches {
		if watch.behind() || len(watch.notices) > 0 {
			return false
		}
	}
	return true
}

// heal ends all faults and all acts, lets everything come to rest and looks at
// what is left.
func (w *world) heal() {
	if w.fault != nil {
		return
	}
	w.healed = true
	w.say("nothing goes wrong any more")
	for _, pod := range w.server.sortedPods() {
		if pod.Labels[permitLabel] != "" {
			w.edit(pod, "is permitted", func(p *v1.Pod) { delete(p.Labels, permitLabel) })
		}
	}
	if len(w.server.nodes) == 0 {
		// Without nodes, pods are tried for ever, as upstream.
		addNode(w, w.dice)
	}
	const patience = 20000
	for n := 0; w.fault == nil && !w.atRest(); n++ {
		if n == patience {
			w.fail("the world does not come to rest; places: %v", w.places())
		}
		w.step()
	}
	if w.fault == nil {
		w.checkAtRest()
	}
}

// atRest says whether nothing but clocks will ever move.
func (w *world) atRest() bool {
	if len(w.ghosts) > 0 || len(w.leaving) > 0 || !w.still() {
		return false
	}
	for _, place := range w.sched.Rooms().Queue.Places() {
		if place == queue.Active || place == queue.Backoff || place == queue.InFlight || place == "" {
			return false
		}
	}
	for _, p := range w.profiles {
		if p.runs != nil && w.sched.Rooms().Queue.Counts(p.name).SetAside > 0 {
			return false // it comes back when its time is over
		}
	}
	return w.clock.quiet() && w.sched.Rooms().Waiting.Len() == 0
}

func (w *world) places() map[string]int {
	counts := map[string]int{}
	for _, place := range w.sched.Rooms().Queue.Places() {
		counts[string(place)]++
	}
	return counts
}

// checkAtRest is what is true when everything came to rest.
func (w *world) checkAtRest() {
	w.checkAlways()
	w.checkProfiles()
	w.checkWaiting()
	w.checkCache()
	if markers, kept := w.sched.Rooms().Queue.Kept(); markers+kept > 0 {
		w.fail("the log of events keeps %d markers and %d events", markers, kept)
	}
	for _, p := range w.probes {
		if len(p.reserved) > 0 {
			w.fail("reserved and neither bound nor unreserved: %v", p.reserved)
		}
	}
}

// checkProfiles holds what runs to what was brought to run last, and nothing
// else is left open.
func (w *world) checkProfiles() {
	open := 0
	for _, p := range w.profiles {
		running, ok := w.sched.Profiles().Running(p.name)
		if ok {
			open++
		}
		if ok != (p.runs != nil) {
			w.fail("profile %s runs: %v, want %v", p.name, ok, p.runs)
		} else if ok && w.markOf[running.Blueprint.Hash] != p.runs.mark {
			w.fail("profile %s runs mark %d, want %d", p.name, w.markOf[running.Blueprint.Hash], p.runs.mark)
		}
	}
	if w.open != open {
		w.fail("%d generations are open, and %d profiles run", w.open, open)
	}
}

// checkWaiting finds every pod that waits in exactly one place, and none there
// that need not wait.
func (w *world) checkWaiting() {
	places := w.sched.Rooms().Queue.Places()
	for _, pod := range w.server.sortedPods() {
		place, queued := places[pod.UID]
		delete(places, pod.UID)
		if p := w.profileOf(pod); p != nil && isPending(pod) {
			w.checkPlace(pod, p, place, queued)
		} else if queued && pod.DeletionTimestamp == nil {
			w.fail("%s is queued as %s and has nothing to wait for", describe(pod), place)
		}
	}
	for uid := range places {
		w.fail("UID %s is queued and no such pod exists", uid)
	}
	w.checkNominations()
}

func (w *world) profileOf(pod *v1.Pod) *profile {
	for _, p := range w.profiles {
		if p.name == pod.Spec.SchedulerName {
			return p
		}
	}
	return nil
}

func (w *world) checkPlace(pod *v1.Pod, p *profile, place queue.Place, queued bool) {
	want := queue.Unschedulable
	switch {
	case p.runs == nil:
		if queued && place != queue.Parked {
			w.fail("%s is %s, and its profile does not run", describe(pod), place)
		}
		return
	case p.paused, len(pod.Spec.ResourceClaims) > 0:
		want = queue.Parked
	case len(pod.Spec.SchedulingGates) > 0, !p.runs.withoutProbe && pod.Labels[holdLabel] != "":
		want = queue.Gated
	}
	w.count("at rest: " + string(want))
	if place != want {
		w.fail("%s is at %q, want %s", describe(pod), place, want)
		return
	}
	if want == queue.Unschedulable {
		if node, ok := w.fits(pod, p); ok {
			w.fail("%s waits, and there is room for it on %s", describe(pod), node)
		}
	}
}

// checkNominations finds no room promised to a pod that does not wait.
func (w *world) checkNominations() {
	live := map[types.UID]bool{}
	for _, pod := range w.server.pods {
		live[pod.UID] = isPending(pod)
	}
	nominations := w.sched.Rooms().Cache.Nominator
	for _, node := range w.server.nodes {
		for _, info := range nominations.NominatedPodsForNode(node.Name) {
			pod := info.GetPod()
			if !live[pod.UID] {
				w.fail("%s has room promised on %s and does not wait", describe(pod), node.Name)
			} else if told := w.server.pods[keyOf(pod)].Status.NominatedNodeName; told != node.Name && w.swarm.faults["patch"] == 0 && !w.untold[pod.UID] {
				// What may not be written, or not be read for it, is not tried again.
				w.fail("%s has room promised on %s, and was told %q", describe(pod), node.Name, told)
			}
		}
	}
}

// checkCache holds the cache to the server's truth.
func (w *world) checkCache() {
	snapshot := w.sched.Rooms().Cache.Refresh()
	if snapshot.Len() != len(w.server.nodes) {
		w.fail("the cache has %d nodes, the cluster %d", snapshot.Len(), len(w.server.nodes))
		return
	}
	placed := 0
	for _, pod := range w.server.pods {
		if pod.Spec.NodeName != "" && isLivePod(pod) {
			placed++
		}
	}
	if pods, assumed := w.sched.Rooms().Cache.Sizes(); pods != placed || assumed > 0 {
		w.fail("the cache holds %d pods, %d of them assumed; the cluster has %d on nodes", pods, assumed, placed)
	}
	for _, node := range w.server.sortedNodes() {
		info := snapshot.Node(node.Name)
		if info == nil || info.Node().ResourceVersion != node.ResourceVersion {
			w.fail("the cache's node %s is not the cluster's", node.Name)
			continue
		}
		there, want := map[types.UID]bool{}, w.on(node.Name)
		for _, pod := range info.GetPods() {
			there[pod.GetPod().UID] = true
		}
		var cpu int64
		for _, pod := range want {
			cpu += cpuOf(pod).MilliValue()
			if !there[pod.UID] {
				w.fail("the cache lacks %s", describe(pod))
			}
		}
		if len(there) != len(want) || info.GetRequested().GetMilliCPU() != cpu {
			w.fail("the cache has %d pods with %dm cpu on %s, the cluster %d with %dm", len(there),
				info.GetRequested().GetMilliCPU(), node.Name, len(want), cpu)
		}
	}
}
