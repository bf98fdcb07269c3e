package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestTheReferenceIsUpToDate(t *testing.T) {
	want, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/reference/metrics.md is stale, run `make generate` (-want +got):\n%s", diff)
	}
}

func TestMetricsInFile(t *testing.T) {
	for name, c := range map[string]struct {
		code, want string // the row, or the error
	}{
		"a histogram and its buckets": {
			`var a = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "berth_a", Help: "[ALPHA] A.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 3)}, []string{"x", "y"})`,
			"| `berth_a` | histogram | `x`, `y` | ALPHA | A. Buckets: 0.001, each 2 times the one before, to 0.004. |\n",
		},
		"a metric of a collector": {
			`var a = prometheus.NewDesc("scheduler_a", "[STABLE] A.", []string{"x"}, nil)
			func f() { prometheus.MustNewConstMetric(a, prometheus.CounterValue, 1, "x") }`,
			"| `scheduler_a` | counter | `x` | STABLE | A. |\n",
		},
		"a Desc without a metric in its file": {
			`var a = prometheus.NewDesc("scheduler_a", "[STABLE] A.", []string{"x"}, nil)`,
			"a: no metric in its file is created with it",
		},
		"a help without a stability": {
			`var a = prometheus.NewCounter(prometheus.CounterOpts{Name: "berth_a", Help: "A."})`,
			`berth_a: its help "A." must be a stability in brackets and whole sentences`,
		},
		"options that are not a literal": {
			`var a = prometheus.NewCounter(options)`, "a: its options are not a literal",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+c.code, 0)
			if err != nil {
				t.Fatal(err)
			}
			var rows strings.Builder
			found, err := metricsInFile(file)
			for _, m := range found {
				var row string
				if row, err = m.row(); err == nil {
					rows.WriteString(row)
				}
			}
			if err != nil {
				rows.WriteString(err.Error())
			}
			if diff := cmp.Diff(c.want, rows.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
