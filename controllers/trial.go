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

// reasonPodsLost is the reason of the Event about pods for which a trial found no node.
const reasonPodsLost = "PodsLost"

// tryUnapproved runs a trial of a spec that waits for approval, so that its effect is
// known before the approval. A trial that succeeded is not repeated. The history
// records the revision meanwhile, since a plugin may crash the process during a trial
// too.
func (r *profileReconciler) tryUnapproved(ctx context.Context, v observation) error {
	if last, ok := r.options.Applier.LastTrial(v.profile.Name); ok && last.Hash == v.blueprint.Hash && !last.Failed {
		return nil
	}
	revision, err := revisionSpecFor(v, history.Candidate{Blueprint: v.blueprint})
	if err != nil {
		return err
	}
	revision.TrialOnly = true
	undo := r.options.History.Begin(ctx, v.history, revision)
	defer undo(ctx)
	_, err = r.options.Applier.Try(ctx, v.blueprint)
	return err
}

// trialReport is a trial as the status reports it.
type trialReport struct {
	*v1alpha1.TrialStatus
	// lostCount is how many pods were lost, and firstReason the reason of the first.
	lostCount   int
	firstReason string
	// isNew says that this reconcile made the trial.
	isNew bool
}

// addTrial adds the newest trial to the observation: that of this process, else that of
// the status, as long as it is about the spec or about what runs.
func (r *profileReconciler) addTrial(v *observation, before profile.Trial) {
	if last, ok := r.options.Applier.LastTrial(v.profile.Name); ok {
		v.trial = trialReportOf(last)
		v.trial.isNew = !last.Time.Equal(before.Time)
		return
	}
	stored := v.profile.Status.Trial
	if stored == nil {
		return
	}
	wanted := v.blueprint != nil && v.blueprint.Hash == stored.Hash
	if wanted || v.running != nil && v.running.Blueprint.Hash == stored.Hash {
		v.trial = &trialReport{TrialStatus: stored, lostCount: len(stored.Lost)}
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
	// maxNamedPods is how many lost pods a message names, and maxReasonLength how much
	// of the first reason it holds, in bytes.
	maxNamedPods    = 3
	maxReasonLength = 300
)

// message says how many pods fit and which are lost.
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
	var names []string
	for i, pod := range r.Lost[:min(len(r.Lost), maxNamedPods)] {
		name := pod.Namespace + "/" + pod.Pod
		if i == 0 && r.firstReason != "" {
			name += " (" + truncate(r.firstReason, maxReasonLength) + ")"
		}
		names = append(names, name)
	}
	text += "; lost: " + strings.Join(names, ", ")
	if more := r.lostCount - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// lostPodsMessage says which pods the running spec lost in its trial; empty when it
// lost none.
func (v observation) lostPodsMessage() string {
	if v.trial == nil || v.trial.lostCount == 0 || v.trial.Hash != v.running.Blueprint.Hash {
		return ""
	}
	return "; it was " + v.trial.message()
}

// trialMessage says how the trial of the spec that waits for approval went.
func (v observation) trialMessage() string {
	if v.trial == nil || v.trial.Hash != v.blueprint.Hash {
		return ""
	}
	return "was " + v.trial.message() + "; it "
}

// reportLostPods makes an Event about pods that a new trial lost. The condition
// Programmed reports a failed trial.
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
