package explain

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
)

// explainBound returns why a pod is on its node.
func (o *options) explainBound(pod *corev1.Pod, w profileInfo) (string, error) {
	title := fmt.Sprintf("%s/%s: bound to node %s\n", pod.Namespace, pod.Name, pod.Spec.NodeName)
	_, annotated := pod.Annotations[v1alpha1.AnnotationDecision]
	switch {
	case w.known && w.profile == nil && !annotated:
		return title + show.Wrap(otherSchedulerMessage(pod, w.names), "", "") + "\n", nil
	case !annotated:
		return title + show.Wrap(notRecordedMessage(pod, w), "", "") + "\n", nil
	}
	d, err := readAnnotation(pod)
	if forged := (*forgedError)(nil); errors.As(err, &forged) {
		return title + show.Wrap(forged.Error(), "", "") + "\n", nil
	}
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	attempt := "first attempt"
	if d.Attempts > 1 {
		attempt = fmt.Sprintf("attempt %d", d.Attempts)
	}
	when := ""
	if c := podScheduled(pod); c != nil && !c.LastTransitionTime.IsZero() {
		when = show.Age(c.LastTransitionTime, o.Now()) + " ago, "
	}
	nodes := ""
	if d.Evaluated > 0 {
		nodes = fmt.Sprintf("%d evaluated, %d feasible", d.Evaluated, d.Feasible)
	}
	return title + "\n" + formatFields(
		"Profile", fmt.Sprintf("%s, generation %d, hash %s%s", d.Profile, d.Generation, d.Hash, generationNote(d, w)),
		"Decided", fmt.Sprintf("%s%s, leader epoch %d", when, attempt, d.Epoch),
		"Nodes", nodes,
		"Devices", strings.Join(d.Devices, ", "),
	) + "\n" + scoreText(d), nil
}

// notRecordedMessage says why a bound pod of a profile has no annotation.
func notRecordedMessage(pod *corev1.Pod, w profileInfo) string {
	why := fmt.Sprintf("profile %s does not annotate its pods (spec.decisions.annotate)", pod.Spec.SchedulerName)
	if w.profile != nil {
		if name := compile.BindingExtender(w.profile, pod); name != "" {
			why = fmt.Sprintf("extender %s of profile %s binds such pods (verbs.bind) without the annotation", name, w.profile.Name)
		}
	}
	return "No decision is recorded: " + why + ", or another scheduler bound the pod."
}

// forgedError means that the annotation is about another decision than the one that bound
// the pod.
type forgedError struct{ message string }

func (e *forgedError) Error() string { return e.message }

// readAnnotation returns the decision in the annotation of a bound pod, which must have one.
// The error is a *forgedError if the annotation does not match the pod.
func readAnnotation(pod *corev1.Pod) (decision.Decision, error) {
	d, err := decision.ParseAnnotation(pod.Annotations[v1alpha1.AnnotationDecision])
	if err != nil {
		return d, fmt.Errorf("annotation %s %w", v1alpha1.AnnotationDecision, err)
	}
	if d.Profile != pod.Spec.SchedulerName || d.Node != pod.Spec.NodeName {
		return d, &forgedError{fmt.Sprintf("The annotation %s is ignored: it is about profile %s and node %s, the pod has profile %s and node %s. Berth did not write it when it bound the pod.",
			v1alpha1.AnnotationDecision, d.Profile, d.Node, pod.Spec.SchedulerName, pod.Spec.NodeName)}
	}
	return d, nil
}

// generationNote says whether the generation that made the decision is still running.
func generationNote(d decision.Decision, w profileInfo) string {
	switch {
	case !w.known:
		return ""
	case w.profile == nil:
		return " (the profile was deleted)"
	case w.profile.Status.Programmed == nil:
		return " (not running)"
	case w.profile.Status.Programmed.Hash == d.Hash:
		return " (running)"
	}
	running := w.profile.Status.Programmed
	return fmt.Sprintf(" (now running: generation %d, hash %s)", running.Generation, running.Hash)
}

// scoreText returns the best nodes with the scores of each plugin.
func scoreText(d decision.Decision) string {
	switch {
	case d.Evaluated == 0:
		return show.Wrap("The annotation has no number of nodes and no scores: spec.decisions.detail is Reasons.", "", "") + "\n"
	case len(d.Top) == 0 && d.Feasible == 1:
		return "Only one node was feasible: no node was scored.\n"
	case len(d.Top) == 0:
		return "The annotation has no scores (spec.decisions.topScores).\n"
	}
	text := show.ScoreTables(d.Top, map[string]string{d.Node: " (chosen)"})
	if len(show.ScoredPlugins(d.Top)) == 0 && d.Feasible > 1 {
		text += "The annotation has no scores by plugin: no plugin scored, or they did not fit into it.\n\n"
	}
	if more := d.Feasible - len(d.Top); more > 0 {
		text += fmt.Sprintf("%s scored no higher.\n\n", show.Count(more, "other feasible node"))
	}
	return strings.TrimSuffix(text, "\n")
}

// podScheduled returns the pod's condition PodScheduled; nil if it has none.
func podScheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
