package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// tables prints all that was measured.
func (r *report) tables(out io.Writer) {
	if len(r.Algorithm) > 0 {
		r.algorithmTable(out)
	}
	for _, g := range r.Groups {
		g.table(out)
	}
}

// algorithmTable has a row for each shape: medians, and the ratio of each
// round where the decisions were equal.
func (r *report) algorithmTable(out io.Writer) {
	fmt.Fprintf(out, "\nThe algorithm alone, from a decoded pod to assumed; medians of %d\n", len(r.Algorithm[0].Runs[berth]))
	table(out, func(row func(cells ...any)) {
		row("shape", "nodes", "pods there", "pods", "µs/pod", kube, "allocs/pod", kube, "KB/pod", kube, "s in all", "peak MiB", "speed-up", "at least")
		for _, c := range r.Algorithm {
			ours, theirs := c.median(berth), c.median(kube)
			verdict := "REFUSED: the decisions differ"
			switch {
			case c.Solo:
				verdict = "not compared"
			case c.Equal:
				verdict = c.Ratio.times()
			}
			row(c.Shape, c.Nodes, c.Existing, c.Pods, digits(ours.Micros), digits(theirs.Micros), digits(ours.Allocs), digits(theirs.Allocs),
				digits(ours.Bytes/1000), digits(theirs.Bytes/1000), digits(ours.Seconds), digits(ours.Peak), verdict, c.reached())
		}
	})
	for _, c := range r.Algorithm {
		fmt.Fprintf(out, "  %s: %s; %d zones; decisions %s\n", c.Shape, c.Says, c.Zones, c.hashes())
	}
	if growth := r.growth(); growth > 0 {
		fmt.Fprintf(out, "  %s takes %.2f times as long for a pod on 20,000 nodes as on 5,000 (at most 2.5)\n", berth, growth)
	}
}

// growth is how many times as long a pod takes on the nodes of large as on
// those of basic; 0 where not both were measured.
func (r *report) growth() float64 {
	var basic, large float64
	for _, c := range r.Algorithm {
		switch c.Shape {
		case "basic":
			basic = c.median(berth).Micros
		case "large":
			large = c.median(berth).Micros
		}
	}
	if basic == 0 {
		return 0
	}
	return large / basic
}

func (c *contest) hashes() string {
	switch {
	case c.Solo:
		return fmt.Sprintf("sha256 %.12s", c.Runs[berth][0].Hash)
	case c.Equal:
		return fmt.Sprintf("equal, sha256 %.12s", c.Runs[berth][0].Hash)
	}
	return fmt.Sprintf("differ, sha256 %.12s and %.12s", c.Runs[berth][0].Hash, c.Runs[kube][0].Hash)
}

// loadSays is how a load reads in a title.
var loadSays = map[string]string{
	"drain":       "all there before the scheduler starts",
	"burst":       "created at once while it runs",
	"crowd":       "created at once while it runs, beside pods that fit nowhere and were tried",
	"turns":       "created at once while it runs, in turns with another profile elsewhere",
	"turns+crowd": "created at once while it runs, beside pods that fit nowhere and were tried, in turns with another profile elsewhere",
	"open":        "created at a fixed rate",
}

// table prints the sides of a group, one a row, and what they were.
func (g *group) table(out io.Writer) {
	if len(g.Runs) == 0 {
		return
	}
	rate := ""
	if g.Rate > 0 {
		rate = fmt.Sprintf(" of %v a second", g.Rate)
	}
	fmt.Fprintf(out, "\nWhole processes, %s, %s: %d pods on %d nodes in %d zones with %d pods, %s%s; medians (least–most)\n",
		g.Shape, g.Load, g.Pods, g.Nodes, g.Zones, g.Existing, loadSays[g.Load], rate)
	var names []string
	for _, s := range sides {
		if len(g.side(s.name)) > 0 {
			names = append(names, s.name)
		}
	}
	table(out, func(row func(cells ...any)) {
		if g.Load == "open" {
			g.openRows(row, names)
		} else {
			g.rateRows(row, names)
		}
	})
	for _, name := range names {
		fmt.Fprintf(out, "  %s: %s\n", name, g.Sides[name])
	}
	g.Comparison.print(out)
	for _, s := range g.Standings {
		s.print(out)
	}
}

func (g *group) rateRows(row func(...any), names []string) {
	row("", "pods/s", "binds/s", "start-up s", "CPU ms/pod", "API server", "etcd", "harness", "peak MiB", "events/pod", "runs")
	for _, n := range names {
		cpu := func(process string) string { return g.of(n, func(r run) float64 { return r.CPU[process] }).short() }
		rate := g.of(n, podsPerSecond).long()
		if g.of(n, podsPerSecond).Min == 0 {
			rate = "too short"
		}
		row(n, rate, g.of(n, bindsPerSecond).short(), g.of(n, func(r run) float64 { return r.StartUp }).short(),
			g.of(n, ownCPU).long(), cpu("kube-apiserver"), cpu("etcd"), cpu(harness),
			g.of(n, func(r run) float64 { return r.Peak[scheduler] }).short(),
			g.of(n, func(r run) float64 { return r.EventsPerPod }).short(), len(g.side(n)))
	}
}

func (g *group) openRows(row func(...any), names []string) {
	row("", "p50 ms", "p90 ms", "p99 ms", "max ms", "load late p99 ms", "CPU ms/pod", "API server", "etcd", "peak MiB", "events/pod", "runs")
	for _, n := range names {
		cpu := func(process string) string { return g.of(n, func(r run) float64 { return r.CPU[process] }).short() }
		row(n, g.of(n, func(r run) float64 { return r.Latency.P50 }).long(), g.of(n, func(r run) float64 { return r.Latency.P90 }).short(),
			g.of(n, func(r run) float64 { return r.Latency.P99 }).long(), g.of(n, func(r run) float64 { return r.Latency.Max }).short(),
			g.of(n, func(r run) float64 { return r.Late.P99 }).short(), g.of(n, ownCPU).long(), cpu("kube-apiserver"), cpu("etcd"),
			g.of(n, func(r run) float64 { return r.Peak[scheduler] }).short(),
			g.of(n, func(r run) float64 { return r.EventsPerPod }).short(), len(g.side(n)))
	}
}

// ratioNames is the order in which ratios are printed.
var ratioNames = []string{"pods/s", "binds/s", "latency p50", "latency p99", "own CPU", "CPU with API server and etcd"}

func (c *comparison) print(out io.Writer) {
	if c == nil {
		return
	}
	if !c.Equal {
		fmt.Fprintf(out, "  %s beside %s: no ratio, since --layers=algorithm did not show here that both decide the same\n", berth, kube)
		return
	}
	fmt.Fprintf(out, "  %s beside %s, which decides the same on this load's log, times better:", berth, kube)
	for _, name := range ratioNames {
		if ratio, ok := c.Ratios[name]; ok {
			fmt.Fprintf(out, " %s %s;", name, ratio.times())
		}
	}
	fmt.Fprintln(out)
}

// table aligns the cells of the rows.
func table(out io.Writer, fill func(row func(cells ...any))) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fill(func(cells ...any) {
		text := make([]string, len(cells))
		for i, c := range cells {
			text[i] = fmt.Sprint(c)
		}
		fmt.Fprintf(w, "  %s\n", strings.Join(text, "\t"))
	})
	_ = w.Flush() // as good as the writer that it is given
}

func (s sample) short() string { return digits(s.Median) }

func (s sample) long() string {
	if s.N < 2 {
		return digits(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", digits(s.Median), digits(s.Min), digits(s.Max))
}

// digits prints a number with as many as it deserves.
func digits(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
