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
	_, err := c.world.call(ctx, "delete", what, func() (*v1.Pod, error) { return nil, c.world.server.evict(key, uid) })
	return err
}

// evict is what the deletion of a pod does. One that is on a node stays until
// its containers have ended.
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

// evictions are the books of who was evicted, and for whom.
type evictions struct {
	// leaving are pods whose containers end, by key.
	leaving []*v1.Pod
	// ours are all pods of ours that ever were.
	ours map[types.UID]*v1.Pod
	// goners are the victims that were told to go for good; victims counts those
	// of each preemptor.
	goners  map[types.UID]bool
	victims map[types.UID]int
}

// checkEvict holds each deletion that the server commits to what must be true
// of it.
func (w *world) checkEvict(victim *v1.Pod) {
	w.count("a victim is deleted")
	condition := v1.PodCondition{}
	for _, c := range victim.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			condition = c
		}
	}
	if condition.Status != v1.ConditionTrue || condition.Reason != v1.PodReasonPreemptionByScheduler {
		w.fail("%s was deleted before its status said why: %+v", describe(victim), condition)
	}
	if !slices.ContainsFunc(w.leaving, func(p *v1.Pod) bool { return p.UID == victim.UID }) {
		w.leaving = append(w.leaving, victim)
	}
}

// checkPreempted holds the news of an eviction to what must be true of it: for
// the sake of a pod of ours that is more important, and told once.
func (w *world) checkPreempted(victim *v1.Pod, note string) {
	var uid, node string
	if _, err := fmt.Sscanf(note, "Preempted by pod %s on node %s", &uid, &node); err != nil {
		w.fail("%s: the note %q: %v", describe(victim), note, err)
		return
	}
	switch preemptor := w.ours[types.UID(uid)]; {
	case preemptor == nil:
		w.fail("%s was preempted by %s, which is none of ours", describe(victim), uid)
	case corev1.PodPriority(preemptor) <= corev1.PodPriority(victim):
		w.fail("%s was preempted by %s, which matters no more", describe(victim), describe(preemptor))
	case preemptor.Spec.PreemptionPolicy != nil:
		w.fail("%s was preempted by %s, which never preempts", describe(victim), describe(preemptor))
	}
	w.victims[types.UID(uid)]++
	w.say("%s is preempted by %s", describe(victim), uid)
	if strings.Contains(note, "memory") {
		w.count("a victim is stopped in memory")
		return
	}
	if w.goners[victim.UID] {
		w.fail("%s was preempted twice", describe(victim))
	}
	w.goners[victim.UID] = true
}

// reap lets the containers of an evicted pod end; its owner may create another
// pod in its place.
func (w *world) reap(i int) {
	victim := w.leaving[i]
	w.leaving = slices.Delete(w.leaving, i, i+1)
	if now, err := w.server.get(keyOf(victim)); err == nil && now.UID == victim.UID {
		w.say("outside: victim %s is gone", describe(now))
		w.server.dropPod(keyOf(now))
	}
	if _, ours := w.ours[victim.UID]; !w.swarm.comeBack || !ours {
		return
	}
	again := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Labels: maps.Clone(victim.Labels)}, Spec: *victim.Spec.DeepCopy()}
	again.Name, again.UID, again.Spec.NodeName = "again-"+itoa(w.server.version), types.UID("u"+itoa(w.server.version)), ""
	if w.healed {
		delete(again.Labels, permitLabel) // as heal does
	}
	w.create(again)
	w.count("a victim comes again")
}

// create lets the outside create a pod of ours.
func (w *world) create(pod *v1.Pod) {
	w.ours[pod.UID] = pod
	w.server.putPod(pod)
	w.say("outside: pod %s of %s, %s cpu, priority %d, labels %v, gates %d", describe(pod), pod.Spec.SchedulerName,
		cpuOf(pod), *pod.Spec.Priority, pod.Labels, len(pod.Spec.SchedulingGates))
}
