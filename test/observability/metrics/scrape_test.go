package metrics

import (
	"bytes"
	"context"
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
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	process "github.com/berthdev/berth/test/support/operator"
)

// waiting is a profile whose pods wait on Permit and are rejected at the time-out.
const waiting = `{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: waiting}, spec: {plugins: {multiPoint: {enabled: [{name: GangScheduling}]}, permit: {enabled: [{name: Waits}]}}}}`

var _ = Describe("Metrics", Ordered, func() {
	var scraped map[string]*dto.MetricFamily

	BeforeAll(func(ctx SpecContext) {
		manager := startManager(ctx)
		_, err := cp.Kubectl(ctx, strings.NewReader(waiting), "apply", "--server-side", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		for _, profile := range []string{"berth", "waiting"} {
			_, err := process.UntilProgrammed(ctx, cp, profile)
			Expect(err).NotTo(HaveOccurred())
		}
		By("pods that are bound, refused, preempted and waiting on Permit")
		var bound []*v1.Pod
		for i := range 12 { // one attempt in ten times its plugin calls
			bound = append(bound, admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/bound-", i)).SchedulerName("berth").Requests("cpu", "500m")))
		}
		for _, pod := range bound {
			admin.ExpectBound(ctx, pod)
		}
		admin.Pod(ctx, fixture.Pod("default/waits").SchedulerName("waiting").Mutate(func(p *v1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: "alone", v1alpha1.AnnotationPodGroupMinCount: "1"}
		}))
		admin.Pod(ctx, fixture.Pod("default/large").SchedulerName("berth").Requests("cpu", "64"))
		first := admin.Pod(ctx, fixture.Pod("default/first").SchedulerName("berth").Requests("cpu", "3").Mutate(func(p *v1.Pod) {
			p.Spec.PriorityClassName = "system-cluster-critical"
		}))
		admin.ExpectBound(ctx, first)
		By("a pod that waits for the binding conditions of a device")
		bindDevice(ctx)
		By("deleted pods, whose events call queueing hints: one hint in ten is timed")
		for _, pod := range bound {
			_ = cp.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
		}

		deleted := 0
		Eventually(func(g Gomega) {
			// Events that arrive while the pod is active call no hint, so more follow.
			deleted++
			again := admin.Pod(ctx, fixture.Pod(fmt.Sprint("default/deleted-", deleted)).SchedulerName("berth").Requests("cpu", "100m"))
			admin.ExpectBound(ctx, again)
			admin.Remove(ctx, again)
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
	}, NodeTimeout(3*time.Minute))

	It("are those of kube-scheduler, but for those that docs/metrics.md lists", func() {
		missing := missing()
		for _, want := range upstream {
			got, there := scraped[want.name]
			switch reason, listed := missing[want.name]; {
			case listed && there:
				Fail(want.name + " is listed in docs/metrics.md as missing, and exists")
			case listed:
				Expect(want.stability).To(Equal("ALPHA"), "%s is missing: %s", want.name, reason)
			case !there:
				Fail(want.name + " is missing, and not listed in docs/metrics.md")
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

	It("are in the reference", func() {
		reference := page("reference", "metrics.md")
		for name, family := range scraped {
			if strings.HasPrefix(name, "berth_") || strings.HasPrefix(name, "scheduler_") {
				Expect(reference).To(ContainSubstring(fmt.Sprintf("| `%s` | %s |", name, strings.ToLower(family.GetType().String()))))
			}
		}
	})

	It("include requests to the API server, leader election and controllers", func() {
		for _, name := range []string{
			"rest_client_requests_total", "rest_client_request_duration_seconds", "leader_election_master_status",
			"controller_runtime_reconcile_total", "workqueue_depth", "go_goroutines", "process_cpu_seconds_total",
		} {
			Expect(scraped).To(HaveKey(name))
		}
	})
})

// bindDevice creates a pod with a device as an extended resource, and makes the device ready
// once it is allocated.
func bindDevice(ctx context.Context) {
	GinkgoHelper()
	class := fixture.DeviceClass("cards").ExtendedResource("example.com/card").Obj()
	slice := fixture.ResourceSlice("", "card.example.com").Device("d0", nil).BindingConditions("ready", "failed").Obj()
	for _, object := range []client.Object{class, slice} {
		object.SetUID("")
		object.SetResourceVersion("")
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
	pod := admin.Pod(ctx, fixture.Pod("default/device").SchedulerName("berth").Mutate(func(p *v1.Pod) {
		one := fixture.Resources("example.com/card", "1")
		p.Spec.Containers = []v1.Container{{Name: "c", Image: "none", Resources: v1.ResourceRequirements{Requests: one, Limits: one}}}
	}))
	Eventually(func(g Gomega) {
		var claims resourceapi.ResourceClaimList
		g.Expect(admin.List(ctx, &claims)).To(Succeed())
		g.Expect(claims.Items).To(ConsistOf(HaveField("Status.Allocation", Not(BeNil()))))
		ready := metav1.Condition{Type: "ready", Status: metav1.ConditionTrue, Reason: "Attached", LastTransitionTime: metav1.Now()}
		claims.Items[0].Status.Devices = []resourceapi.AllocatedDeviceStatus{{
			Driver: "card.example.com", Pool: "all", Device: "d0", Conditions: []metav1.Condition{ready},
		}}
		g.Expect(admin.Status().Update(ctx, &claims.Items[0])).To(Succeed())
	}).Should(Succeed())
	admin.ExpectBound(ctx, pod)
}

// labelsOf returns the label names of a family, which all its series must have.
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

// page reads a page of docs.
func page(path ...string) string {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(append([]string{root, "docs"}, path...)...))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// missing returns the metrics that docs/metrics.md lists as missing, with the reasons.
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

// family is a metric of kube-scheduler 1.37.1.
type family struct {
	name, kind, stability string
	labels                []string
}

// upstream are the metrics that kube-scheduler registers, with all feature gates but those of
// pod groups, and of these the ones of scheduling them. Source: k8s.io/kubernetes/pkg/scheduler/metrics.
var upstream = []family{
	{"scheduler_schedule_attempts_total", "counter", "STABLE", []string{"result", "profile"}},
	{"scheduler_scheduling_attempt_duration_seconds", "histogram", "STABLE", []string{"result", "profile"}},
	{"scheduler_preemption_victims", "histogram", "STABLE", nil},
	{"scheduler_preemption_attempts_total", "counter", "STABLE", nil},
	{"scheduler_pending_pods", "gauge", "STABLE", []string{"queue"}},
	{"scheduler_pod_scheduling_attempts", "histogram", "STABLE", nil},
	{"scheduler_framework_extension_point_duration_seconds", "histogram", "STABLE", []string{"extension_point", "status", "profile"}},
	{"scheduler_queue_incoming_pods_total", "counter", "STABLE", []string{"queue", "event"}},

	{"scheduler_scheduling_algorithm_duration_seconds", "histogram", "BETA", nil},
	{"scheduler_goroutines", "gauge", "BETA", []string{"operation"}},
	{"scheduler_pod_scheduling_sli_duration_seconds", "histogram", "BETA", []string{"attempts"}},
	{"scheduler_plugin_execution_duration_seconds", "histogram", "BETA", []string{"plugin", "extension_point", "status"}},
	{"scheduler_permit_wait_duration_seconds", "histogram", "BETA", []string{"result"}},
	{"scheduler_unschedulable_pods", "gauge", "BETA", []string{"plugin", "profile"}},
	{"scheduler_plugin_evaluation_total", "counter", "BETA", []string{"plugin", "extension_point", "profile"}},

	{"scheduler_event_handling_duration_seconds", "histogram", "ALPHA", []string{"event"}},
	{"scheduler_queued_entities", "gauge", "ALPHA", []string{"queue", "type"}},
	{"scheduler_inflight_events", "gauge", "ALPHA", []string{"event"}},
	{"scheduler_batch_attempts_total", "counter", "ALPHA", []string{"profile", "result"}},
	{"scheduler_batch_cache_flushed_total", "counter", "ALPHA", []string{"profile", "reason"}},
	{"scheduler_batch_rescore_attempts_total", "counter", "ALPHA", []string{"profile"}},
	{"scheduler_batch_rescore_duration_seconds", "histogram", "ALPHA", []string{"profile"}},
	{"scheduler_get_node_hint_duration_seconds", "histogram", "ALPHA", []string{"hinted", "profile"}},
	{"scheduler_store_schedule_results_duration_seconds", "histogram", "ALPHA", []string{"profile"}},
	{"scheduler_pod_scheduled_after_flush_total", "counter", "ALPHA", nil},
	{"scheduler_pre_queueing_hint_evaluations_total", "counter", "ALPHA", []string{"plugin", "result"}},
	{"scheduler_queueing_hint_execution_duration_seconds", "histogram", "ALPHA", []string{"plugin", "event", "hint"}},
	{"scheduler_queue_incoming_entities_total", "counter", "ALPHA", []string{"queue", "event", "type"}},
	{"scheduler_cache_size", "gauge", "ALPHA", []string{"type"}},
	{"scheduler_preemption_goroutines_duration_seconds", "histogram", "ALPHA", []string{"result"}},
	{"scheduler_preemption_goroutines_execution_total", "counter", "ALPHA", []string{"result"}},
	{"scheduler_workload_preemption_attempts_total", "counter", "ALPHA", []string{"result"}},
	{"scheduler_workload_preemption_victims", "histogram", "ALPHA", nil},
	{"scheduler_preemption_workload_disruptions", "histogram", "ALPHA", []string{"preemptor"}},
	{"scheduler_preemption_evaluation_duration_seconds", "histogram", "ALPHA", []string{"preemptor", "result"}},
	{"scheduler_preemption_execution_duration_seconds", "histogram", "ALPHA", []string{"preemptor", "result"}},
	{"scheduler_preemption_pdb_violations_total", "counter", "ALPHA", []string{"preemptor"}},
	{"scheduler_async_api_call_execution_total", "counter", "ALPHA", []string{"call_type", "result"}},
	{"scheduler_async_api_call_execution_duration_seconds", "histogram", "ALPHA", []string{"call_type", "result"}},
	{"scheduler_pending_async_api_calls", "gauge", "ALPHA", []string{"call_type"}},
	{"scheduler_dra_bindingconditions_allocations_total", "counter", "ALPHA", []string{"profile", "driver", "status"}},
	{"scheduler_podgroup_schedule_attempts_total", "counter", "ALPHA", []string{"result", "profile"}},
	{"scheduler_podgroup_scheduling_attempt_duration_seconds", "histogram", "ALPHA", []string{"result", "profile"}},
	{"scheduler_podgroup_scheduling_algorithm_duration_seconds", "histogram", "ALPHA", nil},
	{"scheduler_dra_bindingconditions_wait_duration_seconds", "histogram", "ALPHA", []string{"profile", "driver", "status"}},
}
