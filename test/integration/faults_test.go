package integration

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/faultproxy"
)

const (
	// slots is the number of pods that the only node takes, podCount the number of pods.
	slots, podCount = 3, 6
	// maxRebinds is how often Berth repeats a Binding.
	maxRebinds = 5
)

// A proxy between Berth and the real API server makes Bindings fail.
var _ = Describe("A Binding that", Ordered, func() {
	var proxy *faultproxy.Proxy

	BeforeAll(func(ctx SpecContext) {
		stopManager()
		cfg := accountConfig(ctx)
		Expect(cfg.Timeout).To(BeZero(), "Berth has no timeout for an answer: how long a Binding is delayed makes no difference")
		var err error
		proxy, err = faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		berth = runManager(cfg, nil, suiteOptions(manager.WithWriteConfig(proxy.Config(cfg)))...)
	}, managerTimeout)
	AfterAll(func(ctx SpecContext) {
		stopManager()
		proxy.Stop()
		berth = startManager(ctx)
	}, managerTimeout)

	DescribeTable("fails once for each pod is repeated at once: the pod is bound once, in the first attempt",
		func(ctx SpecContext, fault faultproxy.Fault, rebound gomegatypes.GomegaMatcher) {
			test := newBindingTest(ctx, proxy, func(b faultproxy.Binding) *faultproxy.Fault {
				if b.Try > 1 {
					return nil
				}
				return &fault
			})
			test.expectSettled(ctx)
			Expect(test.totals().Errors).To(BeZero(), "failed attempts")
			Expect(test.rebinds()).To(rebound, "berth_rebinds_total")
			for _, pod := range test.boundPods(ctx) {
				Expect(readRecord(pod).Attempts).To(Equal(1), pod.Name)
			}
		},
		Entry("with 409 for no reason", minute,
			faultproxy.Fault{Answer: faultproxy.Status(http.StatusConflict, metav1.StatusReasonConflict, 0)}, BeEquivalentTo(slots)),
		Entry("with 429 and Retry-After, which the client obeys", minute,
			faultproxy.Fault{Answer: faultproxy.Status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1)}, BeEquivalentTo(0)),
		Entry("with 500, before it takes effect", minute,
			faultproxy.Fault{Answer: faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)}, BeEquivalentTo(slots)),
		Entry("with 500, after it took effect", minute,
			faultproxy.Fault{Commits: true, Answer: faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)}, BeEquivalentTo(0)),
		Entry("with a closed connection, before it takes effect", minute,
			faultproxy.Fault{Answer: faultproxy.Cut}, BeNumerically(">=", slots)),
		// Each is closed after the Binding of one pod took effect, and breaks those of the others that
		// have not yet at most.
		Entry("with a closed connection, after it took effect", minute,
			faultproxy.Fault{Commits: true, Answer: faultproxy.Cut}, BeNumerically("<=", slots*(slots-1)/2)),
	)

	DescribeTable("is delayed, by a minute or for ever, keeps its pod assumed",
		func(ctx SpecContext, fault func(released <-chan struct{}) faultproxy.Fault, counts bool) {
			released := make(chan struct{})
			test := newBindingTest(ctx, proxy, func(faultproxy.Binding) *faultproxy.Fault { return ptr.To(fault(released)) })
			// Berth does not measure how long a Binding takes, and its client has no
			// timeout: whether a second or a minute passes before the release makes no
			// difference.
			Eventually(proxy.Bindings).Should(And(HaveLen(slots), HaveEach(HaveField("Delayed", true))))
			held := map[string]bool{}
			for _, b := range proxy.Bindings() {
				held[b.Pod] = true
			}
			for _, pod := range test.pods {
				if held[pod.Name] {
					Expect(admin.NodeName(ctx, pod)(NewWithT(GinkgoTB())) != "").To(Equal(counts), pod.Name)
					Expect(berth.Scheduler().Components().Cache.IsAssigned(pod.UID)).To(BeTrue(), "%s is assumed on its node", pod.Name)
				} else {
					expectReason(ctx, v1.PodReasonUnschedulable, pod)
				}
			}
			Expect(proxy.Bindings()).To(HaveLen(slots), "no other pod is bound, and no Binding is sent twice")

			close(released)
			test.expectSettled(ctx)
			Expect(test.totals().Errors).To(BeZero(), "failed attempts")
			Expect(test.rebinds()).To(BeZero(), "berth_rebinds_total")
		},
		Entry("before it reaches the API server", minute, func(released <-chan struct{}) faultproxy.Fault {
			return faultproxy.Fault{Hold: released, Commits: true}
		}, false),
		Entry("in its answer", minute, func(released <-chan struct{}) faultproxy.Fault {
			return faultproxy.Fault{Commits: true, HoldAnswer: released}
		}, true),
	)

	It("arrives after another Binding of its pod is rejected", minute, func(ctx SpecContext) {
		released := make(chan struct{})
		test := newBindingTest(ctx, proxy, func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Try > 1 {
				return nil
			}
			return &faultproxy.Fault{Late: released, Answer: faultproxy.Cut}
		})
		test.expectSettled(ctx)
		close(released)
		test.expectLateBindingsRefused()
		test.expectSettled(ctx)
		Expect(test.totals().Errors).To(BeZero(), "failed attempts")
	})

	It("arrives after Berth gave it up is rejected, and another pod may take the room", minute, func(ctx SpecContext) {
		released := make(chan struct{})
		test := newBindingTest(ctx, proxy, func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Try > maxRebinds+1 {
				return nil
			}
			return &faultproxy.Fault{Late: released, Answer: faultproxy.Status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, 0)}
		})
		test.expectSettled(ctx)
		Expect(test.totals().Errors).To(BeNumerically(">=", slots), "each pod whose Binding was given up has a failed attempt")
		close(released)
		test.expectLateBindingsRefused()
		test.expectSettled(ctx)
	})
})

