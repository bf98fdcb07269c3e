//go:build schedulerplugins

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/paypal/load-watcher/pkg/watcher"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/test/fixture"
)

// documentation is where a configuration is published: a file of the module that
// is a KubeSchedulerConfiguration, or a page with one in a block of YAML.
type documentation struct {
	file string
	// replace are pairs of what the reader of the page has to replace, and by what.
	replace []string
}

// spec is the first profile of the configuration as the spec of a SchedulingProfile.
func (d documentation) spec() string {
	GinkgoHelper()
	text, err := os.ReadFile(published + d.file)
	Expect(err).NotTo(HaveOccurred())
	page := string(text)
	if strings.HasSuffix(d.file, ".md") {
		for block := range strings.SplitSeq(page, "```yaml\n") {
			if strings.HasPrefix(block, "apiVersion: kubescheduler.config.k8s.io/") {
				page, _, _ = strings.Cut(block, "```")
				break
			}
		}
	}
	page = strings.NewReplacer(d.replace...).Replace(page)
	var configuration struct{ Profiles []map[string]any }
	Expect(yaml.Unmarshal([]byte(page), &configuration)).To(Succeed(), page)
	Expect(configuration.Profiles).NotTo(BeEmpty(), page)
	delete(configuration.Profiles[0], "schedulerName")
	spec, err := yaml.Marshal(configuration.Profiles[0])
	Expect(err).NotTo(HaveOccurred())
	return "  " + strings.ReplaceAll(strings.TrimSpace(string(spec)), "\n", "\n  ")
}

// loads are the loads of nodes, as load-watcher serves them.
func loads(cpu map[string]float64) string {
	metrics := watcher.WatcherMetrics{Window: watcher.Window{Duration: watcher.FifteenMinutes}, Data: watcher.Data{NodeMetricsMap: watcher.NodeMetricsMap{}}}
	for node, percent := range cpu {
		metrics.Data.NodeMetricsMap[node] = watcher.NodeMetrics{Metrics: []watcher.Metric{
			{Type: watcher.CPU, Operator: watcher.Average, Value: percent}, {Type: watcher.CPU, Operator: watcher.Std, Value: 5},
			{Type: watcher.Memory, Operator: watcher.Average, Value: percent}, {Type: watcher.Memory, Operator: watcher.Std, Value: 5},
		}}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(metrics)
	}))
	DeferCleanup(server.Close)
	return server.URL
}

// watcherInsteadOfPrometheus replaces the Prometheus of Trimaran's pages.
// Their pages also disable a plugin that kube-scheduler has not had since 1.25.
func watcherInsteadOfPrometheus(cpu map[string]float64) []string {
	const provider = "type: Prometheus\n        address: http://prometheus-k8s.monitoring.svc.cluster.local:9090"
	address := "watcherAddress: " + loads(cpu)
	return []string{"      - name: NodeResourcesLeastAllocated\n", "", "metricProvider:\n        " + provider, address, "metricProvider: \n        " + provider, address}
}

// pod starts a pod of a profile that asks for that much CPU.
func pod(profile, name, cpu string) *fixture.PodBuilder {
	return fixture.Pod("default/"+name).Scheduler(profile).Requests("cpu", cpu)
}

// offer creates nodes with that much CPU each.
func offer(ctx context.Context, cpu string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		node(ctx, fixture.Node(name).Offers("cpu", cpu, "memory", "64Gi", "pods", "20"))
	}
}

