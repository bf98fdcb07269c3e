//go:build schedulerplugins

package main

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/fixture"
)

// plainSpec is a profile before Coscheduling comes to it.
const plainSpec = "  queue: {flushAfterSeconds: 0}\n"

// documented is what is published of the plugin, with a kind for its arguments.
func documented() string {
	GinkgoHelper()
	return documentation{"manifests/coscheduling/scheduler-config.yaml", []string{
		"    args:\n", "    args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: CoschedulingArgs\n",
	}}.spec() + "\n"
}

// group is a PodGroup of that many.
func group(name string, members int) string {
	return fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: default}
spec: {minMember: %d, scheduleTimeoutSeconds: 10}
`, name, members)
}

func members(profile, group string, n int) (pods []*fixture.PodBuilder) {
	for i := range n {
		pods = append(pods, fixture.Pod(fmt.Sprintf("default/%s-%d", group, i)).Scheduler(profile).
			Label("scheduling.x-k8s.io/pod-group", group).Requests("cpu", "1"))
	}
	return pods
}

var _ = Describe("Coscheduling", func() {
	It("is swapped in under pods that wait, and binds a group of five together", minutes, func(ctx SpecContext) {
		runs(ctx, "five", plainSpec)
		apply(ctx, group("five", 5))
		pods := admin.Pods(ctx, members("five", "five", 5)...)
		admin.ExpectRefused(ctx, "no nodes available to schedule pods", pods...)
		runs(ctx, "five", documented()+plainSpec)
		for i := range 5 {
			node(ctx, fixture.Node(fmt.Sprint("five-", i)).Offers("cpu", "1", "pods", "10"))
		}
		admin.ExpectBound(ctx, pods...)
	})

	It("binds none of five where there is room for three, and all once there is", minutes, func(ctx SpecContext) {
		// The plugin asks for no events of nodes: a gang that was refused at Permit is flushed.
		runs(ctx, "three", documented()+"  queue: {flushAfterSeconds: 1}\n")
		apply(ctx, group("three", 5))
		for i := range 3 {
			node(ctx, fixture.Node(fmt.Sprint("three-", i)).Offers("cpu", "1", "pods", "10"))
		}
		pods := admin.Pods(ctx, members("three", "three", 5)...)
		admin.ExpectRefused(ctx, "", pods...)
		for _, pod := range pods {
			Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty(), pod.Name)
		}
		for i := range 2 {
			node(ctx, fixture.Node(fmt.Sprint("more-", i)).Offers("cpu", "1", "pods", "10"))
		}
		admin.ExpectBound(ctx, pods...)
	})

	It("refuses what is no argument of its own, and the defaults are those of its documentation", minutes, func(ctx SpecContext) {
		apply(ctx, `
apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: misspelled}
spec:
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSecond: 10, podGroupRejectPercentage: many}
`)
		Eventually(condition(ctx, "misspelled", "Accepted")).Should(And(
			ContainSubstring(`spec.pluginConfig[0].args.permitWaitingTimeSecond: unknown field: the plugin has no such argument, did you mean "permitWaitingTimeSeconds"?`),
			ContainSubstring(`spec.pluginConfig[0].args.podGroupRejectPercentage: wrong type: must be a whole number (int32), is a string`)))
	})
})
