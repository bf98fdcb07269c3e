package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("A profile with an HTTP extender", Ordered, ContinueOnFailure, func() {
	runWithExtenders()

	It("binds pods to the node that the extender scores highest among those that fit", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		a, b, c := createNode(ctx, env.node("a").Capacity("cpu", "1")), createNode(ctx, env.node("b").Capacity("cpu", "1")), createNode(ctx, env.node("c").Capacity("cpu", "1"))
		ext.set(func(ext *extenderServer) { ext.filter, ext.prioritize = onlyNodes(a, c), preferNode(c, 0) })
		p := createProfile(ctx, neverFlush, setTopScores(3), useExtender(ext, v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"}))
		expectReady(ctx, p)
		one := createPod(ctx, env.pod(p, "one").Requests("cpu", "1"))
		r := boundRecord(ctx, one)
		Expect(r.Node).To(Equal(c.Name))
		Expect(r.Top[0].Plugins).To(HaveKeyWithValue("Extender/rack", int64(100)))
		two := createPod(ctx, env.pod(p, "two").Requests("cpu", "1"))
		admin.ExpectBound(ctx, two)
		Expect(two.Spec.NodeName).To(Equal(a.Name), "%s is full, and the extender does not let %s pass", c.Name, b.Name)
	})

	It("has the extender's name in a refusal, and tries the pod again after an event", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		n := createNode(ctx, env.node("n").Capacity("cpu", "1"))
		ext.set(func(ext *extenderServer) {
			ext.filter = func(string) (bool, string, bool) { return false, "the rack is locked", false }
		})
		p := createProfile(ctx, neverFlush, useExtender(ext, filterVerb))
		pod := createPod(ctx, env.pod(p, "p").Requests("cpu", "1"))
		expectReason(ctx, v1.PodReasonUnschedulable, pod)
		Expect(apitest.PodScheduled(pod)).To(ContainSubstring("the rack is locked"))
		ext.set(func(ext *extenderServer) { ext.filter = onlyNodes(n) })
		apitest.Change(ctx, admin, n, func(n *v1.Node) { n.Labels["key"] = "turned" })
		admin.ExpectBound(ctx, pod)
	})

	It("keeps pods pending when the extender fails, unless failurePolicy is Ignore", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "2"))
		strict, lax := createProfile(ctx, neverFlush, useExtender(ext, filterVerb)), createProfile(ctx, neverFlush, useExtender(ext, filterVerb, ignoreFailures))
		pending, bound := createPod(ctx, env.pod(strict, "pending").Requests("cpu", "1")), createPod(ctx, env.pod(lax, "bound").Requests("cpu", "1"))
		admin.ExpectBound(ctx, bound)
		expectReason(ctx, v1.PodReasonSchedulerError, pending)
		Expect(apitest.PodScheduled(pending)).To(ContainSubstring(`extender "rack": filter: status 500, want 200`))
		ext.set(func(ext *extenderServer) { ext.filter = func(string) (bool, string, bool) { return true, "", true } })
		admin.ExpectBound(ctx, pending)
	})

	It("calls the extender only for pods that request what it manages, which NodeResourcesFit may ignore", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		n := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		ext.set(func(ext *extenderServer) { ext.filter = onlyNodes(n) })
		p := createProfile(ctx, neverFlush, useExtender(ext, filterVerb, func(e *v1alpha1.Extender) {
			e.ManagedResources = []v1alpha1.ExtenderManagedResource{{Name: "example.com/rack", IgnoredByScheduler: true}}
		}))
		plain := createPod(ctx, env.pod(p, "plain").Requests("cpu", "1"))
		racked := createPod(ctx, requestRack(env.pod(p, "racked")))
		admin.ExpectBound(ctx, plain, racked)
		Expect(ext.requestedPods()).To(HaveEach(racked.Name))
		other := createProfile(ctx, neverFlush)
		expectReason(ctx, v1.PodReasonUnschedulable, createPod(ctx, requestRack(env.pod(other, "other"))))
	})

	It("checks with the API server where the pod is when the extender binds", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "4"))
		bind := bindAsExtender(ctx)
		ext.set(func(ext *extenderServer) {
			ext.bind = func(args extenderv1.ExtenderBindingArgs) string {
				switch args.PodName {
				case "liar":
					return "" // and does not bind
				case "timid":
					_ = bind(args)
					return "something went wrong"
				}
				return bind(args)
			}
		})
		p := createProfile(ctx, neverFlush, useExtender(ext, bindVerb))
		honest, timid, liar := createPod(ctx, env.pod(p, "honest").Requests("cpu", "1")), createPod(ctx, env.pod(p, "timid").Requests("cpu", "1")), createPod(ctx, env.pod(p, "liar").Requests("cpu", "1"))
		admin.ExpectBound(ctx, honest, timid)
		Expect(honest.Annotations).NotTo(HaveKey("berth.dev/decision"))
		expectReason(ctx, v1.PodReasonSchedulerError, liar)
		Expect(apitest.PodScheduled(liar)).To(ContainSubstring("Extender/rack reported that it bound the pod to its node, but the pod is not bound"))
		ext.set(func(ext *extenderServer) { ext.bind = bind })
		admin.ExpectBound(ctx, liar)
	})

	It("loses no pod when extenders are added and removed under a stream of pods", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		ext.set(func(ext *extenderServer) { ext.filter = func(string) (bool, string, bool) { return true, "", true } })
		createNode(ctx, env.node("n").Capacity("cpu", "64"))
		p := createProfile(ctx, neverFlush)
		watch := watchPods(ctx, env)
		var pods []*v1.Pod
		for wave := range 6 {
			extenders := useExtender(ext, filterVerb)
			if wave%2 == 1 {
				extenders = func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = nil }
			}
			editProfile(ctx, p, extenders)
			for i := range 10 {
				pods = append(pods, createPod(ctx, env.pod(p, fmt.Sprintf("web-%d-%d", wave, i)).Requests("cpu", "100m")))
			}
			expectReady(ctx, p)
		}
		admin.ExpectBound(ctx, pods...)
		for _, pod := range pods {
			Expect(len(watch.nodes(pod))).To(BeNumerically("<=", 1), "%s has had one node only", pod.Name)
		}
		Expect(ext.requestedPods()).NotTo(BeEmpty())
	})
})