var _ = Describe("The configuration that is published for", func() {
	It("NodeResourcesAllocatable runs, and prefers the node that offers least", minutes, func(ctx SpecContext) {
		runs(ctx, "allocatable", documentation{file: "manifests/noderesources/scheduler-config.yaml"}.spec())
		offer(ctx, "8", "large-1", "large-2")
		offer(ctx, "2", "small")
		Eventually(admin.Place(ctx, admin.Pods(ctx, pod("allocatable", "least", "1"))[0])).Should(Equal("small"))
	})

	It("QOSSort runs, and guaranteed pods go first", minutes, func(ctx SpecContext) {
		offer(ctx, "1", "one")
		effort := admin.Pods(ctx, fixture.Pod("default/effort").Bare().Scheduler("qos").Requests("cpu", "600m"))
		sure := admin.Pods(ctx, fixture.Pod("default/sure").Bare().Scheduler("qos").Requests("cpu", "600m", "memory", "1Mi").Mutate(guaranteed))
		runs(ctx, "qos", documentation{file: "manifests/qos/scheduler-config.yaml"}.spec())
		admin.ExpectBound(ctx, sure...)
		admin.ExpectRefused(ctx, "Insufficient cpu", effort...)
	})

	It("PodState runs, and binds", minutes, func(ctx SpecContext) {
		runs(ctx, "state", documentation{file: "manifests/podstate/scheduler-config.yaml"}.spec())
		offer(ctx, "4", "state-1", "state-2")
		admin.ExpectBound(ctx, admin.Pods(ctx, pod("state", "state", "1"))...)
	})

	It("CapacityScheduling runs, and refuses what is above the maximum of an ElasticQuota", minutes, func(ctx SpecContext) {
		apply(ctx, `
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota, namespace: default}
spec: {max: {cpu: 2}, min: {cpu: 1}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota, namespace: kube-public}
spec: {max: {cpu: 2}, min: {cpu: 2}}
`)
		runs(ctx, "capacity", documentation{file: "manifests/capacityscheduling/scheduler-config.yaml"}.spec())
		offer(ctx, "8", "capacity")
		admin.ExpectBound(ctx, admin.Pods(ctx, pod("capacity", "quota-1", "1"), pod("capacity", "quota-2", "1"))...)
		admin.ExpectRefused(ctx, "ElasticQuota", admin.Pods(ctx, pod("capacity", "quota-3", "1"))...)
	})

	It("NodeResourceTopologyMatch runs, and refuses a node none of whose NUMA zones has room", minutes, func(ctx SpecContext) {
		apply(ctx, `
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: numa}
topologyPolicies: ["SingleNUMANodeContainerLevel"]
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: 4, allocatable: 3, available: 3}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
- {name: node-1, type: Node, resources: [{name: cpu, capacity: 4, allocatable: 3, available: 3}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
`)
		runs(ctx, "numa", documentation{file: "manifests/noderesourcetopology/scheduler-config.yaml"}.spec())
		offer(ctx, "6", "numa")
		wide := fixture.Pod("default/wide").Bare().Scheduler("numa").Requests("cpu", "4", "memory", "1Mi").Mutate(guaranteed)
		narrow := fixture.Pod("default/narrow").Bare().Scheduler("numa").Requests("cpu", "2", "memory", "1Mi").Mutate(guaranteed)
		admin.ExpectRefused(ctx, "cannot align", admin.Pods(ctx, wide)...)
		admin.ExpectBound(ctx, admin.Pods(ctx, narrow)...)
	})

	It("PreemptionToleration runs, and spares pods from what is not important enough", minutes, func(ctx SpecContext) {
		apply(ctx, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: tolerant
  annotations:
    preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority: "100"
    preemption-toleration.scheduling.x-k8s.io/toleration-seconds: "3600"
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: middle}
value: 50
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
`)
		runs(ctx, "toleration", documentation{file: "pkg/preemptiontoleration/README.md"}.spec())
		offer(ctx, "1", "toleration")
		spared := admin.Pods(ctx, ofClass("spared", "tolerant"))
		admin.ExpectBound(ctx, spared...)
		admin.ExpectRefused(ctx, "No victims found on node toleration", admin.Pods(ctx, ofClass("not-enough", "middle"))...)
		admin.ExpectBound(ctx, admin.Pods(ctx, ofClass("enough", "high"))...)
	})

	It("SySched runs, and binds", minutes, func(ctx SpecContext) {
		text, err := os.ReadFile(published + "manifests/sysched/examples/full.profile.yaml")
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, string(text))
		runs(ctx, "sysched", documentation{file: "manifests/sysched/scheduler-config.yaml"}.spec())
		offer(ctx, "4", "sysched-1", "sysched-2")
		admin.ExpectBound(ctx, admin.Pods(ctx, pod("sysched", "sysched", "1"))...)
	})

	It("NetworkOverhead and TopologicalSort runs, and keeps a pod near what it depends on", minutes, func(ctx SpecContext) {
		for _, file := range []string{"appgroup/appGroup-example.yaml", "networktopology/networkTopology-example.yaml"} {
			text, err := os.ReadFile(published + "manifests/" + file)
			Expect(err).NotTo(HaveOccurred())
			// The example of a NetworkTopology has names that its CRD has no more.
			apply(ctx, strings.NewReplacer("configMapName", "configmapName", "      costList:", "      topologyList:",
				"originCosts:", "originList:", "              costs:", "              costList:").Replace(string(text)))
		}
		runs(ctx, "network", documentation{file: "manifests/appgroup/scheduler-config.yaml"}.spec())
		offer(ctx, "4", "network-1", "network-2")
		admin.ExpectBound(ctx, admin.Pods(ctx, pod("network", "network", "1").
			Label("appgroup.diktyo.x-k8s.io", "a1").Label("appgroup.diktyo.x-k8s.io.workload", "P1"))...)
	})

	DescribeTable("Trimaran, with load-watcher for Prometheus", func(ctx SpecContext, file, limit, want string) {
		file = "pkg/trimaran/" + file
		busy := map[string]float64{"idle": 5, "half": 35, "busy": 95}
		runs(ctx, "trimaran", documentation{file, watcherInsteadOfPrometheus(busy)}.spec())
		for name := range busy {
			offer(ctx, "10", name)
		}
		Eventually(admin.Place(ctx, admin.Pods(ctx, pod("trimaran", "load", "1").Mutate(limited(limit)))[0])).Should(Equal(want))
	},
		Entry("TargetLoadPacking", minutes, "targetloadpacking/README.md", "1", "half"),
		Entry("LoadVariationRiskBalancing", minutes, "loadvariationriskbalancing/README.md", "1", "idle"),
		Entry("LowRiskOverCommitment", minutes, "lowriskovercommitment/README.md", "8", "idle"),
	)
})
