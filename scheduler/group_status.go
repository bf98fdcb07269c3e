package scheduler

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-logr/logr"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/scheduler/profile"
)

// groupStatusRetry is the time between the first two tries to write the status of a PodGroup. It
// doubles with each that fails, up to groupStatusMaxRetry.
const (
	groupStatusRetry    = 5 * time.Second
	groupStatusMaxRetry = 5 * time.Minute
)

// groupStatusLag is how long the informer may lack a condition that was written.
const groupStatusLag = time.Minute

// reasonScheduled is the reason of PodGroupInitiallyScheduled while it is True.
const reasonScheduled = "Scheduled"

// maxGroupMessage is the longest message of a condition that the API server accepts, in bytes.
const maxGroupMessage = 32 * 1024

// groupStatus writes the condition PodGroupInitiallyScheduled of PodGroups, outside the
// loop. Of one PodGroup only the newest condition is written.
type groupStatus struct {
	client clientset.Interface
	clock  clock.WithTickerAndDelayedExecution
	spawn  func(func())
	log    logr.Logger
	// podGroups are the PodGroups that exist.
	podGroups fwk.PodGroupLister
	// forgotten is called some time after a condition was written: the informer has it, unless another
	// one was written since.
	forgotten func(podgroups.Key)

	// inFlight has the context of the writes, which end with the leadership.
	inFlight *inFlight

	mu sync.Mutex
	// pending are the conditions to write. writing has the PodGroups that are being written, or wait
	// for another try, with the pause before that.
	pending map[types.UID]groupUpdate
	writing map[types.UID]time.Duration
	// latest are the conditions that were set last, until the informer has them.
	latest map[types.UID]metav1.Condition
}

type groupUpdate struct {
	podGroup  *schedulingv1beta1.PodGroup
	condition metav1.Condition
}

func newGroupStatus(o Options, podGroups fwk.PodGroupLister, inFlight *inFlight, forgotten func(podgroups.Key)) *groupStatus {
	return &groupStatus{
		client: o.Client, clock: o.Clock, spawn: o.Go, log: o.Log, podGroups: podGroups, inFlight: inFlight, forgotten: forgotten,
		pending: map[types.UID]groupUpdate{}, writing: map[types.UID]time.Duration{}, latest: map[types.UID]metav1.Condition{},
	}
}

// groupCondition returns the condition of a group whose attempt ended with err.
func groupCondition(err error) metav1.Condition {
	condition := metav1.Condition{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: reasonScheduled}
	if err != nil {
		condition.Status, condition.Reason = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonSchedulerError
		condition.Message = decision.TruncateBytes(err.Error(), maxGroupMessage, " ...")
		if cycle.IsUnschedulable(err) {
			condition.Reason = schedulingv1beta1.PodGroupReasonUnschedulable
		}
	}
	return condition
}

