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

// lease is shorter than the default, and all other times with it: a leader is frozen for 8
// s instead of 20, and a watch lags by 4 s instead of 10.
const lease = 6 * time.Second

var _ = Describe("A leader that loses the Lease", Ordered, ContinueOnFailure, func() {
	var env *Env

	BeforeAll(func(ctx SpecContext) {
		path, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		env, err = Start(ctx, Options{Manager: path, Lease: lease, Seed: uint64(GinkgoRandomSeed())})
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	AfterAll(func() {
		if env != nil {
			env.Stop()
		}
	})

	for _, kind := range Kinds {
		It("has a successor that binds: "+string(kind), func(ctx SpecContext) {
			h, err := env.HandOver(ctx, kind)
			Expect(err).NotTo(HaveOccurred())
			AddReportEntry("time without a bind", h.Gap.String())
			if kind == Late {
				Expect(h.Late).To(BeNumerically(">", 0), "Bindings that arrived late")
				AddReportEntry("of unschedulable pods", h.Unschedulable)
			}
		}, SpecTimeout(3*time.Minute))
	}

	It("leaves a history without violations", func(ctx SpecContext) {
		result, err := env.Check(ctx)
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("the history", result.String())
		Expect(result.Violations).To(BeEmpty())
		Expect(len(result.ByEpoch)).To(BeNumerically(">", len(Kinds)), "each leader has bound")
		Expect(result.MostPods).To(BeEquivalentTo(NodePods), "the node was full")
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("A backlog of unschedulable pods", func() {
	for end, released := range map[string]bool{"is killed": false, "gives its Lease back": true} {
		It("is not written to when the leader "+end, func(ctx SpecContext) {
			path, err := operator.Build(ctx)
			Expect(err).NotTo(HaveOccurred())
			b, err := RunBacklog(ctx, BacklogOptions{Manager: path, Lease: lease, Pods: 400, Shapes: 100, Fresh: 20, Released: released})
			Expect(err).NotTo(HaveOccurred())
			AddReportEntry("from the Lease to the first bind", b.Bound.String())
			Expect(b.Patched).To(BeZero(), "pods with PodScheduled=False that the new leader wrote to")
			if released {
				Expect(b.Fenced).To(BeZero(), "pods that were created after the last Binding was sent")
			} else {
				Expect(b.Fenced).To(BeEquivalentTo(21), "pods that a Binding may still bind")
			}
		}, SpecTimeout(3*time.Minute))
	}
})
