package handover

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/operator"
)

func TestHandOver(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Handover")
}

// lease is shorter than it is shipped, and all else with it: a leader is frozen
// for 8 s and not for 20, and a watch lags 4 s and not 10.
const lease = 6 * time.Second

var _ = Describe("A leader that loses its place", Ordered, ContinueOnFailure, func() {
	var stage *Stage

	BeforeAll(func(ctx SpecContext) {
		path, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		stage, err = Start(ctx, Options{Manager: path, Lease: lease, Seed: uint64(GinkgoRandomSeed())})
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	AfterAll(func() {
		if stage != nil {
			stage.Stop()
		}
	})

	for _, kind := range Kinds {
		It("has a successor that binds: "+string(kind), func(ctx SpecContext) {
			h, err := stage.HandOver(ctx, kind)
			Expect(err).NotTo(HaveOccurred())
			AddReportEntry("nothing was bound for", h.Gap.String())
			if kind == Late {
				Expect(h.Late).To(BeNumerically(">", 0), "Bindings that arrived late")
				AddReportEntry("of pods that were refused before", h.Refused)
			}
		}, SpecTimeout(3*time.Minute))
	}

	It("has done nothing that must never be", func(ctx SpecContext) {
		verdict, err := stage.Check(ctx)
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("the history", verdict.String())
		Expect(append(verdict.Violations, verdict.Unsettled...)).To(BeEmpty())
		Expect(len(verdict.ByEpoch)).To(BeNumerically(">", len(Kinds)), "each leadership has bound")
		Expect(verdict.Fullest).To(BeEquivalentTo(Places), "the node was full")
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("A backlog of pods that fit nowhere", func() {
	It("is not written to when the leader changes", func(ctx SpecContext) {
		path, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		b, err := RunBacklog(ctx, BacklogOptions{Manager: path, Lease: lease, Pods: 400, Shapes: 100, Fresh: 20})
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("from the Lease to the first bind", b.Bound.String())
		Expect(b.Patched).To(BeZero(), "pods with PodScheduled=False that the new leader wrote to")
	}, SpecTimeout(3*time.Minute))
})