// set writes the condition soon. A group without a PodGroup of scheduling.k8s.io has no
// status. A condition that was True stays so.
func (w *groupStatus) set(group *podgroups.Group, condition metav1.Condition) {
	podGroup := group.PodGroup
	if podGroup == nil || group.Key.Source != podgroups.Native {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	existing := apimeta.FindStatusCondition(podGroup.Status.Conditions, condition.Type)
	if latest, ok := w.latest[podGroup.UID]; ok {
		existing = &latest
	}
	if existing != nil && existing.Status == metav1.ConditionTrue && condition.Status != metav1.ConditionTrue {
		return
	}
	condition.ObservedGeneration = podGroup.Generation
	condition.LastTransitionTime = metav1.NewTime(w.clock.Now())
	if existing != nil && existing.Status == condition.Status {
		condition.LastTransitionTime = existing.LastTransitionTime
	}
	if existing != nil && *existing == condition {
		return
	}
	w.latest[podGroup.UID] = condition
	w.pending[podGroup.UID] = groupUpdate{podGroup, condition}
	if _, ok := w.writing[podGroup.UID]; !ok {
		w.writing[podGroup.UID] = groupStatusRetry
		w.spawn(func() { w.write(podGroup.UID) })
	}
}

// resumeGroupStatuses resumes the conditions of the groups of all profiles that run.
func (s *Scheduler) resumeGroupStatuses() {
	for _, name := range s.profiles.Names() {
		if g, ok := s.profiles.Acquire(name); ok {
			s.resumeGroupStatus(g)
			g.Release()
		}
	}
}

// resumeGroupStatus sets the condition of PodGroups that lack it and have enough pods on nodes:
// an earlier leader may have bound them, and not have said so before it ended.
func (s *Scheduler) resumeGroupStatus(g *profile.Generation) {
	s.leadMu.Lock()
	leading := s.leading
	s.leadMu.Unlock()
	if !leading || !g.Framework.SchedulesGroups() {
		return
	}
	for _, group := range s.cache.Groups().NativeGroups(lacksScheduledCondition) {
		if hasQuorumOnNodes(group) && group.Scheduled[0].Spec.SchedulerName == g.Blueprint().Name {
			s.groupStatus.set(group, groupCondition(nil))
		}
	}
}

// resumeConditionOf does the same for one group. It is called when its PodGroup has changed or a pod
// of it got a node: informers may be behind when a leader begins, and a late write of an earlier
// leader may replace the condition.
func (s *Scheduler) resumeConditionOf(key podgroups.Key) {
	s.leadMu.Lock()
	leading := s.leading
	s.leadMu.Unlock()
	if !leading || key.Source != podgroups.Native {
		return
	}
	podGroup, bound, pod := s.cache.Groups().BoundPods(key)
	if podGroup == nil || pod == nil || bound < podgroups.MinCountOf(podGroup) || !lacksScheduledCondition(podGroup) {
		return
	}
	if g, ok := s.profiles.Acquire(pod.Spec.SchedulerName); ok {
		defer g.Release()
		if g.Framework.SchedulesGroups() {
			s.groupStatus.set(&podgroups.Group{Key: key, PodGroup: podGroup}, groupCondition(nil))
		}
	}
}

func lacksScheduledCondition(podGroup *schedulingv1beta1.PodGroup) bool {
	return !apimeta.IsStatusConditionTrue(podGroup.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
}

// hasQuorumOnNodes reports whether enough pods of a group are bound. Those that are assumed may be
// so only until their group is decided.
func hasQuorumOnNodes(group *podgroups.Group) bool {
	bound := len(group.Scheduled) - len(group.Assumed)
	return bound > 0 && bound >= group.MinCount()
}

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=podgroups/status,verbs=patch,roleName=binder-role

// write writes the pending conditions of one PodGroup, and tries again what fails until the
// PodGroup is gone: one that the role or a webhook refuses never succeeds.
func (w *groupStatus) write(uid types.UID) {
	for {
		ctx := w.inFlight.ctx
		update, ok := w.next(ctx, uid)
		if !ok {
			return
		}
		err := w.patch(ctx, update)
		switch {
		case err == nil:
			w.clock.AfterFunc(groupStatusLag, func() {
				w.forget(uid, update.condition)
				w.forgotten(podgroups.KeyOfPodGroup(update.podGroup))
			})
			continue
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err):
			w.forget(uid, update.condition)
			continue
		}
		w.log.Error(err, "Cannot write the status of a PodGroup; it is tried again", "podGroup", update.podGroup.Namespace+"/"+update.podGroup.Name)
		w.repeat(update)
		return
	}
}

// next removes and returns the pending condition of a PodGroup. Where there is none to write, it
// drops all that is held of the PodGroup but a condition that was written.
func (w *groupStatus) next(ctx context.Context, uid types.UID) (update groupUpdate, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	update, ok = w.pending[uid]
	delete(w.pending, uid)
	if ok && ctx.Err() == nil && w.exists(update.podGroup) {
		return update, true
	}
	if ok {
		delete(w.latest, uid)
	}
	delete(w.writing, uid)
	return groupUpdate{}, false
}

// exists reports whether the informer has a PodGroup, or a newer version of it.
func (w *groupStatus) exists(podGroup *schedulingv1beta1.PodGroup) bool {
	known, err := w.podGroups.Get(podGroup.Namespace, podGroup.Name)
	return err == nil && known.UID == podGroup.UID
}

// repeat has a condition that failed written again, or the newer one of its PodGroup.
func (w *groupStatus) repeat(update groupUpdate) {
	uid := update.podGroup.UID
	w.mu.Lock()
	if _, newer := w.pending[uid]; !newer {
		w.pending[uid] = update
	}
	pause := w.writing[uid]
	w.writing[uid] = min(2*pause, groupStatusMaxRetry)
	w.mu.Unlock()
	w.clock.AfterFunc(pause, func() { w.spawn(func() { w.write(uid) }) })
}

// forget drops a condition that was written, unless another one was set since.
func (w *groupStatus) forget(uid types.UID, written metav1.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest[uid] == written {
		delete(w.latest, uid)
	}
}

// patch writes one condition. The patch carries the UID, so that it fails for another
// PodGroup of the same name, with a conflict.
func (w *groupStatus) patch(ctx context.Context, update groupUpdate) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": update.podGroup.UID},
		"status":   map[string]any{"conditions": []metav1.Condition{update.condition}},
	})
	if err != nil {
		return err
	}
	_, err = w.client.SchedulingV1beta1().PodGroups(update.podGroup.Namespace).
		Patch(ctx, update.podGroup.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
