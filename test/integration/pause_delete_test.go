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

var _ = Describe("A paused profile", func() {
	It("holds its pods with ProfilePaused until it is active", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, setState(v1alpha1.StatePaused))
		createNode(ctx, env.node("n"))
		early := createPod(ctx, env.pod(p, "early"))
		expectReason(ctx, "ProfilePaused: SchedulingProfile "+p.Name, early)
		editProfile(ctx, p, setState(v1alpha1.StateActive))
		admin.ExpectBound(ctx, early)

		editProfile(ctx, p, setState(v1alpha1.StatePaused))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Ready False Paused"))
		late := createPod(ctx, env.pod(p, "late"))
		expectReason(ctx, "ProfilePaused", late)
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Held: 1}))
		editProfile(ctx, p, setState(v1alpha1.StateActive))
		admin.ExpectBound(ctx, late)
	})

	It("replaces an older Unschedulable, which returns when it is active", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "2"))
		for range 5 {
			expectReason(ctx, v1.PodReasonUnschedulable, pod)
			editProfile(ctx, p, setState(v1alpha1.StatePaused))
			expectReason(ctx, "ProfilePaused", pod)
			editProfile(ctx, p, setState(v1alpha1.StateActive))
		}
		expectReason(ctx, v1.PodReasonUnschedulable, pod)
	})

	It("whose state changes fast leaves the pods with the reason of the last state", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "2"))
		expectReason(ctx, v1.PodReasonUnschedulable, pod)
		for range 10 {
			for range 3 {
				editProfile(ctx, p, setState(v1alpha1.StatePaused))
				editProfile(ctx, p, setState(v1alpha1.StateActive))
			}
			editProfile(ctx, p, setState(v1alpha1.StatePaused))
			expectReason(ctx, "ProfilePaused", pod)
			editProfile(ctx, p, setState(v1alpha1.StateActive))
			editProfile(ctx, p, setState(v1alpha1.StatePaused))
			editProfile(ctx, p, setState(v1alpha1.StateActive))
			expectReason(ctx, v1.PodReasonUnschedulable, pod)
		}
	})

	It("holds a gated pod, which is gated again when it is active", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web").SchedulingGate("example.com/quota"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		editProfile(ctx, p, setState(v1alpha1.StatePaused))
		expectReason(ctx, "ProfilePaused", pod)
		editProfile(ctx, p, setState(v1alpha1.StateActive))
		expectReason(ctx, v1.PodReasonSchedulingGated, pod)
		apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		admin.ExpectBound(ctx, pod)
	})
})

var _ = Describe("A profile that is deleted", func() {
	It("holds its pods with ProfileDeleted, and a new profile of its name schedules them", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		p := createProfileNamed(ctx, env.namespace, neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "4"))
		bound := createPod(ctx, env.pod(p, "bound"))
		admin.ExpectBound(ctx, bound)
		unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "8"))
		gated := createPod(ctx, env.pod(p, "gated").SchedulingGate("example.com/quota"))
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Unschedulable: 1, Gated: 1}))

		Expect(admin.Delete(ctx, p)).To(Succeed())
		expectReason(ctx, "ProfileDeleted: SchedulingProfile "+p.Name, unfit, gated)
		between := createPod(ctx, env.pod(p, "between"))
		Expect(admin.NodeName(ctx, bound)(Default)).NotTo(BeEmpty())

		p = createProfileNamed(ctx, env.namespace, neverFlush)
		admin.ExpectBound(ctx, between)
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)
		expectReason(ctx, v1.PodReasonSchedulingGated, gated)
		createNode(ctx, env.node("big").Capacity("cpu", "8"))
		admin.ExpectBound(ctx, unfit)
		Expect(readRecord(between).Profile).To(Equal(p.Name))
	})

	It("leaves the pods alone that it bound", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		p := createProfileNamed(ctx, env.namespace)
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web"))
		before := boundRecord(ctx, pod)
		Expect(admin.Delete(ctx, p)).To(Succeed())
		createProfileNamed(ctx, env.namespace)
		other := createPod(ctx, env.pod(p, "other"))
		admin.ExpectBound(ctx, other)
		version := pod.ResourceVersion
		Expect(admin.NodeName(ctx, pod)(Default)).To(Equal(before.Node))
		Expect(pod.ResourceVersion).To(Equal(version))
	})
})

