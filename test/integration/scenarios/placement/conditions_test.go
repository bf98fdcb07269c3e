package placement

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

// conditionCase is a node with conditions, which kube-controller-manager's node lifecycle
// controller turns into taints.
type conditionCase struct {
	// conditions are those with status True. Ready is True unless unready is
	// set.
	conditions []v1.NodeConditionType
	unready    bool
	cordoned   bool
	// initialTaints are the taints that the node is created with.
	initialTaints []v1.Taint
	// taints are the keys of all taints that the controller leaves.
	taints []string
	// pods are created in this order.
	pods []podCase
}

// podCase is a pod, and whether it fits on the node.
type podCase struct {
	pod  *fixture.PodBuilder
	fits bool
}

func (i conditionCase) node() *fixture.NodeBuilder {
	ready := v1.ConditionTrue
	if i.unready {
		ready = v1.ConditionFalse
	}
	return fixture.Node("a").Capacity("cpu", "4", "memory", "16Gi").Mutate(func(n *v1.Node) {
		n.Spec.Unschedulable, n.Spec.Taints = i.cordoned, i.initialTaints
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
		for _, c := range i.conditions {
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: c, Status: v1.ConditionTrue})
		}
	})
}

// run waits until the controller has set the taints, and creates the pods.
func (i conditionCase) run(ctx context.Context) {
	GinkgoHelper()
	env := newTestEnv()
	env.addNodes(ctx, i.node())
	var node v1.Node
	Eventually(func(g Gomega) []string {
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: "a"}, &node)).To(Succeed())
		var keys []string
		for _, t := range node.Spec.Taints {
			// The controller evicts from a node that is not ready, and takes that taint away
			// again since no node is ready: that may be before it adds the one that stays.
			if t.Key != v1.TaintNodeNotReady || t.Effect == v1.TaintEffectNoSchedule {
				keys = append(keys, t.Key)
			}
		}
		slices.Sort(keys)
		return keys
	}).Should(Equal(i.taints))
	// Berth receives the taints before a node that is created later.
	env.addNodes(ctx, lastNode())
	why := unschedulable("2 " + untoleratedTaint)
	if i.cordoned {
		why = unschedulable("1 " + untoleratedTaint + ", 1 " + unschedulableNode)
	}
	for n, p := range i.pods {
		want := why
		if p.fits {
			want = boundTo("a")
		}
		pod := p.pod.Mutate(func(pod *v1.Pod) { pod.Name = fmt.Sprint("p", n) })
		env.expect(ctx, env.createPod(ctx, pod), want)
	}
}

// Pods of the three QoS classes.

func bestEffortPod() *fixture.PodBuilder { return fixture.Pod("p") }

func burstablePod() *fixture.PodBuilder {
	return fixture.Pod("p").Requests("cpu", "100m", "memory", "100Mi")
}

func guaranteedPod() *fixture.PodBuilder {
	return burstablePod().Mutate(func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
	})
}

// withTolerations adds a toleration of NoSchedule for each key.
func withTolerations(pod *fixture.PodBuilder, keys ...string) *fixture.PodBuilder {
	for _, key := range keys {
		pod.Toleration(v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	}
	return pod
}

// noneFits returns pods of all QoS classes, none of which fits.
func noneFits(more ...podCase) []podCase {
	return append([]podCase{{bestEffortPod(), false}, {burstablePod(), false}, {guaranteedPod(), false}}, more...)
}

func conditionTypes(all ...v1.NodeConditionType) []v1.NodeConditionType { return all }

func newTaint(key, value string, effect v1.TaintEffect) v1.Taint {
	return v1.Taint{Key: key, Value: value, Effect: effect}
}

// withComparison adds a toleration with a comparison operator.
func withComparison(pod *fixture.PodBuilder, key string, operator v1.TolerationOperator, value string, effect v1.TaintEffect) *fixture.PodBuilder {
	return pod.Toleration(v1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect})
}

