package placement

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// kube-scheduler serves otherScheduler, and no scheduler serves unknownScheduler.
const (
	otherScheduler   = "kube"
	unknownScheduler = "unknown"
)

var _ = Describe("Beside a scheduler with another name", func() {
	It("Berth does not write to its pods, counts them, and decides as it does", minute, func(ctx SpecContext) {
		env := newTestEnv()
		env.addNodes(ctx, fixture.Node("a").Capacity("cpu", "2"), fixture.Node("b").Capacity("cpu", "1").Taint("level", "950", v1.TaintEffectNoSchedule))
		requestCPU := func(name string) *fixture.PodBuilder { return fixture.Pod(name).Requests("cpu", "1") }
		foreign := env.createPod(ctx, requestCPU("foreign").SchedulerName(otherScheduler))
		env.expect(ctx, env.createPod(ctx, requestCPU("unnamed")), boundTo("a"))
		env.expect(ctx, env.createPod(ctx, fixture.Pod("named").SchedulerName(defaultProfile)), boundTo("a"))
		expectNotWritten(ctx, foreign)

		why, err := controlplane.NoScheduler(ctx)
		Expect(err).NotTo(HaveOccurred())
		if why != "" {
			Skip(why)
		}
		By("kube-scheduler starts")
		startKubeScheduler(ctx)
		env.expect(ctx, foreign, oneOf("a"))
		env.expect(ctx, env.createPod(ctx, requestCPU("late")), unschedulable("1 Insufficient cpu, 1 "+untoleratedTaint))

		By("both get a pod with a toleration by comparison")
		compared := podComparing("level", gt, "900", v1.TaintEffectNoSchedule).NodeSelector(hostname, "b")
		const both = "1 " + nodeAffinityMismatch + ", 1 " + untoleratedTaint
		env.expect(ctx, env.createPod(ctx, compared), unschedulable(both))
		env.expect(ctx, env.createPod(ctx, compared.Mutate(func(p *v1.Pod) { p.Name = "compared" }).SchedulerName(otherScheduler)), unschedulable(both))
	})
})

// expectNotWritten expects that there was no write to a pod since it was created. It is
// called when later pods are bound.
func expectNotWritten(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	version := pod.ResourceVersion
	Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())
	Expect(pod.ResourceVersion).To(Equal(version), "no write to %s", pod.Name)
}

// startKubeScheduler runs kube-scheduler with the profile otherScheduler.
func startKubeScheduler(ctx context.Context) {
	GinkgoHelper()
	config, err := json.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": cp.Kubeconfig()},
		"leaderElection":   map[string]any{"leaderElect": false},
		"profiles":         []any{map[string]any{"schedulerName": otherScheduler}},
	})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(cp.Dir(), otherScheduler+".json")
	Expect(os.WriteFile(path, config, 0o600)).To(Succeed())
	startComponent(ctx, "kube-scheduler", "--config="+path, "--secure-port=0", "--authentication-tolerate-lookup-failure=true")
}

// startComponent runs a component of the control plane until the spec ends.
func startComponent(ctx context.Context, name string, args ...string) {
	GinkgoHelper()
	binaries, err := controlplane.Assets(ctx)
	Expect(err).NotTo(HaveOccurred())
	path, err := binaries.Path(name)
	Expect(err).NotTo(HaveOccurred())
	process, err := cp.Run(path, args...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(process) })
}

var _ = Describe("Several profiles", func() {
	It("bind the pods that name them, report it in Events, and leave pods of an unknown name alone", minute, func(ctx SpecContext) {
		env := newTestEnv()
		env.addNodes(ctx, fixture.Node("a"))
		unknown := env.createPod(ctx, fixture.Pod("unknown").SchedulerName(unknownScheduler))
		env.expect(ctx, env.createPod(ctx, fixture.Pod("unnamed")), boundTo("a"))
		env.expect(ctx, env.createPod(ctx, fixture.Pod("named").SchedulerName(defaultProfile)), boundTo("a"))
		env.expect(ctx, env.createPod(ctx, fixture.Pod("other").SchedulerName(otherProfile)), boundTo("a"))
		Eventually(bindReporters(ctx, env.pods)).Should(Equal(map[string]string{"unnamed": defaultProfile, "named": defaultProfile, "other": otherProfile}))
		expectNotWritten(ctx, unknown)
	})
})

// bindReporters returns the reporting controller of the Event Scheduled by pod.
func bindReporters(ctx context.Context, of map[string]*v1.Pod) func(g Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace("default"))).To(Succeed())
		said := map[string]string{}
		for _, e := range list.Items {
			if pod := of[e.Regarding.Name]; pod != nil && e.Regarding.UID == pod.UID && e.Reason == "Scheduled" {
				said[pod.Name] += e.ReportingController
			}
		}
		return said
	}
}

// minutes is the timeout of what ends and starts managers: one that was killed keeps its Lease.
const minutes = NodeTimeout(2 * time.Minute)

