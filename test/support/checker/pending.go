package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/history"
)

// checkFinalState returns the violations of the final state, which may still go away while the
// cluster settles.
func checkFinalState(in Input) []Violation {
	in.Options = in.Options.withDefaults()
	return newResults(in.Options).finalState(newTimeline(in))
}

// finalState checks the final state: pods that wait, the status of profiles, and explanations.
func (r *results) finalState(t *timeline) []Violation {
	f := &results{options: r.options, Report: Report{Checked: r.Checked, Undecided: r.Undecided, Skipped: r.Skipped}}
	pending := map[string][]*corev1.Pod{} // by profile
	for _, pod := range existing[*corev1.Pod](t, "Pod") {
		if t.ours(pod) && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			pending[pod.Spec.SchedulerName] = append(pending[pod.Spec.SchedulerName], pod)
			f.checkReason(t, pod)
		}
	}
	for _, p := range existing[*v1alpha1.SchedulingProfile](t, "SchedulingProfile") {
		f.checkObserved(p)
		f.checkStatus(t, p, len(pending[p.Name]))
		if p.Status.Programmed != nil && p.Spec.State != v1alpha1.StatePaused {
			f.checkNoneCouldRun(t, p, pending[p.Name])
		}
	}
	for _, c := range existing[*v1alpha1.PluginConfig](t, "PluginConfig") {
		f.checked(I13)
		if c.Status.ObservedGeneration != c.Generation {
			f.fail(I13, 0, keyOf(c).String(), "its status is about generation %d, its spec is %d", c.Status.ObservedGeneration, c.Generation)
		}
	}
	for _, d := range existing[*v1alpha1.SchedulingDecision](t, "SchedulingDecision") {
		f.checkExplanation(t, d)
	}
	r.Facts = append(r.Facts, f.Facts...)
	return f.Violations
}

// checkReason checks that a pod says why it waits, and that the reason is true.
func (r *results) checkReason(t *timeline, pod *corev1.Pod) {
	r.checked(I3)
	name, c := keyOf(pod).String(), scheduledCondition(pod)
	if c == nil || c.Status != corev1.ConditionFalse {
		r.fail(I3, 0, name, "it waits and has no condition PodScheduled=False")
		return
	}
	profile := t.profileAt(pod.Spec.SchedulerName)
	wrong := ""
	switch c.Reason {
	case corev1.PodReasonUnschedulable, "Quarantined", "Unsupported", "NamespaceNotAllowed":
	case corev1.PodReasonSchedulingGated:
		if len(pod.Spec.SchedulingGates) == 0 && !strings.Contains(c.Message, "keeps the pod from being tried") {
			wrong = "it has no scheduling gates"
		}
	case "ProfileDeleted":
		if profile != nil {
			wrong = "the profile exists"
		}
	case "ProfilePaused":
		if profile == nil || profile.Spec.State != v1alpha1.StatePaused {
			wrong = "the profile is not paused"
		}
	case "ProfileNotRunning":
		if profile == nil || profile.Status.Programmed != nil {
			wrong = "the profile runs, or does not exist"
		}
	default:
		wrong = "such a pod is tried again"
	}
	if wrong == "" && c.Reason != "ProfileDeleted" && profile == nil {
		wrong = "its profile does not exist"
	}
	if wrong != "" {
		r.fail(I3, 0, name, "it waits with the reason %s (%s): %s", c.Reason, c.Message, wrong)
	}
}

