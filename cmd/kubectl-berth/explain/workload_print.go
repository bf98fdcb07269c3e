package explain

import (
	"fmt"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// maxNodes and maxPods are how many names are printed.
const maxNodes, maxPods = 20, 3

// printWorkload prints where the pods are, and why others are pending.
func (o *options) printWorkload(w *Workload) error {
	title := fmt.Sprintf("%s %s/%s: %s", w.Kind, w.Namespace, w.Name, show.Count(w.Pods, "pod"))
	if w.Desired != nil {
		title += fmt.Sprintf(" of %d desired", *w.Desired)
	}
	if w.Pods > 0 {
		title += fmt.Sprintf(", %d bound, %d pending", w.Bound, w.Pods-w.Bound)
	}
	fmt.Fprintln(o.Out, show.Wrap(title, "", "  "))
	for _, message := range w.NotCreated {
		fmt.Fprintln(o.Out, show.Wrap("Pods could not be created: "+message, "", "  "))
	}
	if err := o.printNodes(w.Nodes); err != nil {
		return err
	}
	for i := range w.Pending {
		g := &w.Pending[i]
		fmt.Fprintf(o.Out, "\n%s\n%s", show.Wrap(o.groupTitle(w, g), "", "  "), o.pendingText(g.firstPod, g.info, g.First))
	}
	return nil
}

func (o *options) printNodes(nodes []NodePods) error {
	if len(nodes) == 0 {
		return nil
	}
	fmt.Fprintln(o.Out)
	var rows [][]any
	for _, n := range nodes[:min(len(nodes), maxNodes)] {
		rows = append(rows, []any{n.Node, n.Pods})
	}
	if err := show.NewTable(o.Out, false, show.Columns("Node", "Pods")).Print(rows...); err != nil {
		return err
	}
	if left := len(nodes) - len(rows); left > 0 {
		fmt.Fprintf(o.Out, "… and %s (-o yaml lists all)\n", show.Count(left, "more node"))
	}
	return nil
}

// groupTitle returns the title of a group.
func (o *options) groupTitle(w *Workload, g *Group) string {
	names := ""
	for i, name := range g.Pods[:min(len(g.Pods), maxPods)] {
		if i > 0 {
			names += ", "
		}
		names += name
	}
	if left := len(g.Pods) - maxPods; left > 0 {
		names += fmt.Sprintf(" and %d more", left)
	}
	age := show.Age(g.firstPod.CreationTimestamp, o.Now())
	if g.Group != "" {
		return fmt.Sprintf("%s of the group %s pending, the oldest for %s: %s; details of the oldest:", show.Count(len(g.Pods), "pod"), g.Group, age, names)
	}
	if len(g.Pods) == 1 {
		return fmt.Sprintf("1 pod pending for %s: %s", age, names)
	}
	return fmt.Sprintf("%d pods pending for the same reason, the oldest for %s: %s; details of the oldest:", len(g.Pods), age, names)
}
