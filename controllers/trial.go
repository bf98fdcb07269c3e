package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/profile"
)

// reasonPodsLost is that of the Event about pods that would lose their place.
const reasonPodsLost = "PodsLost"

// rehearse tries a spec that waits for approval, so that whoever approves it
// knows what it does. Once will do; what failed is tried again. The history
// holds it meanwhile: a plugin that takes the process down does so here, too.
func (r *profileReconciler) tryUnapproved(ctx context.Context, v observation) error {
	if last, ok := r.options.Applier.LastTrial(v.profile.Name); ok && last.Hash == v.blueprint.Hash && !last.Failed {
		return nil
	}
	step, err := revisionSpecFor(v, history.Candidate{Blueprint: v.blueprint})
	if err != nil {
		return err
	}
	step.TrialOnly = true
	undo := r.options.History.Begin(ctx, v.history, step)
	defer undo(ctx)
	_, err = r.options.Applier.Try(ctx, v.blueprint)
	return err
}

// report is a trial as the status tells it.
type trialReport struct {
	*v1alpha1.TrialStatus
	// lost is how many pods were, and why the reason of the first.
	lostCount   int
	firstReason string
	// fresh says that this visit made it.
	isNew bool
}

// tell adds the newest trial to the visit. Without one of this process it is
// that of the process before, as far as it is about something that still matters.
func (r *profileReconciler) addTrial(v *observation, before profile.Trial) {
	if last, ok := r.options.Applier.LastTrial(v.profile.Name); ok {
		v.trial = trialReportOf(last)
		v.trial.isNew = !last.Time.Equal(before.Time)
		return
	}
	told := v.profile.Status.Trial
	if told == nil {
		return
	}
	wanted := v.blueprint != nil && v.blueprint.Hash == told.Hash
	if wanted || v.running != nil && v.running.Blueprint.Hash == told.Hash {
		v.trial = &trialReport{TrialStatus: told, lostCount: len(told.Lost)}
	}
}

func trialReportOf(t profile.Trial) *trialReport {
	r := &trialReport{lostCount: len(t.Lost), TrialStatus: &v1alpha1.TrialStatus{
		Hash: t.Hash, Sampled: int64(t.Sampled), FitAfter: int64(t.FitAfter), Time: metav1.NewTime(t.Time.Truncate(time.Second)),
	}}
	if t.Compared {
		r.FitBefore = ptr.To(int64(t.FitBefore))
	}
	for _, pod := range t.Lost[:min(len(t.Lost), v1alpha1.MaxLostPods)] {
		r.Lost = append(r.Lost, v1alpha1.PodReference{Namespace: pod.Namespace, Pod: pod.Pod})
	}
	if len(t.Lost) > 0 {
		r.firstReason = t.Lost[0].Err.Error()
	}
	return r
}

const (
	// namedInMessage is how many lost pods a message names, and whyInMessage how
	// much of the reason of the first it tells, in bytes.
	maxNamedPods    = 3
	maxReasonLength = 300
)

// sentence says how many pods fit and who is lost.
func (r *trialReport) message() string {
	if r.Sampled == 0 {
		return fmt.Sprintf("tried at %s, with no pod to try it on", r.Time.UTC().Format("15:04"))
	}
	text := fmt.Sprintf("tried at %s on %d of its pods: %d fit", r.Time.UTC().Format("15:04"), r.Sampled, r.FitAfter)
	if r.FitBefore != nil {
		text += fmt.Sprintf(", %d did before", *r.FitBefore)
	}
	if r.lostCount == 0 {
		return text
	}
	var named []string
	for i, pod := range r.Lost[:min(len(r.Lost), maxNamedPods)] {
		name := pod.Namespace + "/" + pod.Pod
		if i == 0 && r.firstReason != "" {
			name += " (" + truncate(r.firstReason, maxReasonLength) + ")"
		}
		named = append(named, name)
	}
	text += "; lost: " + strings.Join(named, ", ")
	if more := r.lostCount - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// losses says who is lost by the spec that runs; empty when nobody is.
func (v observation) lostPodsMessage() string {
	if v.trial == nil || v.trial.lostCount == 0 || v.trial.Hash != v.running.Blueprint.Hash {
		return ""
	}
	return "; it was " + v.trial.message()
}

// rehearsed says how the spec did that waits for approval.
func (v observation) trialMessage() string {
	if v.trial == nil || v.trial.Hash != v.blueprint.Hash {
		return ""
	}
	return "was " + v.trial.message() + "; it "
}

// warn tells of pods that a trial lost. A trial that failed is told by its
// condition.
func (r *profileReconciler) reportLostPods(v observation) {
	if v.trial != nil && v.trial.isNew && v.trial.lostCount > 0 && v.failure == nil {
		note := fmt.Sprintf("%s with hash %s was %s", v.specName(), v.trial.Hash, v.trial.message())
		r.status.recorder.Eventf(v.profile, nil, corev1.EventTypeWarning, reasonPodsLost, "Trial", "%s", truncate(note, maxEventNote))
	}
}

func (r *trialReport) status() *berthac.TrialStatusApplyConfiguration {
	status := berthac.TrialStatus().WithHash(r.Hash).WithSampled(r.Sampled).WithFitAfter(r.FitAfter).WithTime(r.Time)
	if r.FitBefore != nil {
		status.WithFitBefore(*r.FitBefore)
	}
	for _, pod := range r.Lost {
		status.WithLost(berthac.PodReference().WithNamespace(pod.Namespace).WithPod(pod.Pod))
	}
	return status
}
