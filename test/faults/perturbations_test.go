package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// perturbed is a manager whose view of the API server a proxy perturbs.
type perturbed struct {
	*testEnv
	proxy   *faultproxy.Proxy
	token   string
	replica *replica
	checker *checker.Checker
}

// startPerturbed starts the manager until the container ends.
func startPerturbed(ctx context.Context) *perturbed {
	GinkgoHelper()
	p := &perturbed{testEnv: env}
	config := env.accountConfig(ctx)
	var err error
	p.proxy, err = faultproxy.Start(config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.proxy.Stop)
	p.token = env.config.BearerToken
	p.checker = env.startChecker(ctx, nil)
	p.replica = env.startReplica(ctx, launch{kubeconfig: env.kubeconfig("perturbed", p.proxy.Config(config)), flags: shortLease})
	beside := p.scene(besideName)
	beside.node(ctx)
	beside.profile(ctx)
	return p
}

// besideName is that of a scene in which nothing changes.
const besideName = "beside"

func (p *perturbed) scene(name string) scene { return scene{p.testEnv, name} }

// perturbations are what the manager sees of a change of a kind.
var perturbations = []struct {
	name, sentence string
	// see makes the change, as the manager sees it.
	see func(ctx context.Context, p *perturbed, k kind, s scene)
}{
	{"missed", "what was between is not seen: the watch is held, and has expired when it resumes", missed},
	{"dropped-1", "the first event is lost with its watch", func(ctx context.Context, p *perturbed, k kind, s scene) { dropped(ctx, p, k, s, 1) }},
	{"dropped-2", "the second event is lost with its watch", func(ctx context.Context, p *perturbed, k kind, s scene) { dropped(ctx, p, k, s, 2) }},
	{"late", "later events of all other kinds come first", late},
	{"stale", "a manager that starts lists what was there before, and learns later", stale},
}

func missed(ctx context.Context, p *perturbed, k kind, s scene) {
	release := p.proxy.HoldWatches(k.resource)
	defer release()
	k.change(ctx, s)
	p.proxy.ExpireWatches(k.resource)
}

func dropped(ctx context.Context, p *perturbed, k kind, s scene, n int32) {
	GinkgoHelper()
	lost := make(chan struct{})
	var seen atomic.Int32 // several watches of a kind may each have the event
	p.proxy.SetEventFaults(func(e faultproxy.Event) faultproxy.EventFault {
		if e.Resource != k.resource || e.Type == watch.Bookmark {
			return faultproxy.Pass
		}
		if seen.Add(1) != n {
			return faultproxy.Pass
		}
		close(lost)
		return faultproxy.DropAndCut
	})
	defer p.proxy.SetEventFaults(nil)
	k.change(ctx, s)
	Eventually(lost).Should(BeClosed(), "no event was lost")
}

func late(ctx context.Context, p *perturbed, k kind, s scene) {
	GinkgoHelper()
	release := p.proxy.HoldWatches(k.resource)
	defer release()
	k.change(ctx, s)
	beside := scene{p.testEnv, besideName}
	if k.resource == "pods" {
		later := beside.create(ctx, fixture.Node(s.name+"-later").Capacity("cpu", "1", "memory", "1Gi", "pods", "1").Obj())
		Eventually(p.replica.nodeOrder).WithArguments(ctx, p.debugger).Should(ContainSubstring(later.GetName()))
		return
	}
	overtakes := beside.create(ctx, beside.pod("overtakes-"+s.name).Valid()).(*corev1.Pod)
	p.admin.ExpectBound(ctx, overtakes)
}

func stale(ctx context.Context, p *perturbed, k kind, s scene) {
	GinkgoHelper()
	current, err := p.proxy.StaleLists(ctx, k.path, p.token)
	Expect(err).NotTo(HaveOccurred())
	defer current()
	release := p.proxy.HoldWatches(k.resource)
	defer release()
	k.change(ctx, s)
	p.restart(ctx)
}

// restart ends the manager, and waits until the next one is ready.
func (p *perturbed) restart(ctx context.Context) {
	GinkgoHelper()
	before := p.replica.restarts()
	Expect(p.replica.manager().Signal(syscall.SIGTERM)).To(Succeed())
	Eventually(p.replica.restarts).Should(BeNumerically(">", before))
	Eventually(func() error { return p.replica.manager().Ready(ctx) }).Should(Succeed(), p.replica.logs)
}

// short are the kinds of the short list.
var short = map[string]bool{"nodes missed": true, "schedulingprofiles missed": true}

var _ = Describe("A pod that waits for a change", Ordered, ContinueOnFailure, func() {
	var p *perturbed

	BeforeAll(func(ctx SpecContext) { p = startPerturbed(ctx) })

	for _, k := range kinds {
		for _, see := range perturbations {
			It(fmt.Sprintf("of %s is bound, although %s", k.resource, see.sentence), limit, func(ctx SpecContext) {
				if !short[k.resource+" "+see.name] {
					long()
				}
				s := p.scene(k.resource + "-" + see.name)
				pods := k.wait(ctx, s)
				see.see(ctx, p, k, s)
				p.admin.ExpectBound(ctx, pods...)
				Expect(p.replica.crashes()).To(BeEmpty())
				Eventually(p.replica.expectSameCache).WithArguments(ctx, p.debugger).Should(Succeed())
			})
		}
	}

	It("does not see an older generation reported than before, when the next leader lists older profiles", limit, func(ctx SpecContext) {
		s := p.scene("older")
		s.node(ctx)
		s.profile(ctx, onlyOn("elsewhere"))
		pods := s.waits(ctx, s.pod("waits"))
		current, err := p.proxy.StaleLists(ctx, ours+"schedulingprofiles", p.token)
		Expect(err).NotTo(HaveOccurred())
		defer current()
		next := s.profileObject(onlyOn(s.name)).Spec
		Expect(operator.ApplyProfile(ctx, p.cp, s.name, next)).To(Succeed())
		reported, err := operator.UntilProgrammed(ctx, p.cp, s.name)
		Expect(err).NotTo(HaveOccurred())
		p.admin.ExpectBound(ctx, pods...)

		release := p.proxy.HoldWatches("schedulingprofiles")
		defer release()
		p.restart(ctx)
		Eventually(p.replica.leads).Should(BeTrue())
		Consistently(func(g Gomega) {
			now, err := operator.Profile(ctx, p.cp, s.name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Status.ObservedGeneration).To(BeNumerically(">=", reported.Generation))
			g.Expect(now.Status.Programmed).To(HaveValue(HaveField("Generation", BeNumerically(">=", reported.Generation))))
		}).WithTimeout(3 * time.Second).Should(Succeed())
		release()
		Eventually(func(g Gomega) {
			now, err := operator.Profile(ctx, p.cp, s.name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(operator.IsProgrammed(now)).To(BeTrue(), "%+v", now.Status.Conditions)
			g.Expect(now.Status.Programmed.Time.Time).To(BeTemporally(">", reported.Status.Programmed.Time.Time))
		}).Should(Succeed(), "the next leader reports what it runs")
	})

	It("leaves a history without violations", limit, func(ctx SpecContext) {
		Expect(expectNoViolation(ctx, p.checker, ofBinds...).Binds).To(BeNumerically(">", 1))
	})
})