var _ = Describe("An extender with a client certificate", Ordered, ContinueOnFailure, func() {
	runWithExtenders()

	It("gets the certificate of a Secret, and is not called without it", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		n := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		ext.set(func(ext *extenderServer) { ext.filter = onlyNodes(n) })
		p := createProfile(ctx, neverFlush, useExtender(ext, filterVerb, func(e *v1alpha1.Extender) {
			e.TLS.ClientCertificateRef = &v1alpha1.SecretReference{Name: env.namespace}
		}))
		expectReady(ctx, p)
		pod := createPod(ctx, env.pod(p, "p").Requests("cpu", "1"))
		expectReason(ctx, v1.PodReasonSchedulerError, pod)
		Expect(apitest.PodScheduled(pod)).To(ContainSubstring(`extender "rack": filter: its client certificate cannot be read`))
		Expect(apitest.PodScheduled(pod)).NotTo(ContainSubstring("Secret"), "a reader of pods does not see what is in the namespace of the Secret")
		Expect(ext.requestedPods()).To(BeEmpty())

		chain, key, err := cert.GenerateSelfSignedCertKey("client.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		apitest.Created(ctx, admin, &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.namespace}, Type: v1.SecretTypeTLS,
			Data: map[string][]byte{v1.TLSCertKey: chain, v1.TLSPrivateKeyKey: key},
		})
		admin.ExpectBound(ctx, pod)
		ext.set(func(ext *extenderServer) { Expect(ext.clientNames).To(ContainElement("client.example")) })
	})
})