var _ = Describe("A profile that is created", func() {
	It("schedules the pods that were created before it", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		createNode(ctx, env.node("n"))
		unserved := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}
		older := createPod(ctx, env.pod(unserved, "older"))
		gated := createPod(ctx, env.pod(unserved, "gated").SchedulingGate("example.com/quota"))
		p := createProfileNamed(ctx, env.namespace)
		admin.ExpectBound(ctx, older)
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		apitest.Change(ctx, admin, gated, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		admin.ExpectBound(ctx, gated)
	})

	It("does not schedule a pod that is deleted while it looks for pending pods", minute, func(ctx SpecContext) {
		env, other := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		unserved := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}
		slow := createPod(ctx, env.pod(unserved, "slow").Label("slow", "yes").Requests("cpu", "2"))
		var pods []*v1.Pod
		for i := range 20 { // their order is random
			pods = append(pods, createPod(ctx, env.pod(unserved, fmt.Sprint("web-", i)).Requests("cpu", "2")))
		}
		admin.ExpectBound(ctx, createPod(ctx, env.pod(other, "observed-after-them")))
		open := gates.preEnqueue.shutGate()
		defer open()
		p := createProfileNamed(ctx, env.namespace, blockAt(preEnqueueSet), publishEvery(1))
		Eventually(gates.preEnqueue.waiting).Should(Equal(1))
		for _, pod := range pods {
			admin.Remove(ctx, pod)
		}
		admin.ExpectBound(ctx, createPod(ctx, env.pod(other, "observed-after-deletion")))
		open()
		expectReason(ctx, v1.PodReasonUnschedulable, slow)
		expectReady(ctx, p)
		admin.Remove(ctx, slow)
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))
	})
})

// createProfileNamed creates a profile with this name.
func createProfileNamed(ctx context.Context, name string, edits ...func(*v1alpha1.SchedulingProfileSpec)) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	return apitest.Created(ctx, admin, p)
}

var _ = Describe("A profile with allowedNamespaces", func() {
	It("holds pods of other namespaces with NamespaceNotAllowed until their namespace is labelled", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, allowTeam("shop"))
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		pod := createPod(ctx, env.pod(p, "web"))
		Eventually(admin.PodScheduled(ctx, pod)).Should(Equal("False NamespaceNotAllowed: SchedulingProfile " + p.Name + " takes no pods of namespace " + env.namespace +
			": the pod waits until spec.allowedNamespaces matches the namespace's labels"))
		Eventually(queueCounts(p)).Should(HaveField("Held", 1))
		labelNamespace(ctx, env, "shop")
		admin.ExpectBound(ctx, pod)

		By("the namespace loses the label")
		labelNamespace(ctx, env, "other")
		Eventually(func() string {
			ns, err := berth.Informers().Core().V1().Namespaces().Lister().Get(env.namespace)
			Expect(err).NotTo(HaveOccurred())
			return ns.Labels["team"]
		}).Should(Equal("other"))
		expectReason(ctx, "NamespaceNotAllowed", createPod(ctx, env.pod(p, "late")))
		Expect(admin.NodeName(ctx, pod)(Default)).NotTo(BeEmpty(), "a bound pod keeps its node")
	})

	It("schedules all pods of four namespaces that one command labels", SpecTimeout(5*time.Minute), func(ctx SpecContext) {
		const namespaces, pods = 4, 500
		p := createProfile(ctx, allowTeam("shop"), neverFlush)
		command := []string{"label", "--overwrite", "namespace"}
		for range namespaces {
			env := newTestEnv(ctx)
			command = append(command, env.namespace)
			createNode(ctx, env.node("n").Capacity("pods", fmt.Sprint(2*pods)))
			for i := range pods {
				createPod(ctx, env.pod(p, fmt.Sprint("p", i)))
			}
		}
		Eventually(queueCounts(p)).WithContext(ctx).Should(Equal(decision.QueueCounts{Held: namespaces * pods}))
		_, err := kubectl(ctx, append(command, "team=shop")...)
		Expect(err).NotTo(HaveOccurred())
		Eventually(queueCounts(p)).WithContext(ctx).Should(Equal(decision.QueueCounts{}))
		for _, name := range command[3:] {
			var list v1.PodList
			Expect(admin.List(ctx, &list, client.InNamespace(name))).To(Succeed())
			Expect(list.Items).To(HaveLen(pods))
			Expect(list.Items).To(HaveEach(HaveField("Spec.NodeName", Not(BeEmpty()))))
		}
	})

	It("holds and releases pending pods when the list changes", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		expectReady(ctx, p)
		unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "2"))
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)
		editProfile(ctx, p, allowTeam("shop"))
		expectReason(ctx, "NamespaceNotAllowed", unfit)
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.AllowedNamespaces = v1alpha1.AllowedNamespaces{} })
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)
	})

	It("lists in its trial the pods that it would not schedule", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		expectBoundAndInformed(ctx, createPod(ctx, env.pod(p, "web")))
		editProfile(ctx, p, allowTeam("shop"))
		expectReady(ctx, p)
		Expect(p.Status.Trial.Lost).To(ConsistOf(v1alpha1.PodReference{Namespace: env.namespace, Pod: "web"}))
		Expect(conditionMessage(p, v1alpha1.ConditionProgrammed)).To(ContainSubstring("spec.allowedNamespaces does not match its namespace"))
	})
})

func allowTeam(team string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": team}},
		}
	}
}

// labelNamespace sets the label team of the environment's namespace.
func labelNamespace(ctx context.Context, env testEnv, team string) {
	GinkgoHelper()
	apitest.Change(ctx, admin, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}, func(ns *v1.Namespace) {
		ns.Labels["team"] = team
	})
}
