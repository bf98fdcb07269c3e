package try

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// maxNamed is the most nodes or pods that a sentence names.
const maxNamed = 10

func (o *options) print(a *Result) error {
	switch o.output {
	case "json":
		return o.marshal(a, func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "    ") })
	case "yaml":
		return o.marshal(a, yaml.Marshal)
	}
	o.printLine("%s: %s", a.Subject, a.Title)
	if a.Group != nil && a.Group.MinCount > 0 {
		o.printLine("Group %s: at least %s scheduled together", a.Group.Name, show.Count(a.Group.MinCount, "pod"))
	}
	var err error
	if len(a.Pods) == 1 {
		err = o.printOne(a)
	} else {
		err = o.printMany(a)
	}
	o.printNotes(a.Notes)
	return err
}

func (o *options) marshal(a *Result, marshal func(any) ([]byte, error)) error {
	text, err := marshal(a)
	if err == nil {
		_, err = fmt.Fprintln(o.Out, strings.TrimSpace(string(text)))
	}
	return err
}

// printLine prints a sentence. An error of the stream is reported by the next table.
func (o *options) printLine(format string, args ...any) {
	fmt.Fprintln(o.Out, show.Wrap(fmt.Sprintf(format, args...), "", "  "))
}

// printOne prints the node of one pod, and its scores.
func (o *options) printOne(a *Result) error {
	pod := a.Pods[0]
	if pod.Node == "" {
		return o.printPending([]Pod{pod})
	}
	if len(pod.OneOf) == 0 {
		o.printLine("%s: would be scheduled to node %s (%s)", pod.Pod, pod.Node, feasibleText(pod, a.Nodes))
	} else {
		o.printLine("%s: would be scheduled to one of %s (%s), which have the same score; the choice depends on where the scheduler starts to iterate over the nodes",
			pod.Pod, joinNames(pod.OneOf, "nodes"), feasibleText(pod, a.Nodes))
	}
	if len(pod.Devices) > 0 {
		o.printLine("Devices on node %s: %s", pod.Node, strings.Join(pod.Devices, ", "))
	}
	if len(pod.Top) == 0 {
		return nil
	}
	marks := map[string]string{pod.Node: " (best)"}
	for _, node := range pod.OneOf {
		marks[node] = " (best)"
	}
	_, err := fmt.Fprint(o.Out, "\n", strings.TrimSuffix(show.ScoreTables(pod.Top, marks), "\n"))
	return err
}

// feasibleText says how many nodes are feasible.
func feasibleText(pod Pod, nodes int) string {
	switch {
	case pod.Evaluated == 1 && nodes > 1:
		return fmt.Sprintf("the only node of %d that was evaluated", nodes)
	case pod.Evaluated < nodes:
		return fmt.Sprintf("%d of %d evaluated nodes feasible, %d nodes in total", pod.Feasible, pod.Evaluated, nodes)
	case pod.Feasible == 1 && nodes == 1:
		return "the only node"
	case pod.Feasible == 1:
		return fmt.Sprintf("the only feasible node of %d", nodes)
	}
	return fmt.Sprintf("%d of %d nodes feasible", pod.Feasible, nodes)
}

// printMany prints a summary for several pods.
func (o *options) printMany(a *Result) error {
	o.printLine("%d of %s would be scheduled", a.placedPods(), show.Count(len(a.Pods), "pod"))
	if o.output == "wide" {
		return o.printEach(a)
	}
	if rows := a.byNode(); len(rows) > 0 {
		fmt.Fprintln(o.Out)
		if err := show.NewTable(o.Out, false, show.Columns("Node", "Pods")).Print(rows...); err != nil {
			return err
		}
	}
	if ties := a.ties(); ties > 0 {
		o.printLine("\nFor %d of them, several nodes had the best score: the scheduler may choose another one.", ties)
	}
	for _, group := range a.pendingGroups() {
		fmt.Fprintln(o.Out)
		if err := o.printPending(group); err != nil {
			return err
		}
	}
	return nil
}

// printEach prints a row for each pod.
func (o *options) printEach(a *Result) error {
	fmt.Fprintln(o.Out)
	var rows [][]any
	for _, pod := range a.Pods {
		score := any(show.None)
		if len(pod.Top) > 0 {
			score = pod.Top[0].Score
		}
		why := pod.Message
		if len(pod.OneOf) > 0 {
			why = "one of " + joinNames(pod.OneOf, "nodes")
		}
		if len(pod.Devices) > 0 {
			why = strings.TrimPrefix(why+"; ", "; ") + "devices " + strings.Join(pod.Devices, ", ")
		}
		rows = append(rows, []any{pod.Pod, show.OrNone(pod.Node), pod.Feasible, score, show.OrNone(why)})
	}
	return show.NewTable(o.Out, true, show.Columns("Pod", "Node", "Feasible", "Score", "Message")).Print(rows...)
}

// printPending prints why pods with the same message would stay pending.
func (o *options) printPending(pods []Pod) error {
	first := pods[0]
	if len(pods) == 1 {
		o.printLine("%s: would stay Pending: %s", first.Pod, first.Message)
	} else {
		o.printLine("%d pods would stay Pending, starting with %s: %s", len(pods), first.Pod, first.Message)
	}
	for _, pod := range pods {
		if preemption := pod.Preemption; preemption != nil {
			text := pod.Pod + ": preemption on node " + preemption.Node
			if preemption.Node == "" {
				text = "Preemption for the group"
			}
			text += fmt.Sprintf(" would evict %s: %s", show.Count(len(preemption.Victims), "pod"), joinNames(preemption.Victims, "pods"))
			if preemption.Violations > 0 {
				text += fmt.Sprintf(" (%s)", show.Count(preemption.Violations, "PodDisruptionBudget violation"))
			}
			o.printLine("%s", text)
		}
	}
	if len(first.Rejections) == 0 || first.Rejections[0].Nodes == 0 {
		return nil
	}
	fmt.Fprintln(o.Out)
	if err := show.Rejections(o.Out, first.Rejections, o.output == "wide"); err != nil {
		return err
	}
	_, err := fmt.Fprint(o.Out, show.DeviceRequests(first.DeviceRequests))
	return err
}

// joinNames joins the first names, and says how many more there are.
func joinNames(names []string, what string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more %s", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed, what)
}
