package explain

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/decision"
)

// bound says why a pod is on its node.
func (o *options) explainBound(pod *corev1.Pod, w profileInfo) (string, error) {
	title := fmt.Sprintf("Pod %s/%s is on node %s.\n", pod.Namespace, pod.Name, pod.Spec.NodeName)
	_, annotated := pod.Annotations[decision.AnnotationKey]
	switch {
	case w.known && w.profile == nil && !annotated:
		return title + show.Wrap(otherSchedulerMessage(pod, w.names), "", "") + "\n", nil
	case !annotated:
		return title + show.Wrap(fmt.Sprintf("It does not say why: %s did not annotate it (spec.decisions.annotate), or somebody else bound it.", pod.Spec.SchedulerName), "", "") + "\n", nil
	}
	d, err := readAnnotation(pod)
	if forged := (*forgedError)(nil); errors.As(err, &forged) {
		return title + show.Wrap(forged.Error(), "", "") + "\n", nil
	}
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	attempt := "at the first attempt"
	if d.Attempts > 1 {
		attempt = fmt.Sprintf("at attempt %d", d.Attempts)
	}
	when := ""
	if c := podScheduled(pod); c != nil && !c.LastTransitionTime.IsZero() {
		when = show.Age(c.LastTransitionTime, o.Now()) + " ago, "
	}
	nodes := ""
	if d.Evaluated > 0 {
		nodes = fmt.Sprintf("%d asked, %d fit", d.Evaluated, d.Feasible)
	}
	return title + "\n" + formatFields(
		"Profile", fmt.Sprintf("%s, generation %d, hash %s%s", d.Profile, d.Generation, d.Hash, generationNote(d, w)),
		"Decided", fmt.Sprintf("%s%s; leadership %d", when, attempt, d.Epoch),
		"Nodes", nodes,
	) + "\n" + scoreText(d), nil
}

// forgedError says that an annotation speaks of another decision than that which bound
// the pod.
type forgedError struct{ message string }

func (e *forgedError) Error() string { return e.message }

// annotation reads what decided about a bound pod, from its annotation, which must be
// there. The error is a *forgedError where it is not to be believed.
func readAnnotation(pod *corev1.Pod) (decision.Decision, error) {
	d, err := decision.ParseAnnotation(pod.Annotations[decision.AnnotationKey])
	if err != nil {
		return d, fmt.Errorf("its annotation %s %w", decision.AnnotationKey, err)
	}
	if d.Profile != pod.Spec.SchedulerName || d.Node != pod.Spec.NodeName {
		return d, &forgedError{fmt.Sprintf("Its annotation %s is not to be believed: it speaks of profile %s and node %s, the pod of %s and %s. It was not Berth's bind that wrote it.",
			decision.AnnotationKey, d.Profile, d.Node, pod.Spec.SchedulerName, pod.Spec.NodeName)}
	}
	return d, nil
}

// since says whether what decided still runs.
func generationNote(d decision.Decision, w profileInfo) string {
	switch {
	case !w.known:
		return ""
	case w.profile == nil:
		return "; the profile is gone since"
	case w.profile.Status.Programmed == nil:
		return "; nothing runs now"
	case w.profile.Status.Programmed.Hash == d.Hash:
		return ", which runs still"
	}
	runs := w.profile.Status.Programmed
	return fmt.Sprintf("; generation %d, hash %s runs now", runs.Generation, runs.Hash)
}

// scores are the best nodes, with what each plugin gave.
func scoreText(d decision.Decision) string {
	switch {
	case d.Evaluated == 0:
		return show.Wrap("The annotation does not say how many nodes were feasible and which were best: spec.decisions.detail is Reasons.", "", "") + "\n"
	case len(d.Top) == 0 && d.Feasible == 1:
		return "One node fitted: there was nothing to choose.\n"
	case len(d.Top) == 0:
		return "The best nodes are not named (spec.decisions.topScores).\n"
	}
	text := show.ScoreTables(d.Top, map[string]string{d.Node: " (chosen)"})
	if len(show.ScoredPlugins(d.Top)) == 0 && d.Feasible > 1 {
		text += "What each plugin gave is not told: nothing scored, or there was no room for it in the annotation.\n\n"
	}
	if more := d.Feasible - len(d.Top); more > 0 {
		text += fmt.Sprintf("%s fitted and scored no higher.\n\n", show.Count(more, "other node"))
	}
	return strings.TrimSuffix(text, "\n")
}

// scheduled is the pod's condition PodScheduled; nil where it has none.
func podScheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
