package controllers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berthdev/berth/api/v1alpha1"
)

// reasonPluginAiling is that of the Event about plugins of what runs that
// panic or hang, or cannot hear what they want to hear of.
const reasonPluginDegraded = "PluginAiling"

// alarm tells of what ails what runs, when the profile's condition does not say
// so yet. A number that moves is no news.
func (r *profileReconciler) reportDegraded(v observation) {
	if v.running == nil {
		return
	}
	said := ""
	if before := meta.FindStatusCondition(v.profile.Status.Conditions, string(v1alpha1.ConditionReady)); before != nil {
		said = before.Message
	}
	news := slices.DeleteFunc(slices.Clone(v.running.Degradations), func(a string) bool {
		return strings.Contains(withoutDigits(said), withoutDigits(a))
	})
	if len(news) > 0 {
		r.status.recorder.Eventf(v.profile, nil, corev1.EventTypeWarning, reasonPluginDegraded, "Run", "%s",
			truncate(v.specName()+": "+strings.Join(news, "; "), maxEventNote))
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
