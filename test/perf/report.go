package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

// report is all that was measured, as in the JSON file.
type report struct {
	Machine string `json:"machine"`
	Command string `json:"command"`
	// Plugins are those of Berth's default profile.
	Plugins   []string           `json:"plugins"`
	Algorithm []*algorithmResult `json:"algorithm,omitempty"`
	// Steps are basic with several numbers of nodes.
	Steps   []*algorithmResult `json:"steps,omitempty"`
	Groups  []*group           `json:"process,omitempty"`
	Skipped []skipped          `json:"skipped,omitempty"`
}

// skipped is what was not measured.
type skipped struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// compareBursts compares each burst beside unfit pods, or while nodes change, with the same one
// without.
func (r *report) compareBursts() {
	for _, g := range r.Groups {
		for _, alone := range r.Groups {
			if alone.Load != "burst" || alone.Shape != g.Shape {
				continue
			}
			switch g.Load {
			case "burst+unfit":
				g.checkStreamRate(alone)
			case burstWithChanges:
				g.checkRateWithChanges(alone)
			}
		}
	}
}

// sameDecisions says whether the algorithms made the same decisions on the log of a shape.
func (r *report) sameDecisions(shape string) bool {
	for _, c := range r.Algorithm {
		if c.Shape == shape {
			return c.Equal
		}
	}
	return false
}

// group has the runs of all sides under one load.
type group struct {
	Shape       string  `json:"shape"`
	Description string  `json:"description"`
	Load        string  `json:"load"`
	Nodes       int     `json:"nodes"`
	Zones       int     `json:"zones"`
	Existing    int     `json:"existing"`
	Pods        int     `json:"pods"`
	Rate        float64 `json:"podsPerSecond,omitempty"`
	// Sides describes each side by its name.
	Sides      map[string]string `json:"sides"`
	Runs       []run             `json:"runs"`
	Failed     []string          `json:"failed,omitempty"`
	Comparison *comparison       `json:"comparison,omitempty"`
	// Unfit is the number of pods that fit no node and exist as well.
	Unfit int `json:"unfit,omitempty"`
	// Slopes are what a node or a pod more costs, with start.
	Slopes []string `json:"slopes,omitempty"`
	// Criteria are the criteria for Berth.
	Criteria []criterionResult `json:"criteria,omitempty"`
}

// comparison compares Berth with kube-scheduler, in pairs of one round.
type comparison struct {
	// Equal says that the algorithm layer made the same decisions on the log of this load:
	// without, there are no ratios. Whole processes cannot show it: the order in which
	// informers deliver existing objects is random.
	Equal bool `json:"equal"`
	// Ratios are kube-scheduler's time or cost over Berth's, or Berth's rate over
	// kube-scheduler's: above 1, Berth is better.
	Ratios map[string]sample `json:"ratios,omitempty"`
}

// side returns the runs of one side, in the order of the rounds.
func (g *group) side(name string) []run {
	var runs []run
	for _, r := range g.Runs {
		if r.Side == name {
			runs = append(runs, r)
		}
	}
	return runs
}

// of summarizes one measure of one side.
func (g *group) of(name string, measure func(run) float64) sample {
	var values []float64
	for _, r := range g.side(name) {
		values = append(values, measure(r))
	}
	return summarize(values)
}

// The measures that are compared.
var (
	podsPerSecond  = func(r run) float64 { return r.PodsPerSecond }
	toLastEvent    = func(r run) float64 { return r.PodsPerSecond * r.Took / r.ToLastEvent }
	bindsPerSecond = func(r run) float64 { return r.BindsPerSecond }
	ownCPU         = func(r run) float64 { return r.CPU[scheduler] }
	startUpCPU     = func(r run) float64 { return r.StartUpCPU }
	serverCPU      = func(r run) float64 { return r.CPU["kube-apiserver"] + r.CPU["etcd"] }
	allCPU         = func(r run) float64 { return r.CPU[scheduler] + serverCPU(r) }
)

// pairs returns the runs of two sides in the rounds that both completed.
func (g *group) pairs(a, b string) (as, bs []run) {
	for _, x := range g.side(a) {
		for _, y := range g.side(b) {
			if x.Round == y.Round {
				as, bs = append(as, x), append(bs, y)
			}
		}
	}
	return as, bs
}

// compare pairs Berth's runs with kube-scheduler's. equal says that the algorithms made the
// same decisions on this load.
func (g *group) compare(alike bool) {
	ours, theirs := g.pairs(berth, kube)
	if len(ours) == 0 {
		return
	}
	c := &comparison{Equal: alike, Ratios: map[string]sample{}}
	g.Comparison = c
	if !alike {
		return
	}
	pair := func(name string, ratio func(a, b run) float64) {
		var values []float64
		for i := range ours {
			// A run that is as short as the start-up has no rate.
			if v := ratio(ours[i], theirs[i]); v > 0 && !math.IsInf(v, 0) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			c.Ratios[name] = summarize(values)
		}
	}
	// Under a fixed rate both have the same rate.
	if g.Load != "open" {
		pair("pods/s", func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) })
		pair("binds/s", func(a, b run) float64 { return bindsPerSecond(a) / bindsPerSecond(b) })
	} else {
		pair("latency p50", func(a, b run) float64 { return b.Latency.P50 / a.Latency.P50 })
		pair("latency p99", func(a, b run) float64 { return b.Latency.P99 / a.Latency.P99 })
	}
	pair("own CPU", func(a, b run) float64 { return ownCPU(b) / ownCPU(a) })
	pair("CPU with API server and etcd", func(a, b run) float64 { return allCPU(b) / allCPU(a) })
}

