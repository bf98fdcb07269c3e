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

// ill is a node that says what is wrong with it. kube-controller-manager's node
// lifecycle controller, the real one, turns that into taints.
type ill struct {
	// conditions are those that are true, besides Ready, unless it is unready.
	conditions []v1.NodeConditionType
	unready    bool
	cordoned   bool
	// marked are the taints that it comes with.
	marked []v1.Taint
	// taints are the keys that it has in the end.
	taints []string
	// pods are who comes, in this order.
	pods []patient
}

// patient is a pod that comes to such a node.
type patient struct {
	pod  *fixture.PodBuilder
	fits bool
}

func (i ill) node() *fixture.NodeBuilder {
	ready := v1.ConditionTrue
	if i.unready {
		ready = v1.ConditionFalse
	}
	return fixture.Node("a").Capacity("cpu", "4", "memory", "16Gi").Mutate(func(n *v1.Node) {
		n.Spec.Unschedulable, n.Spec.Taints = i.cordoned, i.marked
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
		for _, c := range i.conditions {
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: c, Status: v1.ConditionTrue})
		}
	})
}

// play lets the controller taint the node before the pods come.
func (i ill) play(ctx context.Context) {
	GinkgoHelper()
	c := aCluster()
	c.comes(ctx, i.node())
	var node v1.Node
	Eventually(func(g Gomega) []string {
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: "a"}, &node)).To(Succeed())
		var keys []string
		for _, t := range node.Spec.Taints {
			keys = append(keys, t.Key)
		}
		slices.Sort(keys)
		return keys
	}).Should(Equal(i.taints))
	// Berth hears of the taints before it hears of a node that came later.
	c.comes(ctx, closedOff())
	why := refused("2 " + tainted)
	if i.cordoned {
		why = refused("1 " + tainted + ", 1 " + cordoned)
	}
	for n, p := range i.pods {
		want := why
		if p.fits {
			want = on("a")
		}
		pod := p.pod.Mutate(func(pod *v1.Pod) { pod.Name = fmt.Sprint("p", n) })
		c.expect(ctx, c.create(ctx, pod), want)
	}
}

// The three classes of pods, by what they ask for.

func nothing() *fixture.PodBuilder { return fixture.Pod("p") }

func something() *fixture.PodBuilder {
	return fixture.Pod("p").Requests("cpu", "100m", "memory", "100Mi")
}

func exactly() *fixture.PodBuilder {
	return something().Mutate(func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
	})
}

// bearing adds a toleration of NoSchedule for each of keys.
func bearing(pod *fixture.PodBuilder, keys ...string) *fixture.PodBuilder {
	for _, key := range keys {
		pod.Toleration(v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	}
	return pod
}

// nobody are all classes, none of which fits.
func nobody(more ...patient) []patient {
	return append([]patient{{nothing(), false}, {something(), false}, {exactly(), false}}, more...)
}

func conditions(all ...v1.NodeConditionType) []v1.NodeConditionType { return all }

// numbered is a taint whose value is a number.
func numbered(key, value string, effect v1.TaintEffect) v1.Taint {
	return v1.Taint{Key: key, Value: value, Effect: effect}
}

// comparing adds a toleration by comparison to a pod.
func comparing(pod *fixture.PodBuilder, key string, operator v1.TolerationOperator, value string, effect v1.TaintEffect) *fixture.PodBuilder {
	return pod.Toleration(v1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect})
}