var _ = Describe("A manager that starts", Ordered, ContinueOnFailure, func() {
	var (
		config *rest.Config
		proxy  *faultproxy.Proxy
	)

	BeforeAll(func(ctx SpecContext) {
		var err error
		config, err = cp.ServiceAccountConfig(ctx, operator.Namespace, operator.Account)
		Expect(err).NotTo(HaveOccurred())
		proxy, err = faultproxy.Start(config)
		Expect(err).NotTo(HaveOccurred())
		stopManager()
	}, minutes)
	AfterAll(func(ctx SpecContext) {
		stopManager()
		proxy.Stop()
		startManager(ctx)
	}, minutes)

	It("counts existing pods, and binds pending ones", minute, func(ctx SpecContext) {
		env := newTestEnv()
		node := fixture.Node("a").Capacity("cpu", "500m", "memory", "500")
		Expect(admin.Create(ctx, node.Obj())).To(Succeed())
		env.nodes++
		for _, name := range []string{"one", "two"} {
			env.createPod(ctx, podWithRequests(name, "200m", "200").On("a").SchedulerName(otherScheduler))
		}
		large := env.createPod(ctx, podWithRequests("large", "200m", "200"))
		small := env.createPod(ctx, podWithRequests("small", "100m", "100"))
		kubeconfig, err := cp.WriteKubeconfig("proxy", proxy.Config(config))
		Expect(err).NotTo(HaveOccurred())
		startManager(ctx, "--kubeconfig="+kubeconfig)
		env.expect(ctx, large, unschedulable("1 Insufficient cpu, 1 Insufficient memory"))
		env.expect(ctx, small, boundTo("a"))
	})

	// From here on the manager reaches the API server through the proxy.
	It("binds a pod by its UID, not by its name", minute, func(ctx SpecContext) {
		env := newTestEnv()
		env.addNodes(ctx, fixture.Node("a"), fixture.Node("b"))
		release := make(chan struct{})
		proxy.SetFaults(func(b faultproxy.Binding) *faultproxy.Fault {
			if b.Pod == "web" && b.Try == 1 {
				return &faultproxy.Fault{Hold: release, Commits: true}
			}
			return nil
		})
		DeferCleanup(func() { proxy.SetFaults(nil) })
		first := env.createPod(ctx, fixture.Pod("web").NodeSelector(hostname, "a"))
		Eventually(proxy.Bindings).Should(ContainElement(HaveField("Delayed", true)))
		admin.Remove(ctx, first)
		second := env.createPod(ctx, fixture.Pod("web").NodeSelector(hostname, "b"))
		close(release)

		env.expect(ctx, second, boundTo("b"))
		Eventually(func() (codes []int) {
			for _, b := range proxy.Bindings() {
				if b.Pod == "web" {
					codes = append(codes, b.Code)
				}
			}
			return codes
		}).Should(Equal([]int{http.StatusConflict, http.StatusCreated}))
	})
})

// Pod mid is nominated while the victim terminates, which takes as long as the spec wants:
// no kubelet runs. Pod low fits beside the victim, and not beside mid.
var _ = Describe("A pod that does not fit beside a nominated pod is bound", func() {
	ranked := func(name, cpu, memory string) *fixture.PodBuilder {
		return podWithRequests(name, cpu, memory).Mutate(func(p *v1.Pod) { p.Spec.PriorityClassName = name })
	}
	setUp := func(ctx context.Context) *testEnv {
		GinkgoHelper()
		env := newTestEnv()
		env.addNodes(ctx, fixture.Node("a").Capacity("cpu", "4", "memory", "32"))
		env.createPod(ctx, fixture.Pod("victim").Requests("cpu", "3").On("a"))
		mid := env.createPod(ctx, ranked("mid", "2", "25"))
		Eventually(admin.NominatedNode(ctx, mid)).Should(Equal("a"))
		env.expect(ctx, mid, unschedulable("1 Insufficient cpu"))
		env.expect(ctx, env.createPod(ctx, fixture.Pod("low").Requests("memory", "20")), unschedulable("1 Insufficient memory"))
		return env
	}

	It("when the nominated pod is deleted", minute, func(ctx SpecContext) {
		env := setUp(ctx)
		admin.Remove(ctx, env.pods["mid"])
		env.expect(ctx, env.pods["low"], boundTo("a"))
	})

	It("when the nominated pod no longer fits because of a pod with a higher priority", minute, func(ctx SpecContext) {
		env := setUp(ctx)
		env.expect(ctx, env.createPod(ctx, ranked("high", "1", "10")), boundTo("a"))
		admin.Remove(ctx, env.pods["victim"])
		env.expect(ctx, env.pods["low"], boundTo("a"))
		env.expect(ctx, env.pods["mid"], unschedulable("1 Insufficient memory"))
		Eventually(admin.NominatedNode(ctx, env.pods["mid"])).Should(BeEmpty())
	})
})
