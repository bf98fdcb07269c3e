package faults

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/operator"
)

// notChecked are the invariants that no spec lets the checker decide, and why.
var notChecked = map[checker.Invariant]string{
	checker.I8:  "a fault may take memory, and its spec is short: test/handover/soak samples processes that live long",
	checker.I9:  "the suite itself compares what each process holds before the fault and after it",
	checker.I21: "a fault may end processes; the suite itself counts restarts, and looks for crashes in all logs",
}

// ofBinds are the invariants of which something is checked where pods are bound, and the status of
// a profile is written.
var ofBinds = []checker.Invariant{
	checker.I1, checker.I4, checker.I10, checker.I13, checker.I16, checker.I17, checker.I18, checker.Foreign, checker.Status, checker.Complete,
}

// startChecker starts a checker until the spec or the container ends. skips are invariants that a
// fault breaks on purpose, and why.
func (e *testEnv) startChecker(ctx context.Context, skips map[checker.Invariant]string) *checker.Checker {
	GinkgoHelper()
	all := maps.Clone(notChecked)
	maps.Copy(all, skips)
	c, err := checker.Start(ctx, e.cp, checker.Options{FromNow: true, Audit: slices.Clone(e.audit), Settle: recovery, LongestWait: recovery, Skip: all})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Stop)
	return c
}

// expectNoViolation waits until the cluster is settled, and expects that the checker finds no
// violation in the history, and that it has checked these invariants.
func expectNoViolation(ctx context.Context, c *checker.Checker, invariants ...checker.Invariant) checker.Report {
	GinkgoHelper()
	report, err := c.End(ctx)
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry("checker", report.String())
	Expect(report.Violations).To(BeEmpty(), report.String())
	for _, i := range invariants {
		if report.Skipped[i] == "" {
			Expect(report.Checked[i]).To(BeNumerically(">", 0), "checks of %s", i)
		}
	}
	return report
}

// forgetLeaders deletes what the leaders of earlier specs left. A manager without election has the
// leader epoch 0, as if there had been no leader.
func (e *testEnv) forgetLeaders(ctx context.Context) {
	GinkgoHelper()
	for _, err := range []error{
		e.client.CoordinationV1().Leases(operator.Namespace).Delete(ctx, operator.Lease, metav1.DeleteOptions{}),
		e.client.CoreV1().ConfigMaps(operator.Namespace).Delete(ctx, journal, metav1.DeleteOptions{}),
	} {
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

// journal is the name of the ConfigMap with the journal of Bindings.
const journal = "berth-bindings"

// bound returns how many binds there were so far.
func bound(c *checker.Checker) int { return len(c.Recorder().Binds()) }
