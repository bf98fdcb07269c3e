package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/promql"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// named returns the alert of this name.
func named(name string) *alert {
	GinkgoHelper()
	i := slices.IndexFunc(alerts, func(a *alert) bool { return a.Alert == name })
	Expect(i).NotTo(Equal(-1), "no alert is called %s", name)
	return alerts[i]
}

var _ = Describe("Alerts", Ordered, func() {
	It("have a page each, and a state in which they fire", func() {
		for _, a := range alerts {
			Expect(a.Annotations).To(And(HaveKey("summary"), HaveKey("description")), a.Alert)
			Expect(a.Labels["severity"]).To(BeElementOf("critical", "warning", "info"), a.Alert)
			Expect(a.Annotations["runbook_url"]).To(HaveSuffix("/docs/runbooks/" + a.Alert + ".md"))
			text, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", a.Alert+".md"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(And(HavePrefix("# "+a.Alert+"\n"), ContainSubstring("## What it means"), ContainSubstring("## What to do")))
			Expect(slices.ContainsFunc(states, func(s state) bool { return s.alert == a.Alert })).To(BeTrue(), "%s never fires", a.Alert)
		}
		index, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", "README.md"))
		Expect(err).NotTo(HaveOccurred())
		pages, err := filepath.Glob(filepath.Join(root, "docs", "runbooks", "Berth*.md"))
		Expect(err).NotTo(HaveOccurred())
		Expect(pages).To(HaveLen(len(alerts)))
		for _, page := range pages {
			Expect(string(index)).To(ContainSubstring("(" + filepath.Base(page) + ")"))
		}
	})

	It("read counters that are there from the start", func(ctx SpecContext) {
		scrape(ctx)
		for _, a := range alerts {
			for _, selector := range increases(a.Expr) {
				vector, err := server.query(ctx, selector)
				Expect(err).NotTo(HaveOccurred())
				// Or what was not there before counts as it is.
				Expect(len(vector) > 0 || strings.Contains(a.Expr, selector+" unless "+selector+" offset ")).To(BeTrue(),
					"%s reads the increase of %s, which a new process does not have", a.Alert, selector)
			}
		}
	})

	It("do not fire without a problem, for an hour", minutes, func(ctx SpecContext) {
		for i := range 120 {
			if i%10 == 0 {
				pod := admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/well-", i)).SchedulerName("berth").Requests("cpu", "100m"))
				admin.ExpectBound(ctx, pod)
				// The time of the stored scrapes is far ahead of the manager's: a pod whose
				// binding the manager has not observed yet would look pending for long.
				Eventually(gauge).WithArguments(ctx, "berth_oldest_pending_pod_timestamp_seconds").Should(BeZero())
			}
			scrape(ctx)
			for _, a := range alerts {
				Expect(a.firing(server.now)).To(BeEmpty(), a.Alert)
			}
		}
	})

	It("have a dashboard in which every panel has data", minutes, func(ctx SpecContext) {
		for i := range 12 {
			var pods []*v1.Pod
			for k := range 5 {
				pods = append(pods, admin.Pod(ctx, fixture.Pod(fmt.Sprintf("default/shown-%d-%d", i, k)).SchedulerName("berth").Requests("cpu", "100m")))
			}
			for _, pod := range pods {
				admin.ExpectBound(ctx, pod)
			}
			// As above: the last scrape is that of the next spec.
			Eventually(gauge).WithArguments(ctx, "berth_oldest_pending_pod_timestamp_seconds").Should(BeZero())
			scrape(ctx)
		}
		board, err := readBoard(root)
		Expect(err).NotTo(HaveOccurred())
		for _, panel := range board.panels {
			for _, query := range panel.queries {
				vector, err := server.query(ctx, interpolate(query.Expr))
				Expect(err).NotTo(HaveOccurred(), *panel.Title)
				Expect(panel.mayBeEmpty() || slices.ContainsFunc(vector, func(s promql.Sample) bool { return !math.IsNaN(s.F) })).To(BeTrue(),
					"%s has no data: %s is %v", *panel.Title, query.Expr, vector)
			}
		}
		for _, a := range board.Annotations.List {
			_, err := server.query(ctx, interpolate(*a.Expr))
			Expect(err).NotTo(HaveOccurred(), a.Name)
		}
	})

	It("have a stat each, green without a problem", minutes, func(ctx SpecContext) {
		board, err := readBoard(root)
		Expect(err).NotTo(HaveOccurred())
		// One stall of a second among the few requests of the last scrapes makes a stat orange.
		Eventually(func(g Gomega) {
			scrape(ctx)
			for _, a := range alerts {
				stat, err := board.statOf(a.Alert)
				g.Expect(err).NotTo(HaveOccurred())
				value, err := stat.stat(ctx, server)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(stat.color(value)).To(Equal("green"), "%s is %v", *stat.Title, value)
			}
		}).Should(Succeed())
	})

	for _, s := range states {
		It("fire when "+s.sentence+": "+s.alert, minutes, func(ctx SpecContext) {
			a := named(s.alert)
			Eventually(func() []string {
				scrape(ctx)
				return a.firing(server.now)
			}).Should(BeEmpty(), "it fires before")
			keep := s.bring(ctx)
			turns := 0
			Eventually(func() []string {
				if turns++; keep != nil {
					keep(turns)
				}
				scrape(ctx)
				return a.firing(server.now)
			}).ShouldNot(BeEmpty(), func() string { return unfired(ctx, a) })
			board, err := readBoard(root)
			Expect(err).NotTo(HaveOccurred())
			stat, err := board.statOf(a.Alert)
			Expect(err).NotTo(HaveOccurred())
			value, err := stat.stat(ctx, server)
			Expect(err).NotTo(HaveOccurred())
			Expect(stat.color(value)).To(Equal(severityColors[a.Labels["severity"]]), "%s is %v on the dashboard", *stat.Title, value)
		})
	}
})

// increases returns the selectors of which an expression reads the increase.
func increases(expr string) (selectors []string) {
	for _, call := range regexp.MustCompile(`increase\(([^\[]+)\[`).FindAllStringSubmatch(expr, -1) {
		selectors = append(selectors, call[1])
	}
	return selectors
}

// unfired says what an alert lacks.
func unfired(ctx context.Context, a *alert) string {
	vector, err := server.query(ctx, a.Expr)
	return fmt.Sprintf("%s is true since %v for %v, at %v: %v", a.Expr, a.since, vector, server.now, err)
}