var _ = Describe("A node with conditions", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		startComponent(ctx, "kube-controller-manager", "--kubeconfig="+cp.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
			"--controllers=node-lifecycle-controller", "--use-service-account-credentials=false",
			"--service-account-private-key-file="+filepath.Join(cp.Dir(), "service-account.key"), "--node-monitor-grace-period=3600s")
	}, NodeTimeout(eventuallyTimeout))

	DescribeTable("has taints, and pods without the tolerations do not fit:", func(ctx SpecContext, i conditionCase) { i.run(ctx) },
		Entry("it is not ready", minute, conditionCase{
			unready: true, taints: []string{v1.TaintNodeNotReady},
			pods: noneFits(podCase{withTolerations(bestEffortPod(), v1.TaintNodeNotReady), true}),
		}),
		Entry("it is cordoned", minute, conditionCase{
			cordoned: true, taints: []string{v1.TaintNodeUnschedulable},
			pods: noneFits(podCase{withTolerations(bestEffortPod(), v1.TaintNodeUnschedulable), true}),
		}),
		Entry("it has memory pressure, which pods that request memory tolerate", minute, conditionCase{
			conditions: conditionTypes(v1.NodeMemoryPressure), taints: []string{v1.TaintNodeMemoryPressure},
			pods: []podCase{
				{bestEffortPod(), false}, {withTolerations(bestEffortPod(), v1.TaintNodeMemoryPressure), true}, {withTolerations(bestEffortPod(), v1.TaintNodeDiskPressure), false},
				{burstablePod(), true}, {guaranteedPod(), true},
			},
		}),
		Entry("it has disk pressure", minute, conditionCase{
			conditions: conditionTypes(v1.NodeDiskPressure), taints: []string{v1.TaintNodeDiskPressure},
			pods: noneFits(podCase{withTolerations(bestEffortPod(), v1.TaintNodeDiskPressure), true}, podCase{withTolerations(bestEffortPod(), v1.TaintNodeMemoryPressure), false}),
		}),
		Entry("its network is unavailable", minute, conditionCase{
			conditions: conditionTypes(v1.NodeNetworkUnavailable), taints: []string{v1.TaintNodeNetworkUnavailable},
			pods: noneFits(podCase{withTolerations(burstablePod(), v1.TaintNodeNetworkUnavailable), true}),
		}),
		Entry("its network is unavailable and it is not ready", minute, conditionCase{
			conditions: conditionTypes(v1.NodeNetworkUnavailable), unready: true, taints: []string{v1.TaintNodeNetworkUnavailable, v1.TaintNodeNotReady},
			pods: noneFits(podCase{withTolerations(burstablePod(), v1.TaintNodeNetworkUnavailable), false},
				podCase{withTolerations(burstablePod(), v1.TaintNodeNetworkUnavailable, v1.TaintNodeNotReady), true}),
		}),
		Entry("it has PID pressure", minute, conditionCase{
			conditions: conditionTypes(v1.NodePIDPressure), taints: []string{v1.TaintNodePIDPressure},
			pods: noneFits(podCase{withTolerations(bestEffortPod(), v1.TaintNodePIDPressure), true}),
		}),
		Entry("it has several kinds of pressure", minute, conditionCase{
			conditions: conditionTypes(v1.NodePIDPressure, v1.NodeMemoryPressure, v1.NodeDiskPressure),
			taints:     []string{v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure},
			pods: noneFits(podCase{withTolerations(bestEffortPod(), v1.TaintNodeDiskPressure, v1.TaintNodePIDPressure), false},
				podCase{withTolerations(bestEffortPod(), v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure), true}),
		}),
	)

	// The comparison operators tolerate nothing: see the table of taints.
	DescribeTable("is ready and keeps its own taints:", func(ctx SpecContext, i conditionCase) { i.run(ctx) },
		Entry("a number, compared with Gt", minute, conditionCase{
			initialTaints: []v1.Taint{newTaint("level", "950", v1.TaintEffectNoSchedule)}, taints: []string{"level"},
			pods: []podCase{{bestEffortPod(), false}, {withComparison(bestEffortPod(), "level", gt, "900", v1.TaintEffectNoSchedule), false}, {withTolerations(bestEffortPod(), "level"), true}},
		}),
		Entry("a number, compared with Lt", minute, conditionCase{
			initialTaints: []v1.Taint{newTaint("errors", "5", v1.TaintEffectNoSchedule)}, taints: []string{"errors"},
			pods: []podCase{{burstablePod(), false}, {withComparison(burstablePod(), "errors", lt, "10", v1.TaintEffectNoSchedule), false}, {withTolerations(burstablePod(), "errors"), true}},
		}),
		Entry("two numbers", minute, conditionCase{
			initialTaints: []v1.Taint{newTaint("level", "950", v1.TaintEffectNoSchedule), newTaint("errors", "5", v1.TaintEffectNoSchedule)},
			taints:        []string{"errors", "level"},
			pods: []podCase{
				{guaranteedPod(), false}, {withComparison(guaranteedPod(), "level", gt, "900", v1.TaintEffectNoSchedule), false},
				{withComparison(withTolerations(guaranteedPod(), "level"), "errors", lt, "10", v1.TaintEffectNoSchedule), false},
				{withTolerations(guaranteedPod(), "level", "errors"), true},
			},
		}),
		Entry("a number with NoExecute", minute, conditionCase{
			initialTaints: []v1.Taint{newTaint("busy", "75", v1.TaintEffectNoExecute)}, taints: []string{"busy"},
			pods: []podCase{
				{guaranteedPod(), false}, {withComparison(guaranteedPod(), "busy", lt, "90", v1.TaintEffectNoExecute), false},
				{withComparison(guaranteedPod(), "busy", gt, "50", v1.TaintEffectNoExecute), false},
				{guaranteedPod().Tolerate("busy", "75", v1.TaintEffectNoExecute), true},
			},
		}),
		Entry("a number with PreferNoSchedule", minute, conditionCase{
			initialTaints: []v1.Taint{newTaint("level", "950", v1.TaintEffectPreferNoSchedule)}, taints: []string{"level"},
			pods: []podCase{
				{bestEffortPod(), true}, {withComparison(bestEffortPod(), "level", gt, "900", v1.TaintEffectPreferNoSchedule), true},
				{withComparison(bestEffortPod(), "errors", lt, "10", v1.TaintEffectPreferNoSchedule), true},
			},
		}),
	)
})
