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
	// slots are the places on the only node, crowd the pods that want one.
	slots, crowd = 3, 6
	// rebinds is how often Berth sends a Binding again before it gives up.
	rebinds = 5
)

// What becomes of pods whose Bindings go wrong between Berth and the API
// server: a proxy stands there, and the API server is the real one.
var _ = Describe("A Binding that", Ordered, func() {
	var proxy *faultproxy.Proxy

	BeforeAll(func(ctx SpecContext) {
		stopManager()
		cfg := accountConfig(ctx)
		Expect(cfg.Timeout).To(BeZero(), "Berth waits for an answer as long as it takes: how long a Binding is held up makes no difference")
		var err error
		proxy, err = faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		berth = runManager(cfg, nil, suiteOptions(manager.WithWriteConfig(proxy.Config(cfg)))...)
	}, NodeTimeout(patience))
	AfterAll(func(ctx SpecContext) {
		stopManager()
		proxy.Stop()
		berth = startManager(ctx)
	}, NodeTimeout(patience))

	DescribeTable("goes wrong once for each pod is made good at once: the pod is bound once, and no attempt failed",
		func(ctx SpecContext, fault faultproxy.Fault, rebound gomegatypes.GomegaMatcher) {
			r := aRush(ctx, proxy, func(b faultproxy.Binding) *faultproxy.Fault {
				if b.Try > 1 {
					return nil
				}
				return &fault
			})
			r.settles(ctx)
			Expect(r.totals().Errors).To(BeZero(), "failed attempts")
			Expect(r.rebinds()).To(rebound, "berth_rebinds_total")
			for _, pod := range r.bound(ctx) {
				Expect(recordIn(pod).Attempts).To(Equal(1), pod.Name)
			}
		},
		Entry("because it is refused with 409 for no reason", minute,
			faultproxy.Fault{Answer: faultproxy.Status(http.StatusConflict, metav1.StatusReasonConflict, 0)}, BeEquivalentTo(slots)),
		Entry("because it is refused with 429 and Retry-After, which the client heeds itself", minute,
			faultproxy.Fault{Answer: faultproxy.Status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1)}, BeEquivalentTo(0)),
		Entry("because it is answered 500 and does not count", minute,
			faultproxy.Fault{Answer: faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)}, BeEquivalentTo(slots)),
		Entry("because it is answered 500 and counts", minute,
			faultproxy.Fault{Commits: true, Answer: faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)}, BeEquivalentTo(0)),
		Entry("because the connection is cut before it counts", minute,
			faultproxy.Fault{Answer: faultproxy.Cut}, BeNumerically(">=", slots)),
		// What is cut with it may have counted or not.
		Entry("because the connection is cut after it counted", minute,
			faultproxy.Fault{Commits: true, Answer: faultproxy.Cut}, BeNumerically("<", slots)),
	)

	DescribeTable("is held up for a minute, or for ever, keeps its pod's room all the while",
		func(ctx SpecContext, fault func(released <-chan struct{}) faultproxy.Fault, counts bool) {
			released := make(chan struct{})
			r := aRush(ctx, proxy, func(faultproxy.Binding) *faultproxy.Fault { return ptr.To(fault(released)) })
			// Nothing of Berth's measures how long a Binding takes, and its client
			// has no time-out: between here and the release it makes no difference
			// whether a second goes by or a minute.
			Eventually(proxy.Bindings).Should(And(HaveLen(slots), HaveEach(HaveField("Held", true))))
			held := map[string]bool{}
			for _, b := range proxy.Bindings() {
				held[b.Pod] = true
			}
			for _, pod := range r.pods {
				if held[pod.Name] {
					Expect(admin.Place(ctx, pod)(NewWithT(GinkgoTB())) != "").To(Equal(counts), pod.Name)
					Expect(berth.Scheduler().Components().Cache.IsAssigned(pod.UID)).To(BeTrue(), "%s counts on its node", pod.Name)
				} else {
					expectHeld(ctx, v1.PodReasonUnschedulable, pod)
				}
			}
			Expect(proxy.Bindings()).To(HaveLen(slots), "nobody is bound instead, and nothing is sent twice")

			close(released)
			r.settles(ctx)
			Expect(r.totals().Errors).To(BeZero(), "failed attempts")
			Expect(r.rebinds()).To(BeZero(), "berth_rebinds_total")
		},
		Entry("on its way there", minute, func(released <-chan struct{}) faultproxy.Fault {
			return faultproxy.Fault{Hold: released, Commits: true}
		}, false),
		Entry("on its way back", minute, func(released <-chan struct{}) faultproxy.Fault {
			return faultproxy.Fault{Commits: true, HoldAnswer: released}
		}, true),
	)

	It("arrives after another has bound its pod is refused", minute, func(ctx SpecContext) {
		released := make(chan struct{})
		r := aRush(ctx, proxy, func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Try > 1 {
				return nil
			}
			return &faultproxy.Fault{Late: released, Answer: faultproxy.Cut}
		})
		r.settles(ctx)
		close(released)
		r.latecomersAreRefused()
		r.settles(ctx)
		Expect(r.totals().Errors).To(BeZero(), "failed attempts")
	})

	It("arrives after its pod was given up is refused, and the pod's place may be another's", minute, func(ctx SpecContext) {
		released := make(chan struct{})
		r := aRush(ctx, proxy, func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Try > rebinds+1 {
				return nil
			}
			return &faultproxy.Fault{Late: released, Answer: faultproxy.Status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, 0)}
		})
		r.settles(ctx)
		Expect(r.totals().Errors).To(BeNumerically(">=", slots), "each pod that was given up failed, and was told so")
		close(released)
		r.latecomersAreRefused()
		r.settles(ctx)
	})
})