var _ = Describe("A profile with an extender, where the manager's flags do not allow it", func() {
	It("is rejected with the missing flag, and the earlier spec keeps running", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "2"))
		p := createProfile(ctx, neverFlush, useExtender(ext, filterVerb))
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Accepted False InvalidExtender", "Ready False InvalidExtender"))
		Expect(conditionMessage(p, v1alpha1.ConditionAccepted)).To(ContainSubstring(
			"spec.extenders: extenders are off: run the manager with --enable-extenders, or leave them out"))

		none := func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = nil }
		editProfile(ctx, p, none)
		expectReady(ctx, p)
		editProfile(ctx, p, useExtender(ext, filterVerb))
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Accepted False InvalidExtender", "Programmed False PreviousRuns"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "p").Requests("cpu", "1")))
		Expect(ext.requestedPods()).To(BeEmpty())

		By("where extenders may filter, and neither preempt nor bind")
		editProfile(ctx, p, none)
		stopManager()
		DeferCleanup(func(ctx SpecContext) { stopManager(); berth = startManager(ctx) })
		berth = runManager(accountConfig(ctx), []string{"--enable-extenders"}, suiteOptions(manager.WithExtenderClient(localExtenderClient(accountConfig(ctx))))...)
		expectReady(ctx, p)
		editProfile(ctx, p, useExtender(ext, preemptVerb))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Accepted False InvalidExtender"))
		Expect(conditionMessage(p, v1alpha1.ConditionAccepted)).To(ContainSubstring(
			"spec.extenders[0].verbs.preempt: extenders may not preempt: run the manager with --enable-extender-writes, or leave it out"))
		editProfile(ctx, p, useExtender(ext, filterVerb))
		expectReady(ctx, p)
	})
})

var _ = Describe("The client of an extender", Ordered, ContinueOnFailure, func() {
	runWithExtenders()

	It("sends nothing during a trial", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		n := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		ext.set(func(ext *extenderServer) { ext.filter, ext.prioritize = onlyNodes(n), func(string) int64 { return 10 } })
		p := createProfile(ctx, neverFlush)
		expectBoundAndInformed(ctx, createPod(ctx, env.pod(p, "runs").Requests("cpu", "1")))
		pending := createPod(ctx, env.pod(p, "pending").Requests("cpu", "4"))
		expectReason(ctx, v1.PodReasonUnschedulable, pending)

		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) {
			s.Activation = v1alpha1.ActivationManual
			useExtender(ext, v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"})(s)
		})
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect(p.Status.Trial).To(HaveField("Sampled", BeEquivalentTo(2)))
		Expect(ext.connections()).To(BeZero())

		approveProfile(ctx, p)
		expectReady(ctx, p)
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "next").Requests("cpu", "1")))
		Expect(ext.requestedPods()).To(ContainElement("next"))
	})

	It("is closed with its generation", minute, func(ctx SpecContext) {
		ext, env := newExtenderServer(), newTestEnv(ctx)
		n := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		ext.set(func(ext *extenderServer) { ext.filter = onlyNodes(n) })
		p := createProfile(ctx, neverFlush, useExtender(ext, filterVerb))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "p").Requests("cpu", "1")))
		expectReady(ctx, p)
		Expect(ext.connections()).To(Equal(1), "it is kept for the next pod")
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = nil })
		// Much sooner than an idle connection would be closed.
		Eventually(ext.connections).WithTimeout(20 * time.Second).Should(BeZero())
	})
})

