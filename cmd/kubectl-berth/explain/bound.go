package explain

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/decision"
)

// bound says why a pod is on its node.
func (o *options) bound(pod *corev1.Pod, w owner) (string, error) {
	title := fmt.Sprintf("Pod %s/%s is on node %s.\n", pod.Namespace, pod.Name, pod.Spec.NodeName)
	text, annotated := pod.Annotations[decision.AnnotationKey]
	switch {
	case w.known && w.profile == nil && !annotated:
		return title + show.Wrap(foreign(pod, w.names), "", "") + "\n", nil
	case !annotated:
		return title + show.Wrap(fmt.Sprintf("It does not say why: %s did not annotate it (spec.decisions.annotate), or somebody else bound it.", pod.Spec.SchedulerName), "", "") + "\n", nil
	}
	d, err := decision.Read(text)
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: its annotation %s %w", pod.Namespace, pod.Name, decision.AnnotationKey, err)
	}
	if d.Profile != pod.Spec.SchedulerName || d.Node != pod.Spec.NodeName {
		return title + show.Wrap(fmt.Sprintf("Its annotation %s is not to be believed: it speaks of profile %s and node %s, the pod of %s and %s. It was not Berth's bind that wrote it.",
			decision.AnnotationKey, d.Profile, d.Node, pod.Spec.SchedulerName, pod.Spec.NodeName), "", "") + "\n", nil
	}
	attempt := "at the first attempt"
	if d.Attempts > 1 {
		attempt = fmt.Sprintf("at attempt %d", d.Attempts)
	}
	when := ""
	if c := scheduled(pod); c != nil && !c.LastTransitionTime.IsZero() {
		when = show.Age(c.LastTransitionTime, o.Now()) + " ago, "
	}
	return title + "\n" + facts(
		"Profile", fmt.Sprintf("%s, generation %d, hash %s%s", d.Profile, d.Generation, d.Hash, since(d, w)),
		"Decided", fmt.Sprintf("%s%s; leadership %d", when, attempt, d.Epoch),
		"Nodes", fmt.Sprintf("%d asked, %d fit", d.Evaluated, d.Feasible),
	) + "\n" + scores(d), nil
}

// since says whether what decided still runs.
func since(d decision.Decision, w owner) string {
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

// scores are the best nodes, a column each, with what each plugin gave. Where
// they are too many for a line, they go on below.
func scores(d decision.Decision) string {
	switch {
	case len(d.Top) == 0 && d.Feasible == 1:
		return "One node fitted: there was nothing to choose.\n"
	case len(d.Top) == 0:
		return "The best nodes are not named (spec.decisions.topScores).\n"
	}
	plugins := map[string]bool{}
	for _, node := range d.Top {
		for name := range node.Plugins {
			plugins[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(plugins))
	text := ""
	for rest := d.Top; len(rest) > 0; {
		n := fitting(names, rest)
		text += matrix(names, rest[:n], d.Node) + "\n"
		rest = rest[n:]
	}
	if len(names) == 0 && d.Feasible > 1 {
		text += "What each plugin gave is not told: nothing scored, or there was no room for it in the annotation.\n\n"
	}
	if more := d.Feasible - len(d.Top); more > 0 {
		text += fmt.Sprintf("%s fitted and scored no higher.\n\n", show.Count(more, "other node"))
	}
	return strings.TrimSuffix(text, "\n")
}

const chosen = " (chosen)"

// fitting is how many of the nodes have room in one line, at least one.
func fitting(plugins []string, nodes []decision.NodeScore) int {
	const padding = 3
	left := show.Width - len("total") - padding
	for _, name := range plugins {
		left = min(left, show.Width-len(name)-padding)
	}
	n := 0
	for ; n < len(nodes); n++ {
		left -= utf8.RuneCountInString(nodes[n].Node) + len(chosen) + padding
		if left < 0 && n > 0 {
			break
		}
	}
	return n
}

func matrix(plugins []string, nodes []decision.NodeScore, winner string) string {
	var out bytes.Buffer
	w := printers.GetNewTabWriter(&out)
	row := func(title string, cell func(decision.NodeScore) string) {
		fmt.Fprint(w, title)
		for _, node := range nodes {
			fmt.Fprint(w, "\t", cell(node))
		}
		fmt.Fprintln(w)
	}
	row("PLUGIN", func(n decision.NodeScore) string {
		if n.Node == winner {
			return n.Node + chosen
		}
		return n.Node
	})
	for _, name := range plugins {
		row(name, func(n decision.NodeScore) string {
			share, told := n.Plugins[name]
			if !told && n.Plugins == nil {
				return "?"
			}
			return fmt.Sprint(share)
		})
	}
	row("total", func(n decision.NodeScore) string { return fmt.Sprint(n.Score) })
	_ = w.Flush() // into memory
	return out.String()
}

// scheduled is the pod's condition PodScheduled; nil where it has none.
func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
