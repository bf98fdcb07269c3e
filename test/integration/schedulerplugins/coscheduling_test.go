//go:build schedulerplugins

package main

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/fixture"
)

// baseSpec is the spec of a profile without Coscheduling.
const baseSpec = "  queue: {flushAfterSeconds: 0}\n"

// documentedSpec is the spec that the plugin's documentation publishes, with a kind for
// its arguments.
func documentedSpec() string {
	GinkgoHelper()
	return publishedConfig{"manifests/coscheduling/scheduler-config.yaml", []string{
		"    args:\n", "    args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: CoschedulingArgs\n",
	}}.profileSpec() + "\n"
}

// podGroupManifest returns a PodGroup with this minMember.
func podGroupManifest(name string, members int) string {
	return fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: default}
spec: {minMember: %d, scheduleTimeoutSeconds: 10}
`, name, members)
}

func memberPods(profile, group string, n int) (pods []*fixture.PodBuilder) {
	for i := range n {
		pods = append(pods, fixture.Pod(fmt.Sprintf("default/%s-%d", group, i)).SchedulerName(profile).
			Label("scheduling.x-k8s.io/pod-group", group).Requests("cpu", "1"))
	}
	return pods
}

var _ = Describe("Coscheduling", func() {
	It("is enabled by a swap while pods are pending, and binds a group of five together", minutes, func(ctx SpecContext) {
		applyProfile(ctx, "five", baseSpec)
		kubectlApply(ctx, podGroupManifest("five", 5))
		pods := admin.Pods(ctx, memberPods("five", "five", 5)...)
		admin.ExpectRefused(ctx, "no nodes available to schedule pods", pods...)
		applyProfile(ctx, "five", documentedSpec()+baseSpec)
		for i := range 5 {
			createNode(ctx, fixture.Node(fmt.Sprint("five-", i)).Capacity("cpu", "1", "pods", "10"))
		}
		admin.ExpectBound(ctx, pods...)
	})

	It("binds no pod of five while there is room for three, and all once there is room", minutes, func(ctx SpecContext) {
		// The plugin registers no events of nodes: the periodic flush requeues a group that was rejected in Permit.
		applyProfile(ctx, "three", documentedSpec()+"  queue: {flushAfterSeconds: 1}\n")
		kubectlApply(ctx, podGroupManifest("three", 5))
		for i := range 3 {
			createNode(ctx, fixture.Node(fmt.Sprint("three-", i)).Capacity("cpu", "1", "pods", "10"))
		}
		pods := admin.Pods(ctx, memberPods("three", "three", 5)...)
		admin.ExpectRefused(ctx, "", pods...)
		for _, pod := range pods {
			Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty(), pod.Name)
		}
		for i := range 2 {
			createNode(ctx, fixture.Node(fmt.Sprint("more-", i)).Capacity("cpu", "1", "pods", "10"))
		}
		admin.ExpectBound(ctx, pods...)
	})

	It("rejects unknown arguments, and arguments of a wrong type", minutes, func(ctx SpecContext) {
		kubectlApply(ctx, `
apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: misspelled}
spec:
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSecond: 10, podGroupRejectPercentage: many}
`)
		Eventually(conditionMessage(ctx, "misspelled", "Accepted")).Should(And(
			ContainSubstring(`spec.pluginConfig[0].args.permitWaitingTimeSecond: unknown field: the plugin has no such argument, did you mean "permitWaitingTimeSeconds"?`),
			ContainSubstring(`spec.pluginConfig[0].args.podGroupRejectPercentage: wrong type: must be a whole number (int32), is a string`)))
	})
})
