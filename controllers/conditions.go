package controllers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// ruling is one condition before it is known when it last changed.
type conditionUpdate struct {
	conditionType v1alpha1.ConditionType
	status        metav1.ConditionStatus
	reason        v1alpha1.ConditionReason
	message       string
	// faults are what the condition is False for, where it is for a spec's.
	faults []compile.FieldError
	// repeats says that other conditions report the reason: this one makes no
	// Event while it is not as it should be.
	derived bool
}

// repeating returns r as one that only repeats what others report.
func (r conditionUpdate) asDerived() conditionUpdate {
	r.derived = true
	return r
}

func (r conditionUpdate) isTrue() bool { return r.status == metav1.ConditionTrue }

func trueCondition(condition v1alpha1.ConditionType, reason v1alpha1.ConditionReason, message string) conditionUpdate {
	return conditionUpdate{conditionType: condition, status: metav1.ConditionTrue, reason: reason, message: message}
}

func falseCondition(condition v1alpha1.ConditionType, reason v1alpha1.ConditionReason, message string) conditionUpdate {
	return conditionUpdate{conditionType: condition, status: metav1.ConditionFalse, reason: reason, message: message}
}

// date turns rulings about generation into conditions: one whose status is as
// it was before keeps its lastTransitionTime.
func withTransitionTimes(rulings []conditionUpdate, generation int64, before []metav1.Condition, now time.Time) []metav1.Condition {
	after := make([]metav1.Condition, len(rulings))
	for i, r := range rulings {
		after[i] = metav1.Condition{
			Type: string(r.conditionType), Status: r.status, Reason: string(r.reason), Message: r.message,
			ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		if old := meta.FindStatusCondition(before, after[i].Type); old != nil && old.Status == r.status {
			after[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return after
}

// eventType warns of what the user did not ask for: a pause is asked for.
func eventType(c metav1.Condition) string {
	bad := metav1.ConditionFalse
	if c.Type == string(v1alpha1.ConditionStalled) {
		bad = metav1.ConditionTrue
	}
	if c.Status == bad && c.Reason != string(v1alpha1.ReasonPaused) {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// conditionsToApply are conditions in the form that server-side apply takes.
func conditionsToApply(conditions []metav1.Condition) []*metav1ac.ConditionApplyConfiguration {
	out := make([]*metav1ac.ConditionApplyConfiguration, len(conditions))
	for i, c := range conditions {
		out[i] = metav1ac.Condition().
			WithType(c.Type).
			WithStatus(c.Status).
			WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime).
			WithReason(c.Reason).
			WithMessage(c.Message)
	}
	return out
}