var _ = Describe("A profile with several HTTP extenders", Ordered, ContinueOnFailure, func() {
	runWithExtenders()

	It("calls one after the other, adds up their scores, and has the pod bound by the one that binds", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		n := map[string]*v1.Node{}
		for _, name := range []string{"1", "2", "3", "4", "5"} {
			n[name] = createNode(ctx, env.node(name).Capacity("cpu", "1"))
		}
		newExtender := func(favourite *v1.Node, fit ...*v1.Node) *extenderServer {
			ext := newExtenderServer()
			ext.set(func(ext *extenderServer) { ext.filter, ext.prioritize = onlyNodes(fit...), preferNode(favourite, 1) })
			return ext
		}
		first := newExtender(n["2"], n["1"], n["2"], n["3"])
		second := newExtender(n["3"], n["2"], n["3"], n["5"])
		third := newExtender(n["2"], n["1"], n["2"], n["3"])
		second.set(func(ext *extenderServer) { ext.bind = bindAsExtender(ctx) })
		both := v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"}
		p := createProfile(ctx, neverFlush, func(s *v1alpha1.SchedulingProfileSpec) {
			s.Extenders = []v1alpha1.Extender{
				extenderSpec(first, both, withWeight("first", 3, false)),
				extenderSpec(second, v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize", Bind: "bind"}, withWeight("second", 4, false), func(e *v1alpha1.Extender) {
					e.ManagedResources = []v1alpha1.ExtenderManagedResource{{Name: "example.com/rack", IgnoredByScheduler: true}}
				}),
				extenderSpec(third, both, withWeight("third", 10, true)),
			}
		})
		pod := createPod(ctx, requestRack(env.pod(p, "p")))
		admin.ExpectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal(n["2"].Name), "134 to 53 for the only other node that is left")
		Expect(pod.Annotations).NotTo(HaveKey("berth.dev/decision"), "the second extender bound it")
		Expect(first.requestedNodes()).To(ConsistOf(n["1"].Name, n["2"].Name, n["3"].Name, n["4"].Name, n["5"].Name))
		Expect(second.requestedNodes()).To(ConsistOf(n["1"].Name, n["2"].Name, n["3"].Name))
		Expect(third.requestedNodes()).To(ConsistOf(n["2"].Name, n["3"].Name))
	})
})

// withWeight sets the name, the weight, and whether the extender gets names instead of
// nodes.
func withWeight(name string, weight int32, byName bool) func(*v1alpha1.Extender) {
	return func(e *v1alpha1.Extender) { e.Name, e.Weight, e.NodeCacheCapable = name, &weight, byName }
}

