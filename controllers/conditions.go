package controllers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// conditionUpdate is a condition without its lastTransitionTime.
type conditionUpdate struct {
	conditionType v1alpha1.ConditionType
	status        metav1.ConditionStatus
	reason        v1alpha1.ConditionReason
	message       string
	// fieldErrors are the errors of the spec that make the condition False; empty where
	// it has another cause.
	fieldErrors []compile.FieldError
	// degradations are what makes the condition Degraded True.
	degradations profile.Degradations
	// derived says that another condition reports the reason: this condition makes no
	// Event while its status is the bad one.
	derived bool
}

// asDerived returns r with derived set.
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

// withTransitionTimes turns updates about a generation into conditions, whose messages it
// bounds. A condition whose status is the same as in before keeps its lastTransitionTime.
func withTransitionTimes(updates []conditionUpdate, generation int64, before []metav1.Condition, now time.Time) []metav1.Condition {
	after := make([]metav1.Condition, len(updates))
	for i, r := range updates {
		after[i] = metav1.Condition{
			Type: string(r.conditionType), Status: r.status, Reason: string(r.reason), Message: truncate(r.message, maxMessage),
			ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		if old := meta.FindStatusCondition(before, after[i].Type); old != nil && old.Status == r.status {
			after[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return after
}

// eventType returns Warning for a condition whose status is the bad one, and Normal
// otherwise. A pause is Normal, since the user asked for it.
func eventType(c metav1.Condition) string {
	bad := metav1.ConditionFalse
	if c.Type == string(v1alpha1.ConditionStalled) || c.Type == string(v1alpha1.ConditionDegraded) {
		bad = metav1.ConditionTrue
	}
	if c.Status == bad && c.Reason != string(v1alpha1.ReasonPaused) {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// conditionsToApply returns conditions in the form of server-side apply.
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
