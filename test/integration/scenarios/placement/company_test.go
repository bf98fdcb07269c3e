package placement

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
)

// theirs is the name that another scheduler serves, nobodys one that none does.
const (
	theirs  = "kube"
	nobodys = "nobody"
)

var _ = Describe("Beside a scheduler of another name", func() {
	It("Berth leaves that one's pods alone, counts them, and decides as it does", minute, func(ctx SpecContext) {
		c := aCluster()
		c.comes(ctx, fixture.Node("a").Capacity("cpu", "2"), fixture.Node("b").Capacity("cpu", "1").Taint("level", "950", v1.TaintEffectNoSchedule))
		asks := func(name string) *fixture.PodBuilder { return fixture.Pod(name).Requests("cpu", "1") }
		their := c.create(ctx, asks("their").SchedulerName(theirs))
		c.expect(ctx, c.create(ctx, asks("unnamed")), on("a"))
		c.expect(ctx, c.create(ctx, fixture.Pod("named").SchedulerName(usual)), on("a"))
		untouched(ctx, their)

		why, err := controlplane.NoScheduler(ctx)
		Expect(err).NotTo(HaveOccurred())
		if why != "" {
			Skip(why)
		}
		By("starting that one, kube-scheduler")
		startKubeScheduler(ctx)
		c.expect(ctx, their, oneOf("a"))
		c.expect(ctx, c.create(ctx, asks("late")), refused("1 Insufficient cpu, 1 "+tainted))

		By("asking both about a toleration by comparison")
		compared := compares("level", above, "900", v1.TaintEffectNoSchedule).NodeSelector(host, "b")
		const both = "1 " + notSelected + ", 1 " + tainted
		c.expect(ctx, c.create(ctx, compared), refused(both))
		c.expect(ctx, c.create(ctx, compared.Mutate(func(p *v1.Pod) { p.Name = "compared" }).SchedulerName(theirs)), refused(both))
	})
})

// untouched holds that nobody has written to a pod since it was created, when
// pods that were created later are bound.
func untouched(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	version := pod.ResourceVersion
	Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())
	Expect(pod.ResourceVersion).To(Equal(version), "nobody writes to %s", pod.Name)
}

// startKubeScheduler runs upstream's scheduler under the name theirs.
func startKubeScheduler(ctx context.Context) {
	GinkgoHelper()
	config, err := json.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": cp.Kubeconfig()},
		"leaderElection":   map[string]any{"leaderElect": false},
		"profiles":         []any{map[string]any{"schedulerName": theirs}},
	})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(cp.Dir(), theirs+".json")
	Expect(os.WriteFile(path, config, 0o600)).To(Succeed())
	start(ctx, "kube-scheduler", "--config="+path, "--secure-port=0", "--authentication-tolerate-lookup-failure=true")
}

// start runs a component of the control plane until the scenario ends.
func start(ctx context.Context, name string, args ...string) {
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
	It("bind the pods that name them, which Events say, and none of an unknown name", minute, func(ctx SpecContext) {
		c := aCluster()
		c.comes(ctx, fixture.Node("a"))
		unknown := c.create(ctx, fixture.Pod("unknown").SchedulerName(nobodys))
		c.expect(ctx, c.create(ctx, fixture.Pod("unnamed")), on("a"))
		c.expect(ctx, c.create(ctx, fixture.Pod("named").SchedulerName(usual)), on("a"))
		c.expect(ctx, c.create(ctx, fixture.Pod("other").SchedulerName(other)), on("a"))
		Eventually(reporters(ctx, c.pods)).Should(Equal(map[string]string{"unnamed": usual, "named": usual, "other": other}))
		untouched(ctx, unknown)
	})
})

// reporters are who said in an Event that they bound a pod, by its name.
func reporters(ctx context.Context, of map[string]*v1.Pod) func(g Gomega) map[string]string {
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