// checkExplanation checks a SchedulingDecision that exists at the end.
func (r *results) checkExplanation(t *timeline, d *v1alpha1.SchedulingDecision) {
	r.checked(Status)
	name := keyOf(d).String()
	pod := last[*corev1.Pod](t, key{"Pod", d.Namespace, d.Name})
	if pod == nil {
		r.fail(Status, 0, name, "its pod does not exist")
		return
	}
	owned := slices.ContainsFunc(d.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID })
	bound := d.Status.Result == v1alpha1.ResultBound
	switch {
	case !owned:
		r.fail(Status, 0, name, "it belongs to an earlier pod of this name")
	case bound != (pod.Spec.NodeName != ""):
		r.fail(Status, 0, name, "it says %s, and the pod is on node %q", d.Status.Result, pod.Spec.NodeName)
	case d.Status.Profile.Name != pod.Spec.SchedulerName:
		r.fail(Status, 0, name, "it names profile %s, and the pod %s", d.Status.Profile.Name, pod.Spec.SchedulerName)
	case d.Status.Nodes != nil && (d.Status.Nodes.Feasible > d.Status.Nodes.Evaluated || d.Status.Nodes.Evaluated > d.Status.Nodes.Total):
		r.fail(Status, 0, name, "its numbers of nodes contradict each other: %+v", *d.Status.Nodes)
	}
	if hash := d.Status.Profile.Hash; hash != "" && t.profileAt(d.Status.Profile.Name) != nil && !t.everRan(d.Status.Profile.Name, hash) {
		r.fail(Status, 0, name, "it is a decision of hash %s, which never ran", hash)
	}
}

// everRan reports whether a status of a profile ever named a hash as running, or a revision of it
// was stored, and not for a trial only.
func (t *timeline) everRan(profile, hash string) bool {
	ran := slices.ContainsFunc(t.versions[key{"SchedulingProfile", "", profile}], func(v *history.Change) bool { return programmedAt(v) == hash })
	return ran || t.specOf(profile, hash) != nil
}

// checkObserved checks that all conditions of a profile are about its newest spec.
func (r *results) checkObserved(p *v1alpha1.SchedulingProfile) {
	r.checked(I13)
	name := keyOf(p).String()
	if p.Status.ObservedGeneration != p.Generation {
		r.fail(I13, 0, name, "its status is about generation %d, its spec is %d", p.Status.ObservedGeneration, p.Generation)
	}
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		i := slices.IndexFunc(p.Status.Conditions, func(c metav1.Condition) bool { return c.Type == string(kind) })
		if i < 0 {
			r.fail(I13, 0, name, "it has no condition %s", kind)
		} else if at := p.Status.Conditions[i].ObservedGeneration; at != p.Generation {
			r.fail(I13, 0, name, "its condition %s is about generation %d, its spec is %d", kind, at, p.Generation)
		}
	}
}

// checkStatus checks that the status of a profile is true.
func (r *results) checkStatus(t *timeline, p *v1alpha1.SchedulingProfile, pending int) {
	r.checked(Status)
	name, s := keyOf(p).String(), p.Status
	queued := int64(0)
	if s.Queue != nil {
		queued = s.Queue.Pending
	}
	if queued != int64(pending) {
		r.fail(Status, 0, name, "its status counts %d pending pods, there are %d", queued, pending)
	}
	if s.Programmed != nil {
		k := key{"ControllerRevision", t.Options.Namespace, s.Programmed.Revision}
		if s.Programmed.Revision != "" && (t.at(k, t.History.Last) == nil || s.Programmed.Revision != p.Name+"-"+s.Programmed.Hash) {
			r.fail(Status, 0, name, "it says that revision %s runs, which does not exist or has not the hash %s", s.Programmed.Revision, s.Programmed.Hash)
		}
	}
	r.checkTotals(t, p)
	for _, d := range s.RecentDecisions {
		if t.isEarlier(p, d) {
			continue
		}
		if why := t.contradicts(p.Name, d); why != "" {
			r.fail(Status, 0, name, "its recent decision about %s/%s is not true: %s", d.Namespace, d.Pod, why)
		}
	}
}

// lateCounts is how much later than spec.decisions.publishSeconds a profile may count on a busy
// machine.
const lateCounts = 10 * time.Second

