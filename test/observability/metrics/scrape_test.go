package metrics

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	process "github.com/berthdev/berth/test/support/operator"
)

// waiting is a profile whose pods wait at Permit, and are refused then.
const waiting = `{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: waiting}, spec: {plugins: {permit: {enabled: [{name: Waits}]}}}}`

var _ = Describe("What is told", Ordered, func() {
	var scraped map[string]*dto.MetricFamily

	BeforeAll(func(ctx SpecContext) {
		manager := manages(ctx)
		_, err := cp.Kubectl(ctx, strings.NewReader(waiting), "apply", "--server-side", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		for _, profile := range []string{"berth", "waiting"} {
			_, err := process.UntilProgrammed(ctx, cp, profile)
			Expect(err).NotTo(HaveOccurred())
		}
		By("pods that are bound, refused, preempted and held at Permit")
		var bound []*v1.Pod
		for i := range 12 { // calls of plugins are timed in one attempt of ten
			bound = append(bound, admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/bound-", i)).SchedulerName("berth").Requests("cpu", "500m")))
		}
		for _, pod := range bound {
			admin.ExpectBound(ctx, pod)
		}
		admin.Pod(ctx, fixture.Pod("default/waits").SchedulerName("waiting"))
		admin.Pod(ctx, fixture.Pod("default/large").SchedulerName("berth").Requests("cpu", "64"))
		first := admin.Pod(ctx, fixture.Pod("default/first").SchedulerName("berth").Requests("cpu", "3").Mutate(func(p *v1.Pod) {
			p.Spec.PriorityClassName = "system-cluster-critical"
		}))
		admin.ExpectBound(ctx, first)
		By("pods that go, of which those that wait are told: one hint of ten is timed")
		for _, pod := range bound {
			_ = cp.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
		}

		Eventually(func(g Gomega) {
			status, text, err := manager.Scrape(ctx, reader)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status).To(Equal(200))
			parser := expfmt.NewTextParser(model.UTF8Validation)
			scraped, err = parser.TextToMetricFamilies(bytes.NewReader(text))
			g.Expect(err).NotTo(HaveOccurred())
			for _, rare := range []string{"scheduler_permit_wait_duration_seconds", "scheduler_unschedulable_pods", "scheduler_queueing_hint_execution_duration_seconds"} {
				g.Expect(scraped).To(HaveKey(rare))
			}
		}).Should(Succeed())
	}, NodeTimeout(time.Minute))

	It("is what kube-scheduler tells, but for what docs/metrics.md lists", func() {
		missing := missing()
		for _, want := range upstream {
			got, there := scraped[want.name]
			switch reason, listed := missing[want.name]; {
			case listed && there:
				Fail(want.name + " is listed in docs/metrics.md as missing, and is there")
			case listed:
				Expect(want.stability).To(Equal("ALPHA"), "%s is missing: %s", want.name, reason)
			case !there:
				Fail(want.name + " is neither told nor listed in docs/metrics.md")
			default:
				Expect(strings.ToLower(got.GetType().String())).To(Equal(want.kind), want.name)
				Expect(got.GetHelp()).To(HavePrefix("["+want.stability+"] "), want.name)
				Expect(labelsOf(got)).To(ConsistOf(want.labels), want.name)
			}
			delete(missing, want.name)
		}
		for name := range missing {
			Expect(name).NotTo(HavePrefix("scheduler_"), "kube-scheduler has no such metric, and docs/metrics.md lists it")
		}
	})

	It("is in the reference", func() {
		reference := page("reference", "metrics.md")
		for name, family := range scraped {
			if strings.HasPrefix(name, "berth_") || strings.HasPrefix(name, "scheduler_") {
				Expect(reference).To(ContainSubstring(fmt.Sprintf("| `%s` | %s |", name, strings.ToLower(family.GetType().String()))))
			}
		}
	})

	It("says how the API server answers, who leads and what controllers do", func() {
		for _, name := range []string{
			"rest_client_requests_total", "rest_client_request_duration_seconds", "leader_election_master_status",
			"controller_runtime_reconcile_total", "workqueue_depth", "go_goroutines", "process_cpu_seconds_total",
		} {
			Expect(scraped).To(HaveKey(name))
		}
	})
})

// labelsOf are the names of a family's labels, and no others have any of its
// series.
func labelsOf(f *dto.MetricFamily) (names []string) {
	GinkgoHelper()
	for i, metric := range f.Metric {
		var own []string
		for _, label := range metric.Label {
			own = append(own, label.GetName())
		}
		slices.Sort(own)
		if i == 0 {
			names = own
		}
		Expect(own).To(Equal(names), f.GetName())
	}
	return names
}

// page is a page of docs.
func page(path ...string) string {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(append([]string{root, "docs"}, path...)...))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// missing are the metrics that docs/metrics.md says that Berth has not, and why.
func missing() map[string]string {
	GinkgoHelper()
	_, list, found := strings.Cut(page("metrics.md"), "## What kube-scheduler has and Berth has not\n")
	Expect(found).To(BeTrue())
	list, _, _ = strings.Cut(list, "\n## ")
	all := map[string]string{}
	name := regexp.MustCompile("`([a-z_]+)`")
	for _, row := range strings.Split(list, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
			all[match[1]] = strings.TrimSpace(cells[2])
		}
	}
	return all
}
