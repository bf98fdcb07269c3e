package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A profile for some namespaces", func() {
	It("holds pods of others with NamespaceNotAllowed, and takes them when their namespace is labelled", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, forTeam("shop"))
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		pod := aPod(ctx, y.pod(p, "web"))
		Eventually(admin.Standing(ctx, pod)).Should(Equal("False NamespaceNotAllowed: SchedulingProfile " + p.Name + " takes no pods of namespace " + y.name +
			": the pod waits until spec.allowedNamespaces matches the namespace's labels"))
		Eventually(waiting(p)).Should(HaveField("Held", 1))
		label(ctx, y, "shop")
		admin.ExpectBound(ctx, pod)

		By("and holds those that come when it is labelled no more")
		label(ctx, y, "other")
		Eventually(func() string {
			ns, err := berth.Informers().Core().V1().Namespaces().Lister().Get(y.name)
			Expect(err).NotTo(HaveOccurred())
			return ns.Labels["team"]
		}).Should(Equal("other"))
		expectHeld(ctx, "NamespaceNotAllowed", aPod(ctx, y.pod(p, "late")))
		Expect(admin.Place(ctx, pod)(Default)).NotTo(BeEmpty(), "who is bound stays")
	})

	It("takes every pod of four namespaces that one command labels", SpecTimeout(5*time.Minute), func(ctx SpecContext) {
		const namespaces, pods = 4, 500
		p := aProfile(ctx, forTeam("shop"), neverFlushing)
		command := []string{"label", "--overwrite", "namespace"}
		for range namespaces {
			y := aYard(ctx)
			command = append(command, y.name)
			aNode(ctx, y.node("n").Capacity("pods", fmt.Sprint(2*pods)))
			for i := range pods {
				aPod(ctx, y.pod(p, fmt.Sprint("p", i)))
			}
		}
		Eventually(waiting(p)).WithTimeout(time.Minute).Should(Equal(decision.QueueCounts{Held: namespaces * pods}))
		_, err := kubectl(ctx, append(command, "team=shop")...)
		Expect(err).NotTo(HaveOccurred())
		Eventually(waiting(p)).WithTimeout(30 * time.Second).Should(Equal(decision.QueueCounts{}))
		for _, name := range command[3:] {
			var list v1.PodList
			Expect(admin.List(ctx, &list, client.InNamespace(name))).To(Succeed())
			Expect(list.Items).To(HaveLen(pods))
			Expect(list.Items).To(HaveEach(HaveField("Spec.NodeName", Not(BeEmpty()))))
		}
	})

	It("holds and takes pods that wait when the list changes", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		expectReady(ctx, p)
		unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "2"))
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
		edit(ctx, p, forTeam("shop"))
		expectHeld(ctx, "NamespaceNotAllowed", unfit)
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.AllowedNamespaces = v1alpha1.AllowedNamespaces{} })
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
	})

	It("tells in its trial whom it would not take", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		expectRuns(ctx, aPod(ctx, y.pod(p, "web")))
		edit(ctx, p, forTeam("shop"))
		expectReady(ctx, p)
		Expect(p.Status.Trial.Lost).To(ConsistOf(v1alpha1.PodReference{Namespace: y.name, Pod: "web"}))
		Expect(message(p, v1alpha1.ConditionProgrammed)).To(ContainSubstring("spec.allowedNamespaces does not match its namespace"))
	})
})

func forTeam(team string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": team}},
		}
	}
}

// label makes the yard one of a team's.
func label(ctx context.Context, y yard, team string) {
	GinkgoHelper()
	apitest.Change(ctx, admin, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: y.name}}, func(ns *v1.Namespace) {
		ns.Labels["team"] = team
	})
}
