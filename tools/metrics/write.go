package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const pageHeader = `# Metrics

Generated from the code by ` + "`make generate`" + `: every metric of Berth itself.
[metrics.md](../metrics.md) says how to scrape them and how they relate to those of
kube-scheduler.

Metrics named ` + "`scheduler_*`" + ` have kube-scheduler's name, labels, buckets and stability;
those named ` + "`berth_*`" + ` may change from one release to the next while they are ALPHA.
Other metrics are from controller-runtime, client-go and the Go runtime:
` + "`controller_runtime_*`, `workqueue_*`, `rest_client_*`, `leader_election_*`, `go_*`, `process_*`" + `.
`

// stabilities matches the beginning of a help text.
var stabilities = regexp.MustCompile(`^\[(ALPHA|BETA|STABLE)\] (.+\.)$`)

// reference returns the page about the metrics that code below root defines.
func reference(root string) (string, error) {
	all, err := readMetrics(root)
	if err != nil {
		return "", err
	}
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	var page strings.Builder
	page.WriteString(pageHeader)
	for _, part := range []struct{ prefix, title string }{
		{"scheduler_", "As kube-scheduler's"},
		{"berth_", "Berth's own"},
	} {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | stability | description |\n|---|---|---|---|---|\n", part.title)
		for i, m := range all {
			if !strings.HasPrefix(m.name, part.prefix) {
				continue
			}
			if i > 0 && all[i-1].name == m.name {
				return "", fmt.Errorf("%s is defined twice", m.name)
			}
			row, err := m.row()
			if err != nil {
				return "", err
			}
			page.WriteString(row)
		}
	}
	return page.String(), nil
}

func (m metric) row() (string, error) {
	help := stabilities.FindStringSubmatch(m.help)
	if help == nil {
		return "", fmt.Errorf("%s: its help %q must be a stability in brackets and whole sentences", m.name, m.help)
	}
	labels := ""
	for i, label := range m.labels {
		if i > 0 {
			labels += ", "
		}
		labels += "`" + label + "`"
	}
	what := help[2]
	if m.buckets != nil {
		what += " Buckets: " + bucketsText(m.buckets) + "."
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, labels, help[1], what), nil
}

// bucketsText describes the buckets by start, factor and count.
func bucketsText(b []float64) string {
	start, factor, count := b[0], b[1], b[2]
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }
	return fmt.Sprintf("%s, each %s times the one before, to %s", number(start), number(factor), number(start*math.Pow(factor, count-1)))
}
