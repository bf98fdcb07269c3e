package crashes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	which = flag.String("cells", "", "which cells are run: all, none for the runs without a crash alone, texts with | between of which one is in their names, or empty for a small slice that the seed chooses")
	seed  = flag.Int("crash-seed", 1, "chooses the slice")
	part  = flag.String("part", "1/1", "run one part of the cells: 2/5 is the second of five")
	nth   = flag.Int("nth", 2, "how many writes of each kind have cells")
	file  = flag.String("report", "", "write the report there")
	limit = flag.Duration("step-timeout", StepTimeout, "the timeout of one step of a scenario")
	logs  = flag.String("logs", "", "keep the logs of the processes of cells with violations in this folder")
)

// sliceCells is the number of cells of a slice, which are of one scenario.
const sliceCells = 3

// TestMain runs a manager with Stepper in the processes that the suite starts.
func TestMain(m *testing.M) {
	operator.Main(m, func() {
		config, err := operator.SelfConfig()
		if err != nil {
			panic(err)
		}
		manager.MainWith(manager.WithRESTConfig(config), manager.WithPlugins(Register()))
	})
}

func TestCrashes(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "crashes")
}

var _ = Describe("A manager that is killed at a write, or between two writes", Ordered, func() {
	var suite *Suite

	BeforeAll(func(ctx SpecContext) {
		minor, err := controlplane.Minor(ctx, "kube-apiserver")
		Expect(err).NotTo(HaveOccurred())
		if minor < 37 {
			Skip("PodGroups of scheduling.k8s.io/v1beta1 are of Kubernetes 1.37")
		}
		StepTimeout = *limit
		suite, err = Start(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { suite.Stop() })
	}, NodeTimeout(15*time.Minute))

	It("has a successor that completes what was begun", func(ctx SpecContext) {
		points, err := faultPoints(ctx)
		Expect(err).NotTo(HaveOccurred())
		report := NewSummary(points)
		DeferCleanup(func() {
			report.LostLeases, report.Decided = suite.Lost, suite.Decided
			AddReportEntry("crash cells", report.String(), ReportEntryVisibilityAlways)
			if *file != "" {
				Expect(report.Write(*file)).To(Succeed())
			}
		})
		cells, err := learn(ctx, suite)
		Expect(err).NotTo(HaveOccurred())
		report.Cells = len(cells)
		if *which == "none" {
			return
		}
		cells, err = partOf(cells, *part)
		Expect(err).NotTo(HaveOccurred())
		Expect(cells).NotTo(BeEmpty())
		for i, cell := range cells {
			By(fmt.Sprintf("%d of %d: %s", i+1, len(cells), cell))
			outcome, err := suite.Run(ctx, cell)
			if err != nil { // a leader may have lost the Lease since the machine is busy
				GinkgoWriter.Printf("it could not be run, and is run again: %v\n", err)
				outcome, err = suite.Run(ctx, cell)
			}
			Expect(ctx.Err()).NotTo(HaveOccurred())
			if err != nil {
				report.NotRun = append(report.NotRun, err.Error())
				continue
			}
			report.Outcomes = append(report.Outcomes, outcome)
			for _, violation := range outcome.Violations {
				GinkgoWriter.Println("violation:", violation)
			}
			if len(outcome.Violations) > 0 && *logs != "" {
				Expect(suite.keepLogs(filepath.Join(*logs, strconv.Itoa(i)))).To(Succeed())
			}
		}
		Expect(report.Violations()).To(BeEmpty())
		Expect(len(report.NotRun)).To(BeNumerically("<", 1+len(cells)/10), "cells that could not be run")
		Expect(len(report.NotReached())).To(BeNumerically("<", 1+len(cells)/10), "cells that were not reached")
	}, SpecTimeout(12*time.Hour))
})

// learn returns the cells of the scenarios that the flags choose.
func learn(ctx context.Context, suite *Suite) (cells []Cell, err error) {
	var errs []error
	for _, s := range chosen() {
		begin := time.Now()
		learned, err := suite.Learn(ctx, s.name, *nth)
		GinkgoWriter.Printf("%s, without a crash: %d cells, %.1f s, %v\n", s.name, len(learned), time.Since(begin).Seconds(), err)
		errs = append(errs, err)
		if *which == "" && len(learned) > sliceCells {
			first := *seed * sliceCells % (len(learned) - sliceCells + 1)
			learned = learned[first : first+sliceCells]
		}
		cells = append(cells, learned...)
	}
	if *which != "" && *which != "all" {
		cells = slices.DeleteFunc(cells, func(c Cell) bool { return !containsAny(c.String(), strings.Split(*which, "|")) })
	}
	return cells, errors.Join(errs...)
}

// chosen returns the scenarios of which cells are run.
func chosen() []*scenario {
	switch {
	case *which == "all", *which == "none":
		return allScenarios
	case *which != "":
		var names []string
		for text := range strings.SplitSeq(*which, "|") {
			name, _, _ := strings.Cut(text, ":")
			names = append(names, name)
		}
		named := slices.DeleteFunc(slices.Clone(allScenarios), func(s *scenario) bool { return !containsAny(s.name, names) })
		if len(named) > 0 {
			return named
		}
		return allScenarios
	}
	return []*scenario{allScenarios[*seed%len(allScenarios)]}
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// partOf returns every nth cell: "2/5" is the second of five parts.
func partOf(cells []Cell, part string) (some []Cell, err error) {
	var k, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("-part: must be like 2/5, is %q", part)
	}
	for i, cell := range cells {
		if i%n == k-1 {
			some = append(some, cell)
		}
	}
	return some, nil
}

func faultPoints(ctx context.Context) ([]FaultPoint, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return nil, err
	}
	return FaultPoints(ctx, root)
}
