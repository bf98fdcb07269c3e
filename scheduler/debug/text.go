package debug

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berthdev/berth/scheduler/framework"
)

// Texts are for people: a headline, and a line a thing.

// table writes lines of columns, the first of which is the header.
func writeTable(w io.Writer, header string, rows func(row func(columns ...any))) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(header, " ", "\t"))
	rows(func(columns ...any) {
		line := make([]string, len(columns))
		for i, column := range columns {
			line[i] = cmp.Or(fmt.Sprint(column), "-")
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	})
	return t.Flush()
}

func joined(all []string) string { return strings.Join(all, ",") }

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// WriteText writes q as text.
func (q QueueDump) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d pods in the queue at %s", len(q.Pods), formatTime(q.Time))
	for _, place := range slices.Sorted(maps.Keys(q.Places)) {
		fmt.Fprintf(w, ", %d %s", q.Places[place], place)
	}
	fmt.Fprintf(w, "; %d events are kept for %d of them\n", q.Events, q.Markers)
	return writeTable(w, "POD PROFILE PLACE SINCE UNTIL ATTEMPTS PRIORITY WHY", func(row func(...any)) {
		for _, p := range q.Pods {
			row(p.PodRef, p.Profile, p.Place, formatTime(p.Since), formatTime(p.Until), p.Attempts, p.Priority, p.reasons())
		}
	})
}

// why says in a few words why the pod is where it is.
func (p QueuedPod) reasons() string {
	var all []string
	for _, part := range []struct{ name, text string }{
		{"held: ", p.Held}, {"gate: ", p.Gate}, {"refused by ", joined(p.Rejectors)}, {"waits for ", joined(p.Pending)}, {"at Permit of ", joined(p.Permit)},
	} {
		if part.text != "" {
			all = append(all, part.name+part.text)
		}
	}
	return strings.Join(all, "; ")
}

// WriteText writes c as text.
func (c CacheDump) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d nodes and %d pods on them at %s, %d of them assumed; %d nominated\n",
		len(c.Nodes), c.PodsOnNodes, formatTime(c.Time), len(c.Assumed), len(c.Nominated))
	if c.Stale != "" {
		fmt.Fprintln(w, "nodes are shown as they were when the loop looked last:", c.Stale)
	}
	for _, part := range []struct {
		name string
		pods []PodOnNode
	}{{"ASSUMED", c.Assumed}, {"NOMINATED", c.Nominated}} {
		if len(part.pods) == 0 {
			continue
		}
		if err := writeTable(w, part.name+" NODE UID", func(row func(...any)) {
			for _, p := range part.pods {
				row(p.PodRef, p.Node, p.UID)
			}
		}); err != nil {
			return err
		}
	}
	return writeTable(w, "NODE PODS GENERATION REQUESTED ALLOCATABLE", func(row func(...any)) {
		for _, n := range c.Nodes {
			name := n.Name
			if n.Gone {
				name += " (gone)"
			}
			row(name, n.Pods, n.Generation, n.Requested, n.Allocatable)
		}
	})
}

// WriteText writes g as text.
func (g Generations) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d profiles at %s\n", len(g.Profiles), formatTime(g.Time))
	if err := writeTable(w, "PROFILE GENERATION HASH SINCE REFERENCES OLD WANTED LATE PAUSED", func(row func(...any)) {
		for _, p := range g.Profiles {
			row(p.Name, p.Generation, p.Hash, formatTime(p.Since), p.References, p.OldGenerations, p.PendingHash, p.AbandonedCalls, p.Paused)
		}
	}); err != nil {
		return err
	}
	for _, p := range g.Profiles {
		for _, ailment := range p.Degradations {
			fmt.Fprintf(w, "%s: %s\n", p.Name, ailment)
		}
		for _, point := range framework.Points {
			if plugins := p.Plugins[point]; len(plugins) > 0 {
				fmt.Fprintf(w, "%s: %s: %s\n", p.Name, point, strings.Join(plugins, ", "))
			}
		}
	}
	return nil
}

// WriteText writes m as text.
func (m EquivalenceCaches) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "what is remembered of verdicts at %s\n", formatTime(m.Time))
	return writeTable(w, "PROFILE HASH KEPT CLASSES BYTES LIMIT REMEMBERED PLAIN MET JUDGED DIFFERENT", func(row func(...any)) {
		for _, p := range m.Profiles {
			row(p.Profile, p.Hash, p.Enabled, p.Classes, p.Bytes, p.Limit, p.Cached, p.Uncached, p.Visited, p.Evaluated, p.Mismatches)
		}
	})
}

// WriteText writes c as text.
func (c Comparison) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "compared with %d nodes and %d pods of the API server at %s, looked %d times: %d differences; %d pods are assumed\n",
		c.Nodes, c.Pods, formatTime(c.Time), c.Rounds, len(c.Differences), len(c.Assumed))
	if c.Stale != "" {
		fmt.Fprintln(w, "nodes were not compared:", c.Stale)
	}
	if len(c.Differences) > 0 {
		if err := writeTable(w, "KIND NAME WHAT API-SERVER BERTH", func(row func(...any)) {
			for _, d := range c.Differences {
				row(d.Kind, d.Name, d.Type, d.APIServer, d.Berth)
			}
		}); err != nil {
			return err
		}
	}
	if len(c.Assumed) == 0 {
		return nil
	}
	return writeTable(w, "ASSUMED NODE UID", func(row func(...any)) {
		for _, p := range c.Assumed {
			row(p.PodRef, p.Node, p.UID)
		}
	})
}