var _ = Describe("An extender that preempts", Ordered, ContinueOnFailure, func() {
	runWithExtenders()

	It("drops nodes, and chooses other victims among the pods there", minute, func(ctx SpecContext) {
		ext, env, classes := newExtenderServer(), newTestEnv(ctx), createPriorityClasses(ctx, 3, v1.PreemptLowerPriority)
		p := createProfile(ctx, neverFlush, useExtender(ext, preemptVerb))
		a, b := createNode(ctx, env.node("a").Capacity("cpu", "2")), createNode(ctx, env.node("b").Capacity("cpu", "2"))
		on := func(n *v1.Node, name, class string) *v1.Pod {
			return createPod(ctx, withPriorityClass(env.pod(p, name).NodeSelector(v1.LabelHostname, n.Name).Requests("cpu", "1"), class))
		}
		all := []*v1.Pod{on(a, "a1", classes[0]), on(a, "a2", classes[0]), on(b, "least", classes[0]), on(b, "named", classes[1])}
		admin.ExpectBound(ctx, all...)
		ext.set(func(ext *extenderServer) { ext.preempt = victimOnNode(b, all[3]) })
		high := createPod(ctx, withPriorityClass(env.pod(p, "high").Requests("cpu", "1"), classes[2]))
		Eventually(admin.NominatedNode(ctx, high)).Should(Equal(b.Name))
		Eventually(disruptionTarget(ctx, all[3])).ShouldNot(BeEmpty())
		for _, spared := range all[:3] {
			Expect(disruptionTarget(ctx, spared)(Default)).To(BeEmpty(), spared.Name)
		}
		Expect(ext.requestedNodes()).To(ConsistOf(a.Name, b.Name))
		admin.Remove(ctx, all[3])
		Eventually(admin.NodeName(ctx, high)).Should(Equal(b.Name))
	})

	It("cannot choose victims of the same priority as the pod", minute, func(ctx SpecContext) {
		ext, env, classes := newExtenderServer(), newTestEnv(ctx), createPriorityClasses(ctx, 2, v1.PreemptLowerPriority)
		p := createProfile(ctx, neverFlush, useExtender(ext, preemptVerb))
		n := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		low := createPod(ctx, withPriorityClass(env.pod(p, "low").Requests("cpu", "1"), classes[0]))
		equal := createPod(ctx, withPriorityClass(env.pod(p, "equal").Requests("cpu", "1"), classes[1]))
		admin.ExpectBound(ctx, low, equal)
		ext.set(func(ext *extenderServer) { ext.preempt = victimOnNode(n, equal) })
		high := createPod(ctx, withPriorityClass(env.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.PodScheduled(ctx, high)).Should(ContainSubstring(
			`extender "rack": preempt: the answer names a victim whose priority is not lower than the pod's`))
		Expect(admin.NominatedNode(ctx, high)(Default)).To(BeEmpty())
		Expect(disruptionTarget(ctx, low)(Default)).To(BeEmpty())
		Expect(disruptionTarget(ctx, equal)(Default)).To(BeEmpty())

		By("it chooses a pod of lower priority")
		ext.set(func(ext *extenderServer) { ext.preempt = victimOnNode(n, low) })
		n.Status.Allocatable = fixture.Resources("cpu", "2500m", "pods", "110") // the event requeues the pod, and the pod still does not fit
		Expect(admin.Status().Update(ctx, n)).To(Succeed())
		Eventually(admin.NominatedNode(ctx, high)).Should(Equal(n.Name))
		Eventually(disruptionTarget(ctx, low)).ShouldNot(BeEmpty())
	})

	It("has no pod evicted when it fails, unless failurePolicy is Ignore", minute, func(ctx SpecContext) {
		ext, env, classes := newExtenderServer(), newTestEnv(ctx), createPriorityClasses(ctx, 2, v1.PreemptLowerPriority)
		strict, lax := createProfile(ctx, neverFlush, useExtender(ext, preemptVerb)), createProfile(ctx, neverFlush, useExtender(ext, preemptVerb, ignoreFailures))
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		low := createPod(ctx, withPriorityClass(env.pod(strict, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		pending := createPod(ctx, withPriorityClass(env.pod(strict, "pending").Requests("cpu", "1"), classes[1]))
		Eventually(admin.PodScheduled(ctx, pending)).Should(ContainSubstring(`extender "rack": preempt: status 500, want 200`))
		Expect(disruptionTarget(ctx, low)(Default)).To(BeEmpty())
		bound := createPod(ctx, withPriorityClass(env.pod(lax, "bound").Requests("cpu", "1"), classes[1]))
		Eventually(admin.NominatedNode(ctx, bound)).Should(Equal(low.Spec.NodeName))
		Eventually(disruptionTarget(ctx, low)).ShouldNot(BeEmpty())
	})
})

var _ = Describe("A node that an extender rejects as unresolvable", Ordered, ContinueOnFailure, func() {
	runWithExtenders()

	It("is no candidate for preemption, and another node is", minute, func(ctx SpecContext) {
		ext, env, classes := newExtenderServer(), newTestEnv(ctx), createPriorityClasses(ctx, 2, v1.PreemptLowerPriority)
		p := createProfile(ctx, neverFlush, useExtender(ext, filterVerb))
		n := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		ext.set(func(ext *extenderServer) { ext.filter = func(string) (bool, string, bool) { return true, "", true } })
		low := createPod(ctx, withPriorityClass(env.pod(p, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		ext.set(func(ext *extenderServer) {
			ext.filter = func(string) (bool, string, bool) { return false, "the rack is locked", false }
		})
		high := createPod(ctx, withPriorityClass(env.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.PodScheduled(ctx, high)).Should(HaveSuffix(
			"0/1 nodes are available: 1 the rack is locked. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."))

		full := createNode(ctx, env.node("full").Capacity("cpu", "1"))
		other := createPod(ctx, withPriorityClass(env.pod(createProfile(ctx, neverFlush), "other").NodeSelector(v1.LabelHostname, full.Name).Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, other)
		Eventually(admin.NominatedNode(ctx, high)).Should(Equal(full.Name))
		Eventually(disruptionTarget(ctx, other)).ShouldNot(BeEmpty())
		Expect(disruptionTarget(ctx, low)(Default)).To(BeEmpty(), "%s keeps its pods", n.Name)
	})
})
