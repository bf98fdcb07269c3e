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
	if err := r.options.Applier.CheckPlace(v.profile.Name); err != nil {
		return err
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

// addTrial adds the newest trial to the observation: that of this process, else that of
// the status, as long as it is about the spec or about what runs.
func (r *profileReconciler) addTrial(v *observation, before profile.Trial) {
	if last, ok := r.options.Applier.LastTrial(v.profile.Name); ok {
		v.trial, v.trialIsNew = &last, !last.Time.Equal(before.Time)
		return
	}
	stored := v.profile.Status.Trial
	if stored == nil {
		return
	}
	wanted := v.blueprint != nil && v.blueprint.Hash == stored.Hash
	if wanted || v.running != nil && v.running.Blueprint.Hash == stored.Hash {
		v.trial = &profile.Trial{
			Hash: stored.Hash, Time: stored.Time.Time, Sampled: int(stored.Sampled), FitAfter: int(stored.FitAfter),
			Compared: stored.FitBefore != nil, FitBefore: int(ptr.Deref(stored.FitBefore, 0)),
		}
		for _, pod := range stored.Lost {
			v.trial.Lost = append(v.trial.Lost, profile.PodResult{Namespace: pod.Namespace, Pod: pod.Pod})
		}
	}
}

const (
	// maxNamedPods is how many lost pods, and how many failed ones, a message names, and
	// maxReasonLength how much of the first reason it holds, in bytes.
	maxNamedPods    = 3
	maxReasonLength = 300
)

// trialResult says how many pods fit in a trial, which are lost, and for which plugins
// failed.
func trialResult(t *profile.Trial) string {
	if t.Sampled == 0 {
		return fmt.Sprintf("tried at %s, with no pod to try it on", t.Time.UTC().Format("15:04"))
	}
	text := fmt.Sprintf("tried at %s on %d of its pods: %d fit", t.Time.UTC().Format("15:04"), t.Sampled, t.FitAfter)
	if t.Compared {
		text += fmt.Sprintf(", %d did before", t.FitBefore)
	}
	return text + podList("; lost: ", t.Lost) + podList("; plugins failed for: ", t.Failures)
}

// podList names the first of some pods after a title, and says why for the first one;
// empty where there are none.
func podList(title string, pods []profile.PodResult) string {
	if len(pods) == 0 {
		return ""
	}
	var names []string
	for i, pod := range pods[:min(len(pods), maxNamedPods)] {
		name := pod.Namespace + "/" + pod.Pod
		if i == 0 && pod.Err != nil {
			name += " (" + truncate(pod.Err.Error(), maxReasonLength) + ")"
		}
		names = append(names, name)
	}
	text := title + strings.Join(names, ", ")
	if more := len(pods) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// trialProblemsMessage says which pods the running spec lost in its trial, and for which
// its plugins failed; empty where there are none.
func (v observation) trialProblemsMessage() string {
	if v.trial == nil || len(v.trial.Lost)+len(v.trial.Failures) == 0 || v.trial.Hash != v.running.Blueprint.Hash {
		return ""
	}
	return "; it was " + trialResult(v.trial)
}

// trialMessage says how the trial of the spec that waits for approval went.
func (v observation) trialMessage() string {
	if v.trial == nil || v.trial.Hash != v.blueprint.Hash {
		return ""
	}
	return "was " + trialResult(v.trial) + "; it "
}

// reportLostPods makes an Event about pods that a new trial lost. The condition
// Programmed reports a failed trial.
func (r *profileReconciler) reportLostPods(v observation) {
	if v.trial != nil && v.trialIsNew && len(v.trial.Lost) > 0 && v.failure == nil {
		note := fmt.Sprintf("%s with hash %s was %s", v.specName(), v.trial.Hash, trialResult(v.trial))
		r.status.recorder.Eventf(v.profile, nil, corev1.EventTypeWarning, reasonPodsLost, "Trial", "%s", truncate(note, maxEventNote))
	}
}

func trialStatus(t *profile.Trial) *berthac.TrialStatusApplyConfiguration {
	status := berthac.TrialStatus().WithHash(t.Hash).WithSampled(int64(t.Sampled)).WithFitAfter(int64(t.FitAfter)).
		WithTime(metav1.NewTime(t.Time.Truncate(time.Second)))
	if t.Compared {
		status.WithFitBefore(int64(t.FitBefore))
	}
	for _, pod := range t.Lost[:min(len(t.Lost), v1alpha1.MaxLostPods)] {
		status.WithLost(berthac.PodReference().WithNamespace(pod.Namespace).WithPod(pod.Pod))
	}
	return status
}
