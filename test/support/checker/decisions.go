package checker

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/history"
)

// checkDecision checks the annotation of a pod at its bind, and returns it; known is false where
// the pod has none, which is right where its profile wants none.
func (r *replay) checkDecision(change *history.Change, pod *corev1.Pod) (d decision, known bool) {
	name := keyOf(pod).String()
	r.checked(I4)
	d, known, err := readDecision(pod)
	switch {
	case err != nil:
		r.fail(I4, change.Revision, name, "its annotation is not a decision: %v", err)
		return d, false
	case !known && r.wantsAnnotation(change, pod):
		r.fail(I4, change.Revision, name, "it was bound without an annotation")
		return d, false
	case !known:
		return d, false
	}
	switch {
	case d.Node != pod.Spec.NodeName:
		r.fail(I4, change.Revision, name, "it was bound to %s by a decision for %s", pod.Spec.NodeName, d.Node)
	case d.Profile != pod.Spec.SchedulerName:
		r.fail(I4, change.Revision, name, "its schedulerName is %s, and its decision is of profile %s", pod.Spec.SchedulerName, d.Profile)
	case d.Attempts < 1:
		r.fail(I4, change.Revision, name, "it was bound by attempt %d", d.Attempts)
	case max(d.Walk.Nodes, d.Walk.Pods) >= change.Revision:
		r.fail(I4, change.Revision, name, "its decision names versions of nodes and pods that came later: %d and %d", d.Walk.Nodes, d.Walk.Pods)
	case d.Feasible > d.Evaluated:
		r.fail(I4, change.Revision, name, "its decision counts %d feasible nodes of %d evaluated ones", d.Feasible, d.Evaluated)
	case len(d.Top) > 0 && d.Top[0].Node != d.Node:
		r.fail(I4, change.Revision, name, "its decision has %s as the best node, and chose %s", d.Top[0].Node, d.Node)
	}
	if spec := r.specOf(d.Profile, d.Hash); spec != nil && spec.Spec.Decisions.Detail != v1alpha1.DetailNodes && len(d.Top)+d.Evaluated > 0 {
		r.fail(I16, change.Revision, name, "its annotation has other nodes, and spec.decisions.detail is not Nodes")
	}
	if why := r.didNotRun(change, d); why != "" {
		r.fail(I4, change.Revision, name, "it was bound by generation %d, hash %s: %s", d.Generation, d.Hash, why)
	}
	return d, true
}

// wantsAnnotation reports whether the profile of a pod wants annotations, as its spec says.
func (r *replay) wantsAnnotation(change *history.Change, pod *corev1.Pod) bool {
	for _, version := range r.between(key{"SchedulingProfile", "", pod.Spec.SchedulerName}, r.revisionBefore(change, lookBack), change.Revision) {
		if version.Object.(*v1alpha1.SchedulingProfile).Spec.Decisions.Annotate == v1alpha1.Disabled {
			return false
		}
	}
	return true
}

// didNotRun returns why a generation of a profile cannot have made a decision; "" if it can. The
// status says later than the swap what runs: a decision may be of what the status named when it
// was made, or of what the status named next. Where a leader was killed in between, no status
// names it, and its revision must have been stored.
func (r *replay) didNotRun(change *history.Change, d decision) string {
	k := key{"SchedulingProfile", "", d.Profile}
	versions := r.versions[k]
	made := max(d.Walk.Nodes, d.Walk.Pods) // the decision is not older
	if made == 0 {
		made = r.revisionBefore(change, lookBack)
	}
	if !slices.ContainsFunc(versions, func(v *history.Change) bool { return v.Object.GetGeneration() == d.Generation }) {
		return "the profile never had that generation"
	}
	for _, v := range versions {
		p := v.Object.(*v1alpha1.SchedulingProfile)
		c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionAccepted))
		ran := p.Status.Programmed != nil && p.Status.Programmed.Generation == d.Generation && p.Status.Programmed.Hash == d.Hash
		if c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == d.Generation && !ran && v.Revision <= change.Revision && !r.everProgrammed(k, d) {
			return "that generation was refused: " + c.Message
		}
	}
	first := programmedAt(r.at(k, made))
	if first == d.Hash {
		return ""
	}
	for _, v := range versions {
		if v.Revision <= made || programmedAt(v) == first {
			continue
		}
		if programmedAt(v) == d.Hash {
			return ""
		}
		break
	}
	if r.revisionExisted(d, made, change.Revision) && !r.everProgrammedBefore(k, d, made) {
		return "" // a leader that was killed before it wrote the status
	}
	return fmt.Sprintf("%q ran when it was made, at revision %d or later", first, made)
}

// programmedAt is the hash that a version of a profile names as running; "" for none.
func programmedAt(version *history.Change) string {
	if version == nil || version.Object.(*v1alpha1.SchedulingProfile).Status.Programmed == nil {
		return ""
	}
	return version.Object.(*v1alpha1.SchedulingProfile).Status.Programmed.Hash
}

// everProgrammed reports whether some status names the hash of a decision as running.
func (r *replay) everProgrammed(k key, d decision) bool {
	return slices.ContainsFunc(r.versions[k], func(v *history.Change) bool { return programmedAt(v) == d.Hash })
}

// everProgrammedBefore reports whether a status up to a revision names the hash of a decision.
func (r *replay) everProgrammedBefore(k key, d decision, revision int64) bool {
	return slices.ContainsFunc(r.versions[k], func(v *history.Change) bool { return v.Revision <= revision && programmedAt(v) == d.Hash })
}

// revisionExisted reports whether the ControllerRevision of a decision was there at some time
// between two revisions, and not for a trial only.
func (r *replay) revisionExisted(d decision, from, to int64) bool {
	k := key{"ControllerRevision", r.Options.Namespace, d.Profile + "-" + d.Hash}
	return slices.ContainsFunc(r.between(k, from, to), func(v *history.Change) bool {
		return v.Object.(*appsv1.ControllerRevision).Annotations[v1alpha1.AnnotationOnTrial] == ""
	})
}

// pluginsOf returns the plugins that decided; nil where they are not known.
func (r *replay) pluginsOf(d decision) pluginSet {
	for _, v := range slices.Backward(r.versions[key{"SchedulingProfile", "", d.Profile}]) {
		p := v.Object.(*v1alpha1.SchedulingProfile).Status.Programmed
		if p != nil && p.Hash == d.Hash {
			return newPluginSet(p.Plugins)
		}
	}
	return nil
}

// newPluginSet returns the plugins that a status names; nil where it names none.
func newPluginSet(named []v1alpha1.ProgrammedPlugin) pluginSet {
	if len(named) == 0 {
		return nil
	}
	enabled := pluginSet{}
	for _, p := range named {
		enabled[p.Name] = true
	}
	return enabled
}