// checkTotals checks that a profile does not count more binds than there were, and not fewer but
// for those that a leader made shortly before it ended.
func (r *results) checkTotals(t *timeline, p *v1alpha1.SchedulingProfile) {
	// The binds before a list are not known.
	bound, late, gaps := int64(0), int64(0), len(t.History.Gaps) > 0 || t.versions[keyOf(p)][0].Listed
	ends := t.leaderEnds()
	for uid, k := range t.pods {
		first := t.firstOnNode(k, uid)
		if first == nil {
			continue
		}
		pod := first.Object.(*corev1.Pod)
		if pod.Spec.SchedulerName != p.Name {
			continue
		}
		gaps = gaps || first.Listed
		d, _, err := readDecision(pod)
		if err == nil && d.Profile == p.Name {
			bound++
			if end := ends[d.Epoch]; !end.IsZero() && end.Sub(first.Seen) < publishEvery(p)+lateCounts {
				late++
			}
		}
	}
	counted := int64(0)
	if p.Status.Totals != nil {
		counted = p.Status.Totals.Bound
	}
	annotated := p.Spec.Decisions.Annotate != v1alpha1.Disabled
	switch name := keyOf(p).String(); {
	case gaps || !annotated || t.recreated(p):
	case counted > bound:
		r.fail(Status, 0, name, "it counts %d pods bound, there were %d", counted, bound)
	case counted < bound-late:
		r.fail(Status, 0, name, "it counts %d pods bound, there were %d, of which %d were bound shortly before their leader ended", counted, bound, late)
	default:
		r.Facts = append(r.Facts, fmt.Sprintf("profile %s counts %d of %d binds", p.Name, counted, bound))
	}
}

// leaderEnds returns when each leader that has a successor renewed the Lease for the last time, by
// epoch.
func (t *timeline) leaderEnds() map[int64]time.Time {
	last, epoch, ends := map[int64]time.Time{}, int64(-1), map[int64]time.Time{}
	for _, v := range t.versions[key{"Lease", t.Options.Namespace, t.Options.Lease}] {
		lease := v.Object.(*coordinationv1.Lease)
		if lease.Spec.LeaseTransitions == nil {
			continue
		}
		now := int64(*lease.Spec.LeaseTransitions)
		if now != epoch && epoch >= 0 {
			ends[epoch] = last[epoch]
		}
		last[now], epoch = v.Seen, now
	}
	return ends
}

// publishEvery is how often the status of a profile counts.
func publishEvery(p *v1alpha1.SchedulingProfile) time.Duration {
	if p.Spec.Decisions.PublishSeconds == nil {
		return time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	}
	return time.Duration(*p.Spec.Decisions.PublishSeconds) * time.Second
}

// recreated reports whether an earlier profile had the name.
func (t *timeline) recreated(p *v1alpha1.SchedulingProfile) bool {
	return slices.ContainsFunc(t.versions[keyOf(p)], func(v *history.Change) bool { return v.Object.GetUID() != p.UID })
}

// isEarlier reports whether a profile that existed when the history began made a decision before
// that: its pod may have been deleted then.
func (t *timeline) isEarlier(p *v1alpha1.SchedulingProfile, d v1alpha1.RecentDecision) bool {
	first := t.versions[keyOf(p)][0]
	return first.Listed && d.Time.Time.Before(first.Seen)
}

// contradicts returns why a recent decision of a profile cannot have been made.
func (t *timeline) contradicts(profile string, d v1alpha1.RecentDecision) string {
	versions := t.versions[key{"Pod", d.Namespace, d.Pod}]
	if len(versions) == 0 {
		return "there was no such pod"
	}
	if d.Result == v1alpha1.ResultBound && !slices.ContainsFunc(versions, func(v *history.Change) bool {
		return v.Object.(*corev1.Pod).Spec.NodeName == d.Node
	}) {
		return fmt.Sprintf("the pod never was on %s", d.Node)
	}
	if d.Hash != "" && !t.everRan(profile, d.Hash) {
		return fmt.Sprintf("hash %s never ran", d.Hash)
	}
	return ""
}
