package integration

import (
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

var _ = Describe("A manager that is killed in the middle of a swap, at", func() {
	for _, step := range []string{onTrialBuild, onTrial, beforeWriting, afterWriting, atBuild, atPointer, atAdoption, atTelling, atRelease} {
		It(step, twoMinutes, func(ctx SpecContext) {
			y, p := aYard(ctx), aProfile(ctx, neverFlushing, fencing, publishingEvery(1))
			aNode(ctx, y.node("n"))
			expectReady(ctx, p)
			first := *p.Status.Programmed
			stopManager()
			DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })
			arm := filepath.Join(GinkgoT().TempDir(), "armed")
			killed := startChild(ctx, tripAt+"="+step, armedBy+"="+arm)
			runs := aPod(ctx, y.pod(p, "runs"))
			Expect(recordOf(ctx, runs).Hash).To(Equal(first.Hash))
			var wait []*v1.Pod
			for i := range 5 {
				wait = append(wait, aPod(ctx, y.pod(p, fmt.Sprint("waits-", i)).Label("tripwire", "waits")))
			}
			expectHeld(ctx, v1.PodReasonUnschedulable, wait...)
			// The pod at PreBind is not part of what the old generation waits for
			// where its release is the step.
			var held *v1.Pod
			if step != atRelease {
				held = aPod(ctx, y.pod(p, "held").Label("tripwire", "held"))
				Eventually(promised(ctx, held)).Should(Equal(y.node("n").Obj().Name))
			}

			Expect(os.WriteFile(arm, nil, 0o600)).To(Succeed())
			edit(ctx, p, opening)
			Eventually(killed.Ended()).Should(BeClosed(), "it dies at "+step)

			next := startChild(ctx)
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
			Expect(p.Status.Programmed.Hash).NotTo(Equal(first.Hash))
			for _, pod := range wait {
				Expect(recordOf(ctx, pod).Hash).To(Equal(p.Status.Programmed.Hash), pod.Name)
			}
			if held != nil {
				Expect(recordOf(ctx, held).Hash).To(Equal(p.Status.Programmed.Hash))
			}
			Expect(recordOf(ctx, runs).Hash).To(Equal(first.Hash), "where it runs is no news")
			Eventually(queueOf(ctx, p)).Should(BeZero(), "nobody waits")
			Expect(next.Ended()).NotTo(BeClosed())
			end(ctx, next)
		})
	}
})

// fencing has Tripwire in the way, opening lets everybody pass; at the points
// where a swap asks it, it stands in both.
func fencing(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{PreEnqueue: enabled(tripwire), Filter: enabled(tripwire), PreBind: enabled(tripwire)}
}

func opening(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{PreEnqueue: enabled(tripwire), PreBind: enabled(tripwire)}
}

// queueOf is what a profile's status says of who waits.
func queueOf(ctx SpecContext, p *v1alpha1.SchedulingProfile) func(g Gomega) v1alpha1.QueueStatus {
	return func(g Gomega) v1alpha1.QueueStatus {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(p.Status.Queue).NotTo(BeNil())
		return *p.Status.Queue
	}
}
