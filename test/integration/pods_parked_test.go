package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A paused profile", func() {
	It("lets its pods wait with ProfilePaused, and go on with Active", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, inState(v1alpha1.StatePaused))
		aNode(ctx, y.node("n"))
		early := aPod(ctx, y.pod(p, "early"))
		expectHeld(ctx, "ProfilePaused: SchedulingProfile "+p.Name, early)
		edit(ctx, p, inState(v1alpha1.StateActive))
		admin.ExpectBound(ctx, early)

		edit(ctx, p, inState(v1alpha1.StatePaused))
		Eventually(now(ctx, p)).Should(ContainElement("Ready False Paused"))
		late := aPod(ctx, y.pod(p, "late"))
		expectHeld(ctx, "ProfilePaused", late)
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Held: 1}))
		edit(ctx, p, inState(v1alpha1.StateActive))
		admin.ExpectBound(ctx, late)
	})

	It("takes back an older Unschedulable, and gives it again", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "2"))
		for range 5 {
			expectHeld(ctx, v1.PodReasonUnschedulable, pod)
			edit(ctx, p, inState(v1alpha1.StatePaused))
			expectHeld(ctx, "ProfilePaused", pod)
			edit(ctx, p, inState(v1alpha1.StateActive))
		}
		expectHeld(ctx, v1.PodReasonUnschedulable, pod)
	})

	It("whose state flips faster than anybody reads ends with what is true", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "2"))
		expectHeld(ctx, v1.PodReasonUnschedulable, pod)
		for range 10 {
			for range 3 {
				berth.Scheduler().Profiles().SetPaused(p.Name, true)
				berth.Scheduler().Profiles().SetPaused(p.Name, false)
			}
			berth.Scheduler().Profiles().SetPaused(p.Name, true)
			expectHeld(ctx, "ProfilePaused", pod)
			berth.Scheduler().Profiles().SetPaused(p.Name, false)
			berth.Scheduler().Profiles().SetPaused(p.Name, true)
			berth.Scheduler().Profiles().SetPaused(p.Name, false)
			expectHeld(ctx, v1.PodReasonUnschedulable, pod)
		}
	})

	It("holds a gated pod as well, which is told of its gates again", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web").SchedulingGate("example.com/quota"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		edit(ctx, p, inState(v1alpha1.StatePaused))
		expectHeld(ctx, "ProfilePaused", pod)
		edit(ctx, p, inState(v1alpha1.StateActive))
		expectHeld(ctx, v1.PodReasonSchedulingGated, pod)
		apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		admin.ExpectBound(ctx, pod)
	})
})

var _ = Describe("A profile that is deleted", func() {
	It("parks its pods, and its successor adopts them", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		p := aProfileNamed(ctx, y.name, neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "4"))
		bound := aPod(ctx, y.pod(p, "bound"))
		admin.ExpectBound(ctx, bound)
		unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "8"))
		gated := aPod(ctx, y.pod(p, "gated").SchedulingGate("example.com/quota"))
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Unschedulable: 1, Gated: 1}))

		Expect(admin.Delete(ctx, p)).To(Succeed())
		expectHeld(ctx, "ProfileDeleted: SchedulingProfile "+p.Name, unfit, gated)
		between := aPod(ctx, y.pod(p, "between"))
		Expect(admin.Place(ctx, bound)(Default)).NotTo(BeEmpty())

		p = aProfileNamed(ctx, y.name, neverFlushing)
		admin.ExpectBound(ctx, between)
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
		expectHeld(ctx, v1.PodReasonSchedulingGated, gated)
		aNode(ctx, y.node("big").Capacity("cpu", "8"))
		admin.ExpectBound(ctx, unfit)
		Expect(recordIn(between).Profile).To(Equal(p.Name))
	})

	It("leaves pods alone that it had bound", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		p := aProfileNamed(ctx, y.name)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web"))
		before := recordOf(ctx, pod)
		Expect(admin.Delete(ctx, p)).To(Succeed())
		aProfileNamed(ctx, y.name)
		other := aPod(ctx, y.pod(p, "other"))
		admin.ExpectBound(ctx, other)
		version := pod.ResourceVersion
		Expect(admin.Place(ctx, pod)(Default)).To(Equal(before.Node))
		Expect(pod.ResourceVersion).To(Equal(version))
	})
})

var _ = Describe("A profile that is created", func() {
	It("adopts the pods that waited for its name before there was any such profile", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		aNode(ctx, y.node("n"))
		nobodys := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: y.name}}
		older := aPod(ctx, y.pod(nobodys, "older"))
		gated := aPod(ctx, y.pod(nobodys, "gated").SchedulingGate("example.com/quota"))
		p := aProfileNamed(ctx, y.name)
		admin.ExpectBound(ctx, older)
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		apitest.Change(ctx, admin, gated, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		admin.ExpectBound(ctx, gated)
	})

	It("does not adopt a pod that goes while it looks for those that wait", minute, func(ctx SpecContext) {
		y, other := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		nobodys := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: y.name}}
		slow := aPod(ctx, y.pod(nobodys, "slow").Label("slow", "yes").Requests("cpu", "2"))
		var pods []*v1.Pod
		for i := range 20 { // in what order they are looked at is chance
			pods = append(pods, aPod(ctx, y.pod(nobodys, fmt.Sprint("web-", i)).Requests("cpu", "2")))
		}
		admin.ExpectBound(ctx, aPod(ctx, y.pod(other, "seen-after-them")))
		open := sluices.preEnqueue.close()
		defer open()
		p := aProfileNamed(ctx, y.name, sluicedAt(atPreEnqueue), publishingEvery(1))
		Eventually(sluices.preEnqueue.held).Should(Equal(1))
		for _, pod := range pods {
			admin.Remove(ctx, pod)
		}
		admin.ExpectBound(ctx, aPod(ctx, y.pod(other, "seen-after-they-went")))
		open()
		expectHeld(ctx, v1.PodReasonUnschedulable, slow)
		expectReady(ctx, p)
		admin.Remove(ctx, slow)
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))
	})
})

// aProfileNamed creates a profile whose name a spec wants to know beforehand.
func aProfileNamed(ctx context.Context, name string, edits ...func(*v1alpha1.SchedulingProfileSpec)) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	return apitest.Created(ctx, admin, p)
}
