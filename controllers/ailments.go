package controllers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berthdev/berth/api/v1alpha1"
)

// reasonPluginDegraded is the reason of the Event about running plugins that panic or
// hang, or miss events that they registered.
const reasonPluginDegraded = "PluginAiling"

// reportDegraded makes an Event of each degradation of the running profile that the
// message of Ready does not hold yet. A degradation that differs in numbers alone is
// not new.
func (r *profileReconciler) reportDegraded(v observation) {
	if v.running == nil {
		return
	}
	reported := ""
	if before := meta.FindStatusCondition(v.profile.Status.Conditions, string(v1alpha1.ConditionReady)); before != nil {
		reported = before.Message
	}
	added := slices.DeleteFunc(slices.Clone(v.running.Degradations), func(a string) bool {
		return strings.Contains(withoutDigits(reported), withoutDigits(a))
	})
	if len(added) > 0 {
		r.status.recorder.Eventf(v.profile, nil, corev1.EventTypeWarning, reasonPluginDegraded, "Run", "%s",
			truncate(v.specName()+": "+strings.Join(added, "; "), maxEventNote))
	}
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}