var _ = Describe("A node that says what is wrong with it", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		start(ctx, "kube-controller-manager", "--kubeconfig="+cp.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
			"--controllers=node-lifecycle-controller", "--use-service-account-credentials=false",
			"--service-account-private-key-file="+filepath.Join(cp.Dir(), "service-account.key"), "--node-monitor-grace-period=3600s")
	}, NodeTimeout(patience))

	DescribeTable("is tainted, and who does not bear that goes elsewhere:", func(ctx SpecContext, i ill) { i.play(ctx) },
		Entry("it is not ready", minute, ill{
			unready: true, taints: []string{v1.TaintNodeNotReady},
			pods: nobody(patient{bearing(nothing(), v1.TaintNodeNotReady), true}),
		}),
		Entry("it is cordoned", minute, ill{
			cordoned: true, taints: []string{v1.TaintNodeUnschedulable},
			pods: nobody(patient{bearing(nothing(), v1.TaintNodeUnschedulable), true}),
		}),
		Entry("it is short of memory, which who asks for some bears", minute, ill{
			conditions: conditions(v1.NodeMemoryPressure), taints: []string{v1.TaintNodeMemoryPressure},
			pods: []patient{
				{nothing(), false}, {bearing(nothing(), v1.TaintNodeMemoryPressure), true}, {bearing(nothing(), v1.TaintNodeDiskPressure), false},
				{something(), true}, {exactly(), true},
			},
		}),
		Entry("it is short of disk", minute, ill{
			conditions: conditions(v1.NodeDiskPressure), taints: []string{v1.TaintNodeDiskPressure},
			pods: nobody(patient{bearing(nothing(), v1.TaintNodeDiskPressure), true}, patient{bearing(nothing(), v1.TaintNodeMemoryPressure), false}),
		}),
		Entry("its network is not there", minute, ill{
			conditions: conditions(v1.NodeNetworkUnavailable), taints: []string{v1.TaintNodeNetworkUnavailable},
			pods: nobody(patient{bearing(something(), v1.TaintNodeNetworkUnavailable), true}),
		}),
		Entry("its network is not there and it is not ready", minute, ill{
			conditions: conditions(v1.NodeNetworkUnavailable), unready: true, taints: []string{v1.TaintNodeNetworkUnavailable, v1.TaintNodeNotReady},
			pods: nobody(patient{bearing(something(), v1.TaintNodeNetworkUnavailable), false},
				patient{bearing(something(), v1.TaintNodeNetworkUnavailable, v1.TaintNodeNotReady), true}),
		}),
		Entry("it is short of process ids", minute, ill{
			conditions: conditions(v1.NodePIDPressure), taints: []string{v1.TaintNodePIDPressure},
			pods: nobody(patient{bearing(nothing(), v1.TaintNodePIDPressure), true}),
		}),
		Entry("it is short of much", minute, ill{
			conditions: conditions(v1.NodePIDPressure, v1.NodeMemoryPressure, v1.NodeDiskPressure),
			taints:     []string{v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure},
			pods: nobody(patient{bearing(nothing(), v1.TaintNodeDiskPressure, v1.TaintNodePIDPressure), false},
				patient{bearing(nothing(), v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure), true}),
		}),
	)

	// Comparisons cover nothing: see the table of taints.
	DescribeTable("is well and keeps the taints that it has:", func(ctx SpecContext, i ill) { i.play(ctx) },
		Entry("one number, compared from below", minute, ill{
			marked: []v1.Taint{numbered("level", "950", v1.TaintEffectNoSchedule)}, taints: []string{"level"},
			pods: []patient{{nothing(), false}, {comparing(nothing(), "level", above, "900", v1.TaintEffectNoSchedule), false}, {bearing(nothing(), "level"), true}},
		}),
		Entry("one number, compared from above", minute, ill{
			marked: []v1.Taint{numbered("errors", "5", v1.TaintEffectNoSchedule)}, taints: []string{"errors"},
			pods: []patient{{something(), false}, {comparing(something(), "errors", below, "10", v1.TaintEffectNoSchedule), false}, {bearing(something(), "errors"), true}},
		}),
		Entry("two numbers", minute, ill{
			marked: []v1.Taint{numbered("level", "950", v1.TaintEffectNoSchedule), numbered("errors", "5", v1.TaintEffectNoSchedule)},
			taints: []string{"errors", "level"},
			pods: []patient{
				{exactly(), false}, {comparing(exactly(), "level", above, "900", v1.TaintEffectNoSchedule), false},
				{comparing(bearing(exactly(), "level"), "errors", below, "10", v1.TaintEffectNoSchedule), false},
				{bearing(exactly(), "level", "errors"), true},
			},
		}),
		Entry("a number that evicts", minute, ill{
			marked: []v1.Taint{numbered("busy", "75", v1.TaintEffectNoExecute)}, taints: []string{"busy"},
			pods: []patient{
				{exactly(), false}, {comparing(exactly(), "busy", below, "90", v1.TaintEffectNoExecute), false},
				{comparing(exactly(), "busy", above, "50", v1.TaintEffectNoExecute), false},
				{exactly().Tolerate("busy", "75", v1.TaintEffectNoExecute), true},
			},
		}),
		Entry("a number that is a mere preference", minute, ill{
			marked: []v1.Taint{numbered("level", "950", v1.TaintEffectPreferNoSchedule)}, taints: []string{"level"},
			pods: []patient{
				{nothing(), true}, {comparing(nothing(), "level", above, "900", v1.TaintEffectPreferNoSchedule), true},
				{comparing(nothing(), "errors", below, "10", v1.TaintEffectPreferNoSchedule), true},
			},
		}),
	)
})
