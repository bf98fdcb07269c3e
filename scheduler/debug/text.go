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

// writeTable writes a header and rows in aligned columns. header names the columns,
// separated by spaces; an empty cell becomes "-".
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

func joined(names []string) string { return strings.Join(names, ",") }

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// WriteText writes q as a table of pods.
func (q QueueDump) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d pods in the queue at %s", len(q.Pods), formatTime(q.Time))
	for _, place := range slices.Sorted(maps.Keys(q.Places)) {
		fmt.Fprintf(w, ", %d %s", q.Places[place], place)
	}
	fmt.Fprintf(w, "; %d events recorded for %d pods in flight\n", q.Events, q.Markers)
	return writeTable(w, "POD PROFILE PLACE SINCE UNTIL ATTEMPTS PRIORITY REASON", func(row func(...any)) {
		for _, p := range q.Pods {
			row(p.PodRef, p.Profile, p.Place, formatTime(p.Since), formatTime(p.Until), p.Attempts, p.Priority, p.reasons())
		}
	})
}

// reasons summarises why the pod is in its place.
func (p QueuedPod) reasons() string {
	var texts []string
	for _, part := range []struct{ name, text string }{
		{"held: ", p.Held}, {"gate: ", p.Gate}, {"refused by ", joined(p.Rejectors)}, {"pending: ", joined(p.Pending)}, {"waiting on Permit: ", joined(p.Permit)},
	} {
		if part.text != "" {
			texts = append(texts, part.name+part.text)
		}
	}
	return strings.Join(texts, "; ")
}

// WriteText writes c as tables of assumed pods, nominated pods and nodes.
func (c CacheDump) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d nodes and %d pods on them at %s, %d of them assumed; %d nominated\n",
		len(c.Nodes), c.PodsOnNodes, formatTime(c.Time), len(c.Assumed), len(c.Nominated))
	if c.Stale != "" {
		fmt.Fprintln(w, "nodes are shown as of the last scheduling cycle:", c.Stale)
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
			if n.Deleted {
				name += " (deleted)"
			}
			row(name, n.Pods, n.Generation, n.Requested, n.Allocatable)
		}
	})
}

// WriteText writes g as a table of profiles, followed by degradations and plugins.
func (g Generations) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d profiles at %s\n", len(g.Profiles), formatTime(g.Time))
	if err := writeTable(w, "PROFILE GENERATION HASH SINCE REFERENCES OLD PENDING ABANDONED PAUSED", func(row func(...any)) {
		for _, p := range g.Profiles {
			row(p.Name, p.Generation, p.Hash, formatTime(p.Since), p.References, p.OldGenerations, p.PendingHash, p.AbandonedCalls, p.Paused)
		}
	}); err != nil {
		return err
	}
	for _, p := range g.Profiles {
		for _, degradation := range p.Degradations {
			fmt.Fprintf(w, "%s: %s\n", p.Name, degradation)
		}
		for _, point := range framework.AllPoints {
			if plugins := p.Plugins[point]; len(plugins) > 0 {
				fmt.Fprintf(w, "%s: %s: %s\n", p.Name, point, strings.Join(plugins, ", "))
			}
		}
	}
	return nil
}

// WriteText writes m as a table of profiles.
func (m EquivalenceCaches) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "equivalence caches at %s\n", formatTime(m.Time))
	return writeTable(w, "PROFILE HASH ENABLED CLASSES BYTES LIMIT CACHED UNCACHED VISITED EVALUATED MISMATCHES", func(row func(...any)) {
		for _, p := range m.Profiles {
			row(p.Profile, p.Hash, p.Enabled, p.Classes, p.Bytes, p.Limit, p.Cached, p.Uncached, p.Visited, p.Evaluated, p.Mismatches)
		}
	})
}

// WriteText writes c as tables of differences and of assumed pods.
func (c Comparison) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "compared with %d nodes and %d pods of the API server at %s in %d rounds: %d differences; %d assumed pods\n",
		c.Nodes, c.Pods, formatTime(c.Time), c.Rounds, len(c.Differences), len(c.Assumed))
	if c.Stale != "" {
		fmt.Fprintln(w, "nodes were not compared:", c.Stale)
	}
	if len(c.Differences) > 0 {
		if err := writeTable(w, "KIND NAME TYPE API-SERVER BERTH", func(row func(...any)) {
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