// bindingTest has podCount pods for the few slots of the only node.
type bindingTest struct {
	proxy   *faultproxy.Proxy
	profile *v1alpha1.SchedulingProfile
	pods    []*v1.Pod
	watch   *podWatch
	// rebindsBefore is the value of berth_rebinds_total before the test.
	rebindsBefore float64
}

func newBindingTest(ctx context.Context, proxy *faultproxy.Proxy, decide func(faultproxy.Binding) *faultproxy.Fault) *bindingTest {
	GinkgoHelper()
	env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
	expectReady(ctx, p)
	test := &bindingTest{proxy: proxy, profile: p, watch: watchPods(ctx, env), rebindsBefore: rebindsTotal()}
	proxy.SetFaults(decide)
	DeferCleanup(func() { proxy.SetFaults(nil) })
	createNode(ctx, env.node("n").Capacity("pods", fmt.Sprint(slots)))
	for i := range podCount {
		test.pods = append(test.pods, createPod(ctx, env.pod(p, fmt.Sprint("p", i))))
	}
	return test
}

// expectSettled waits until as many pods are bound as there are slots and the others are
// unschedulable. Then it checks all versions of the pods and all Bindings.
func (test *bindingTest) expectSettled(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		queue := queueCounts(test.profile)()
		g.Expect(queue).To(Equal(decision.QueueCounts{Unschedulable: podCount - slots}))
		_, assumed := berth.Scheduler().Components().Cache.Sizes()
		g.Expect(assumed).To(BeZero(), "assumed pods")
		g.Expect(test.totals().Bound).To(BeEquivalentTo(slots), "totals.bound")
		g.Expect(test.successful()).To(HaveLen(slots), "pods of the successful Bindings, which the proxy counts after their answers")
	}).Should(Succeed())
	Expect(test.boundPods(ctx)).To(HaveLen(slots))
	for _, pod := range test.pods {
		bindings := 0
		for i, version := range test.watch.versions(pod)() {
			if version.Spec.NodeName != "" && (i == 0 || test.watch.versions(pod)()[i-1].Spec.NodeName == "") {
				bindings++
			}
		}
		Expect(bindings).To(BeNumerically("<=", 1), "how often %s got a node", pod.Name)
		counted := 0
		for _, name := range test.successful() {
			if name == pod.Name {
				counted++
			}
		}
		if pod.Spec.NodeName == "" {
			Expect(counted).To(BeZero(), "successful Bindings of %s", pod.Name)
			expectReason(ctx, v1.PodReasonUnschedulable, pod)
		} else {
			Expect(counted).To(Equal(1), "successful Bindings of %s", pod.Name)
		}
	}
}

// successful returns the pod of each Binding that the API server accepted.
func (test *bindingTest) successful() (pods []string) {
	for _, b := range test.proxy.Bindings() {
		if b.Code == http.StatusCreated {
			pods = append(pods, b.Pod)
		}
	}
	return pods
}

// boundPods returns the pods that are bound now.
func (test *bindingTest) boundPods(ctx context.Context) (pods []*v1.Pod) {
	GinkgoHelper()
	for _, pod := range test.pods {
		if admin.NodeName(ctx, pod)(NewWithT(GinkgoTB())) != "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// expectLateBindingsRefused waits until the delayed Bindings have arrived and were
// rejected.
func (test *bindingTest) expectLateBindingsRefused() {
	GinkgoHelper()
	Eventually(test.proxy.Bindings).Should(HaveEach(HaveField("Code", BeElementOf(http.StatusCreated, http.StatusConflict))))
}

func (test *bindingTest) totals() decision.Totals {
	page, _ := berth.Ledger().History(test.profile.Name, 0)
	return page.Totals
}

func (test *bindingTest) rebinds() float64 { return rebindsTotal() - test.rebindsBefore }

// rebindsTotal returns the value of berth_rebinds_total.
func rebindsTotal() float64 {
	GinkgoHelper()
	metrics := prometheus.NewRegistry()
	for _, collector := range berth.Scheduler().Metrics() {
		Expect(metrics.Register(collector)).To(Succeed())
	}
	families, err := metrics.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "berth_rebinds_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	Fail("there is no metric berth_rebinds_total")
	return 0
}
