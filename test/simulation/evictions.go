package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
)

func (c *podClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	key, uid := c.namespace+"/"+name, types.UID("")
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		uid = *o.Preconditions.UID
	}
	what := fmt.Sprintf("delete %s (UID %s)", key, uid)
	_, err := c.sim.call(ctx, "delete", what, func() (*v1.Pod, error) { return nil, c.sim.server.evict(key, uid) })
	return err
}

// evict is the deletion of a pod. A bound pod stays until its containers have ended.
func (s *server) evict(key string, uid types.UID) error {
	pod, err := s.get(key)
	switch {
	case err != nil:
		return err
	case uid != "" && uid != pod.UID:
		return apierrors.NewConflict(podResource, key, fmt.Errorf("the UID is another"))
	case pod.DeletionTimestamp != nil:
	case pod.Spec.NodeName == "":
		s.dropPod(key)
	default:
		s.editPod(key, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.now()} })
	}
	s.onEvict(pod)
	return nil
}

// evictions records which pods were evicted.
type evictions struct {
	// terminating are deleted pods whose containers still run.
	terminating []*v1.Pod
	// ourPods are all pods that were ever created for our profiles.
	ourPods map[types.UID]*v1.Pod
	// evicted are the victims whose eviction an Event reported, and the process that did.
	evicted map[types.UID]int
	// turns are, by the name of a claim for one pod, how many of its users were preempted by another
	// one since the faults have ended.
	turns map[string]int
}

// checkEvict checks each deletion by Berth that the server commits.
func (sim *simulation) checkEvict(victim *v1.Pod) {
	sim.count("a victim is deleted")
	condition := v1.PodCondition{}
	for _, c := range victim.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			condition = c
		}
	}
	if condition.Status != v1.ConditionTrue || condition.Reason != v1.PodReasonPreemptionByScheduler {
		sim.failf("%s was deleted without the condition DisruptionTarget: %+v", describe(victim), condition)
	}
	if !slices.ContainsFunc(sim.terminating, func(p *v1.Pod) bool { return p.UID == victim.UID }) {
		sim.terminating = append(sim.terminating, victim)
	}
}

// checkPreempted checks an Event about a victim: the preemptor is a pod of ours with a higher
// priority, and no victim is reported twice.
func (sim *simulation) checkPreempted(victim *v1.Pod, note string) {
	// A group is named by the UID of its first pod where it has no PodGroup.
	var kind, uid, node string
	if _, err := fmt.Sscanf(note, "Preempted by %s %s on node %s", &kind, &uid, &node); err != nil {
		sim.failf("%s: the note %q: %v", describe(victim), note, err)
		return
	}
	switch preemptor, group := sim.ourPods[types.UID(uid)], sim.gangs.byPodGroup[types.UID(uid)]; {
	case kind == "podgroup" && group != nil:
		if group.priority <= corev1.PodPriority(victim) {
			sim.failf("%s was preempted by %s, whose priority is not higher", describe(victim), group.name)
		}
	case preemptor == nil:
		sim.failf("%s was preempted by %s, which is not a pod of ours", describe(victim), uid)
	case corev1.PodPriority(preemptor) <= corev1.PodPriority(victim):
		sim.failf("%s was preempted by %s, whose priority is not higher", describe(victim), describe(preemptor))
	case preemptor.Spec.PreemptionPolicy != nil:
		sim.failf("%s was preempted by %s, whose preemption policy is Never", describe(victim), describe(preemptor))
	}
	sim.logf("%s is preempted by %s", describe(victim), uid)
	if preemptor := sim.ourPods[types.UID(uid)]; preemptor != nil {
		sim.countTurn(victim, preemptor)
	}
	if strings.Contains(note, "memory") {
		sim.count("a victim that was not bound yet goes back to the queue")
		return
	}
	if by, reported := sim.evicted[victim.UID]; reported && (by == sim.process || !sim.hasReplicas()) {
		sim.failf("%s was preempted twice", describe(victim))
	}
	sim.evicted[victim.UID] = sim.process
}

// finishTermination ends the containers of an evicted pod; with settings.recreate another pod
// is created in its place.
func (sim *simulation) finishTermination(i int) {
	victim := sim.terminating[i]
	sim.terminating = slices.Delete(sim.terminating, i, i+1)
	if now, err := sim.server.get(keyOf(victim)); err == nil && now.UID == victim.UID {
		sim.logf("outside: victim %s is deleted", describe(now))
		sim.server.dropPod(keyOf(now))
	}
	if _, ours := sim.ourPods[victim.UID]; !sim.settings.recreate || !ours || sim.gangOf(victim) != nil || sim.takesTurnsWithoutEnd(victim) {
		return
	}
	again := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Labels: maps.Clone(victim.Labels)}, Spec: *victim.Spec.DeepCopy()}
	again.Name, again.UID, again.Spec.NodeName = "again-"+itoa(sim.server.version), types.UID("u"+itoa(sim.server.version)), ""
	if sim.healed {
		delete(again.Labels, permitLabel) // as endFaults does
	}
	sim.addPod(again)
	sim.count("a victim is created again")
}

// maxTurns is how often one user of a claim for one pod may preempt another one after the faults have
// ended until the victims are not created again.
const maxTurns = 20

// takesTurnsWithoutEnd says whether the victim's owner gives up, since victims and preemptors would
// take turns with a claim for one pod without end. kube-scheduler lets them, too. A nomination keeps
// no such claim: PreFilter of VolumeRestrictions counts pods on nodes alone, and skips the plugin
// where none of them has the claim. A pod that is created again, and is tried before the preemptor,
// gets the claim on any node where it fits. It may always be tried first: a new pod has no backoff,
// a pod with few attempts has a short one, and a QueueSort plugin may prefer lower priorities. When
// the owner has given up, the preemptor must get the claim: a preemptor that waits for another reason
// is still found.
func (sim *simulation) takesTurnsWithoutEnd(victim *v1.Pod) bool {
	if !slices.ContainsFunc(sim.claimsForOnePod(victim), func(claim string) bool { return sim.turns[claim] > maxTurns }) {
		return false
	}
	sim.count("a victim and its preemptor take turns with a claim without end")
	return true
}

// countTurn counts a preemption by a pod that needs a claim for one pod of the victim.
func (sim *simulation) countTurn(victim, preemptor *v1.Pod) {
	if !sim.healed {
		return
	}
	needed, _ := claimNamesOf(preemptor)
	for _, claim := range sim.claimsForOnePod(victim) {
		if slices.Contains(needed, claim) {
			sim.turns[claim]++
		}
	}
}

// addPod creates a pod for one of our profiles.
func (sim *simulation) addPod(pod *v1.Pod) {
	sim.ourPods[pod.UID] = pod
	sim.server.putPod(pod)
	sim.logf("outside: pod %s of %s, %s cpu, priority %d, labels %v, gates %d", describe(pod), pod.Spec.SchedulerName,
		cpuOf(pod), *pod.Spec.Priority, pod.Labels, len(pod.Spec.SchedulingGates))
}
