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

	"github.com/berthdev/berth/test/support/fixture"
)

// publishedConfig is a published KubeSchedulerConfiguration: a file of the module, or a
// Markdown page with a block of YAML.
type publishedConfig struct {
	file string
	// replace are pairs of a placeholder in the page and its replacement.
	replace []string
}

// profileSpec returns the first profile of the configuration as the spec of a
// SchedulingProfile.
func (d publishedConfig) profileSpec() string {
	GinkgoHelper()
	text, err := os.ReadFile(moduleFolder + d.file)
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

// serveLoads serves the loads of nodes as load-watcher does, and returns the URL.
func serveLoads(cpu map[string]float64) string {
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

// loadWatcherReplacements replaces Prometheus in Trimaran's pages by load-watcher. The
// pages also disable a plugin that kube-scheduler removed in 1.25.
func loadWatcherReplacements(cpu map[string]float64) []string {
	const provider = "type: Prometheus\n        address: http://prometheus-k8s.monitoring.svc.cluster.local:9090"
	address := "watcherAddress: " + serveLoads(cpu)
	return []string{"      - name: NodeResourcesLeastAllocated\n", "", "metricProvider:\n        " + provider, address, "metricProvider: \n        " + provider, address}
}

// newPod starts a pod of a profile with a CPU request.
func newPod(profile, name, cpu string) *fixture.PodBuilder {
	return fixture.Pod("default/"+name).SchedulerName(profile).Requests("cpu", cpu)
}

// createNodes creates nodes with this much CPU each.
func createNodes(ctx context.Context, cpu string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		createNode(ctx, fixture.Node(name).Capacity("cpu", cpu, "memory", "64Gi", "pods", "20"))
	}
}

var _ = Describe("The configuration that is published for", func() {
	It("NodeResourcesAllocatable runs, and prefers the node with the least allocatable resources", minutes, func(ctx SpecContext) {
		applyProfile(ctx, "allocatable", publishedConfig{file: "manifests/noderesources/scheduler-config.yaml"}.profileSpec())
		createNodes(ctx, "8", "large-1", "large-2")
		createNodes(ctx, "2", "small")
		Eventually(admin.NodeName(ctx, admin.Pods(ctx, newPod("allocatable", "least", "1"))[0])).Should(Equal("small"))
	})

	It("QOSSort runs, and schedules guaranteed pods first", minutes, func(ctx SpecContext) {
		createNodes(ctx, "1", "one")
		effort := admin.Pods(ctx, fixture.Pod("default/effort").Bare().SchedulerName("qos").Requests("cpu", "600m"))
		sure := admin.Pods(ctx, fixture.Pod("default/sure").Bare().SchedulerName("qos").Requests("cpu", "600m", "memory", "1Mi").Mutate(setGuaranteed))
		applyProfile(ctx, "qos", publishedConfig{file: "manifests/qos/scheduler-config.yaml"}.profileSpec())
		admin.ExpectBound(ctx, sure...)
		admin.ExpectRefused(ctx, "Insufficient cpu", effort...)
	})

	It("PodState runs, and binds", minutes, func(ctx SpecContext) {
		applyProfile(ctx, "state", publishedConfig{file: "manifests/podstate/scheduler-config.yaml"}.profileSpec())
		createNodes(ctx, "4", "state-1", "state-2")
		admin.ExpectBound(ctx, admin.Pods(ctx, newPod("state", "state", "1"))...)
	})

	It("CapacityScheduling runs, and rejects a pod above the maximum of an ElasticQuota", minutes, func(ctx SpecContext) {
		kubectlApply(ctx, `
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
		applyProfile(ctx, "capacity", publishedConfig{file: "manifests/capacityscheduling/scheduler-config.yaml"}.profileSpec())
		createNodes(ctx, "8", "capacity")
		admin.ExpectBound(ctx, admin.Pods(ctx, newPod("capacity", "quota-1", "1"), newPod("capacity", "quota-2", "1"))...)
		admin.ExpectRefused(ctx, "ElasticQuota", admin.Pods(ctx, newPod("capacity", "quota-3", "1"))...)
	})

	It("NodeResourceTopologyMatch runs, and rejects a node without a NUMA zone that fits the pod", minutes, func(ctx SpecContext) {
		kubectlApply(ctx, `
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: numa}
topologyPolicies: ["SingleNUMANodeContainerLevel"]
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: 4, allocatable: 3, available: 3}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
- {name: node-1, type: Node, resources: [{name: cpu, capacity: 4, allocatable: 3, available: 3}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
`)
		applyProfile(ctx, "numa", publishedConfig{file: "manifests/noderesourcetopology/scheduler-config.yaml"}.profileSpec())
		createNodes(ctx, "6", "numa")
		wide := fixture.Pod("default/wide").Bare().SchedulerName("numa").Requests("cpu", "4", "memory", "1Mi").Mutate(setGuaranteed)
		narrow := fixture.Pod("default/narrow").Bare().SchedulerName("numa").Requests("cpu", "2", "memory", "1Mi").Mutate(setGuaranteed)
		admin.ExpectRefused(ctx, "cannot align", admin.Pods(ctx, wide)...)
		admin.ExpectBound(ctx, admin.Pods(ctx, narrow)...)
	})

	It("PreemptionToleration runs, and protects pods from preemptors of too low a priority", minutes, func(ctx SpecContext) {
		kubectlApply(ctx, `
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
		applyProfile(ctx, "toleration", publishedConfig{file: "pkg/preemptiontoleration/README.md"}.profileSpec())
		createNodes(ctx, "1", "toleration")
		spared := admin.Pods(ctx, podOfClass("spared", "tolerant"))
		admin.ExpectBound(ctx, spared...)
		admin.ExpectRefused(ctx, "No victims found on node toleration", admin.Pods(ctx, podOfClass("not-enough", "middle"))...)
		admin.ExpectBound(ctx, admin.Pods(ctx, podOfClass("enough", "high"))...)
	})

	It("SySched runs, and binds", minutes, func(ctx SpecContext) {
		text, err := os.ReadFile(moduleFolder + "manifests/sysched/examples/full.profile.yaml")
		Expect(err).NotTo(HaveOccurred())
		kubectlApply(ctx, string(text))
		applyProfile(ctx, "sysched", publishedConfig{file: "manifests/sysched/scheduler-config.yaml"}.profileSpec())
		createNodes(ctx, "4", "sysched-1", "sysched-2")
		admin.ExpectBound(ctx, admin.Pods(ctx, newPod("sysched", "sysched", "1"))...)
	})

	It("NetworkOverhead and TopologicalSort run, and bind a pod", minutes, func(ctx SpecContext) {
		for _, file := range []string{"appgroup/appGroup-example.yaml", "networktopology/networkTopology-example.yaml"} {
			text, err := os.ReadFile(moduleFolder + "manifests/" + file)
			Expect(err).NotTo(HaveOccurred())
			// The example of a NetworkTopology uses names that its CRD no longer has.
			kubectlApply(ctx, strings.NewReplacer("configMapName", "configmapName", "      costList:", "      topologyList:",
				"originCosts:", "originList:", "              costs:", "              costList:").Replace(string(text)))
		}
		applyProfile(ctx, "network", publishedConfig{file: "manifests/appgroup/scheduler-config.yaml"}.profileSpec())
		createNodes(ctx, "4", "network-1", "network-2")
		admin.ExpectBound(ctx, admin.Pods(ctx, newPod("network", "network", "1").
			Label("appgroup.diktyo.x-k8s.io", "a1").Label("appgroup.diktyo.x-k8s.io.workload", "P1"))...)
	})

	DescribeTable("Trimaran, with load-watcher for Prometheus", func(ctx SpecContext, file, limit, want string) {
		file = "pkg/trimaran/" + file
		busy := map[string]float64{"idle": 5, "half": 35, "busy": 95}
		applyProfile(ctx, "trimaran", publishedConfig{file, loadWatcherReplacements(busy)}.profileSpec())
		for name := range busy {
			createNodes(ctx, "10", name)
		}
		Eventually(admin.NodeName(ctx, admin.Pods(ctx, newPod("trimaran", "load", "1").Mutate(withCPULimit(limit)))[0])).Should(Equal(want))
	},
		Entry("TargetLoadPacking", minutes, "targetloadpacking/README.md", "1", "half"),
		Entry("LoadVariationRiskBalancing", minutes, "loadvariationriskbalancing/README.md", "1", "idle"),
		Entry("LowRiskOverCommitment", minutes, "lowriskovercommitment/README.md", "8", "idle"),
	)
})