// tables prints all measurements.
func (r *report) tables(out io.Writer) {
	if len(r.Algorithm) > 0 {
		r.algorithmTable(out)
	}
	for _, g := range r.Groups {
		g.table(out)
	}
}

// algorithmTable has a row for each shape: medians, and the ratios where the decisions were
// equal.
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
				digits(ours.Bytes/1000), digits(theirs.Bytes/1000), digits(ours.Seconds), digits(ours.Peak), verdict, c.goalText())
		}
	})
	for _, c := range r.Algorithm {
		fmt.Fprintf(out, "  %s: %s; %d zones; decisions %s\n", c.Shape, c.Description, c.Zones, c.hashes())
	}
	if growth := r.growth(); growth > 0 {
		fmt.Fprintf(out, "  %s takes %.2f times as long for a pod on 20,000 nodes as on 5,000 (at most 2.5)\n", berth, growth)
	}
}

// growth is the ratio of the time for a pod on the nodes of large to that on those of basic; 0
// where not both were measured.
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

func (c *algorithmResult) hashes() string {
	switch {
	case c.Solo:
		return fmt.Sprintf("sha256 %.12s", c.Runs[berth][0].Hash)
	case c.Equal:
		return fmt.Sprintf("equal, sha256 %.12s", c.Runs[berth][0].Hash)
	}
	return fmt.Sprintf("differ, sha256 %.12s and %.12s", c.Runs[berth][0].Hash, c.Runs[kube][0].Hash)
}

// loadDescriptions are used in titles.
var loadDescriptions = map[string]string{
	"drain":             "created before the scheduler starts",
	"burst":             "created at once while it runs",
	"burst+unfit":       "created at once while it runs, beside pods that fit no node and were attempted",
	"alternating":       "created at once while it runs, alternating with the others on other control planes",
	"alternating+unfit": "created at once while it runs, beside pods that fit no node and were attempted, alternating with the others on other control planes",
	"alternating+drain": "created before the scheduler starts, alternating with the others on other control planes",
	"open":              "created at a fixed rate",
	burstWithChanges:    "created at once while it runs, while 1 % of the nodes change in a second",
	start:               "pending when it starts",
}

// table prints the sides of a group, one a row, and their descriptions.
func (g *group) table(out io.Writer) {
	if len(g.Runs) == 0 {
		return
	}
	rate := ""
	if g.Rate > 0 {
		rate = fmt.Sprintf(" of %v a second", g.Rate)
	}
	fmt.Fprintf(out, "\nWhole processes, %s, %s: %d pods on %d nodes in %d zones with %d pods, %s%s; medians (least–most)\n",
		g.Shape, g.Load, g.Pods, g.Nodes, g.Zones, g.Existing, loadDescriptions[g.Load], rate)
	var names []string
	for _, s := range sides {
		if len(g.side(s.name)) > 0 {
			names = append(names, s.name)
		}
	}
	table(out, func(row func(cells ...any)) {
		switch g.Load {
		case "open":
			g.openRows(row, names)
		case start:
			g.startRows(row, names)
		default:
			g.rateRows(row, names)
		}
	})
	for _, name := range names {
		fmt.Fprintf(out, "  %s: %s\n", name, g.Sides[name])
	}
	g.Comparison.print(out)
	for _, slope := range g.Slopes {
		fmt.Fprintf(out, "  %s\n", slope)
	}
	for _, s := range g.Criteria {
		s.print(out)
	}
	if parts := meanParts(g.side(berth)); len(parts) > 0 {
		partTable(out, parts)
	}
}

func (g *group) rateRows(row func(...any), names []string) {
	row("", "pods/s", "binds/s", "start-up s", "start-up CPU ms", "CPU ms/pod", "API server", "etcd", "harness", "peak MiB", "writes/pod", "KB read", "KB written", "runs")
	for _, n := range names {
		cpu := func(process string) string { return g.of(n, func(r run) float64 { return r.CPU[process] }).short() }
		rate := g.of(n, podsPerSecond).long()
		if g.of(n, podsPerSecond).Min == 0 {
			rate = "too short"
		}
		row(n, rate, g.of(n, bindsPerSecond).short(), g.of(n, func(r run) float64 { return r.StartUp }).short(),
			g.of(n, startUpCPU).short(), g.of(n, ownCPU).long(), cpu("kube-apiserver"), cpu("etcd"), cpu(harness),
			g.of(n, func(r run) float64 { return r.Peak[scheduler] }).short(), g.of(n, func(r run) float64 { return r.Counted.Writes }).short(),
			g.of(n, func(r run) float64 { return r.Counted.ReadKB }).short(), g.of(n, func(r run) float64 { return r.Counted.WrittenKB }).short(), len(g.side(n)))
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