// rush is a crowd of pods that want the few slots of the only node.
type rush struct {
	proxy   *faultproxy.Proxy
	profile *v1alpha1.SchedulingProfile
	pods    []*v1.Pod
	seen    *witness
	// before is what berth_rebinds_total was.
	before float64
}

func aRush(ctx context.Context, proxy *faultproxy.Proxy, decide func(faultproxy.Binding) *faultproxy.Fault) *rush {
	GinkgoHelper()
	y, p := aYard(ctx), aProfile(ctx, neverFlushing)
	expectReady(ctx, p)
	r := &rush{proxy: proxy, profile: p, seen: watching(ctx, y), before: rebindsTotal()}
	proxy.Do(decide)
	DeferCleanup(func() { proxy.Do(nil) })
	aNode(ctx, y.node("n").Capacity("pods", fmt.Sprint(slots)))
	for i := range crowd {
		r.pods = append(r.pods, aPod(ctx, y.pod(p, fmt.Sprint("p", i))))
	}
	return r
}

// settles waits until as many pods are bound as there are slots and the others
// are refused, and holds what the API server showed since the beginning, and
// Berth's books, to what must be true.
func (r *rush) settles(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		queue := waiting(r.profile)()
		g.Expect(queue).To(Equal(decision.QueueCounts{Unschedulable: crowd - slots}))
		_, assumed := berth.Scheduler().Components().Cache.Sizes()
		g.Expect(assumed).To(BeZero(), "assumed pods")
		g.Expect(r.totals().Bound).To(BeEquivalentTo(slots), "totals.bound")
	}).Should(Succeed())
	Expect(r.bound(ctx)).To(HaveLen(slots))
	for _, pod := range r.pods {
		bindings := 0
		for i, version := range r.seen.versions(pod)() {
			if version.Spec.NodeName != "" && (i == 0 || r.seen.versions(pod)()[i-1].Spec.NodeName == "") {
				bindings++
			}
		}
		Expect(bindings).To(BeNumerically("<=", 1), "times that %s got a node", pod.Name)
		counted := 0
		for _, b := range r.proxy.Bindings() {
			if b.Pod == pod.Name && b.Code == http.StatusCreated {
				counted++
			}
		}
		if pod.Spec.NodeName == "" {
			Expect(counted).To(BeZero(), "Bindings of %s that counted", pod.Name)
			expectHeld(ctx, v1.PodReasonUnschedulable, pod)
		} else {
			Expect(counted).To(Equal(1), "Bindings of %s that counted", pod.Name)
		}
	}
}

// bound are the pods that are bound now.
func (r *rush) bound(ctx context.Context) (pods []*v1.Pod) {
	GinkgoHelper()
	for _, pod := range r.pods {
		if admin.Place(ctx, pod)(NewWithT(GinkgoTB())) != "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// latecomersAreRefused waits until the Bindings that were held back have
// arrived, and have been refused.
func (r *rush) latecomersAreRefused() {
	GinkgoHelper()
	Eventually(r.proxy.Bindings).Should(HaveEach(HaveField("Code", BeElementOf(http.StatusCreated, http.StatusConflict))))
}

func (r *rush) totals() decision.Totals {
	page, _ := berth.Ledger().History(r.profile.Name, 0)
	return page.Totals
}

func (r *rush) rebinds() float64 { return rebindsTotal() - r.before }

// rebindsTotal reads berth_rebinds_total.
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
	Fail("there is no berth_rebinds_total")
	return 0
}
