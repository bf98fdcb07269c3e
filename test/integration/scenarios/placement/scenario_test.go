package placement

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// scenario is a cluster, and a pod that is created in it.
type scenario struct {
	// profile schedules the pod; empty for the default profile.
	profile string
	nodes   []*fixture.NodeBuilder
	// existing pods are created first, each on a node.
	existing []*fixture.PodBuilder
	// pod is created after them; nil for steps only.
	pod  *fixture.PodBuilder
	want result
	// steps follow.
	steps []step
}

// result is the expected result of a pod.
type result struct {
	// The pod gets one of nodes or, if why is set, none, for the reasons in why.
	nodes []string
	why   string
	// match says whether nodes are all nodes of a kind.
	match matchKind
	// invalid says that the API server rejects the pod.
	invalid bool
}

// matchKind says which nodes a result lists.
type matchKind int

const (
	anyOf matchKind = iota
	allFeasible
	allBest
)

// boundTo expects the pod to fit on exactly these nodes and to get one.
func boundTo(nodes ...string) result { return result{nodes: nodes, match: allFeasible} }

// best expects exactly these nodes to have the highest score, and the pod to get one.
func best(nodes ...string) result { return result{nodes: nodes, match: allBest} }

// oneOf expects the pod to get one of these nodes, whether it fits on others or not.
func oneOf(nodes ...string) result { return result{nodes: nodes} }

// unschedulable expects the pod to fit on no node. why counts the nodes by reason, as
// kube-scheduler does.
func unschedulable(why string) result { return result{why: why} }

var invalid = result{invalid: true}

// table describes scenarios by a sentence each.
func table(about string, entries ...TableEntry) bool {
	return DescribeTable(about, func(ctx SpecContext, s scenario) { s.run(ctx) }, entries)
}

func entry(sentence string, s scenario) TableEntry {
	return Entry(sentence, Offset(1), minute, s)
}

// run runs the scenario.
func (s scenario) run(ctx context.Context) {
	GinkgoHelper()
	env := newTestEnv()
	env.addNodes(ctx, s.nodes...)
	for _, pod := range s.existing {
		env.createPod(ctx, pod)
	}
	if s.pod != nil {
		if s.profile != "" {
			s.pod.SchedulerName(s.profile)
		}
		if s.want.invalid {
			Expect(admin.Create(ctx, s.pod.Valid())).To(Satisfy(apierrors.IsInvalid))
			return
		}
		env.expect(ctx, env.createPod(ctx, s.pod), s.want)
	}
	for _, step := range s.steps {
		step(ctx, env)
	}
}

// expect waits for the result of a pod.
func (env *testEnv) expect(ctx context.Context, pod *v1.Pod, want result) {
	GinkgoHelper()
	if want.why == "" {
		admin.ExpectBound(ctx, pod)
		Expect(want.nodes).To(ContainElement(pod.Spec.NodeName), "the node of %s", pod.Name)
		switch want.match {
		case allFeasible:
			Expect(readRecord(pod).Feasible).To(Equal(len(want.nodes)), "the number of nodes that %s fits on", pod.Name)
		case allBest:
			Expect(readRecord(pod).topNodes()).To(ConsistOf(want.nodes), "the nodes with the highest score for %s", pod.Name)
		}
		return
	}
	all := fmt.Sprintf("False Unschedulable: 0/%d nodes are available: %s.", env.nodes, want.why)
	Eventually(func(g Gomega) string {
		if node := admin.NodeName(ctx, pod)(g); node != "" {
			StopTrying(fmt.Sprintf("%s is on node %s, want no node: %s", pod.Name, node, want.why)).Now()
		}
		return apitest.PodScheduled(pod)
	}).Should(HavePrefix(all), pod.Name)
}

// step changes the cluster or checks a pod.
type step func(ctx context.Context, env *testEnv)

// addNode creates a node.
func addNode(node *fixture.NodeBuilder) step {
	return func(ctx context.Context, env *testEnv) { env.addNodes(ctx, node) }
}

// addPod creates a pod and expects its result.
func addPod(pod *fixture.PodBuilder, want result) step {
	return func(ctx context.Context, env *testEnv) { env.expect(ctx, env.createPod(ctx, pod), want) }
}

// expectPod expects the result of a pending pod.
func expectPod(pod string, want result) step {
	return func(ctx context.Context, env *testEnv) { env.expect(ctx, env.pods[pod], want) }
}

// addPodBeside creates a pod and expects it on the node of another.
func addPodBeside(first string, pod *fixture.PodBuilder) step {
	return func(ctx context.Context, env *testEnv) {
		env.expect(ctx, env.createPod(ctx, pod), boundTo(env.pods[first].Spec.NodeName))
	}
}

// deletePod deletes a pod without grace period.
func deletePod(pod string) step {
	return func(ctx context.Context, env *testEnv) { admin.Remove(ctx, env.pods[pod]) }
}

// updateNode writes a node's spec and metadata.
func updateNode(node string, edit func(*v1.Node)) step {
	return func(ctx context.Context, _ *testEnv) { apitest.Change(ctx, admin, fixture.Node(node).Obj(), edit) }
}

// updateNodeStatus writes a node's status.
func updateNodeStatus(node string, edit func(*v1.Node)) step {
	return func(ctx context.Context, _ *testEnv) {
		apitest.ChangeStatus(ctx, admin, fixture.Node(node).Obj(), edit)
	}
}

// relabelPod sets the labels of a pod.
func relabelPod(pod, key, value string) step {
	return func(ctx context.Context, env *testEnv) {
		apitest.Change(ctx, admin, env.pods[pod], func(p *v1.Pod) { p.Labels = map[string]string{key: value} })
	}
}

// expectAttempts expects the number of attempts of a bound pod.
func expectAttempts(pod string, times int) step {
	return func(_ context.Context, env *testEnv) {
		GinkgoHelper()
		Expect(readRecord(env.pods[pod]).Attempts).To(Equal(times), "attempts of %s", pod)
	}
}

const (
	hostname = v1.LabelHostname
	zone     = v1.LabelTopologyZone
	region   = v1.LabelTopologyRegion
)

// kube-scheduler's reasons to reject a node.
const (
	affinityMismatch     = "node(s) didn't match pod affinity rules"
	antiAffinityMismatch = "node(s) didn't match pod anti-affinity rules"
	existingAntiAffinity = "node(s) didn't satisfy existing pods anti-affinity rules"
	spreadMismatch       = "node(s) didn't match pod topology spread constraints"
	nodeAffinityMismatch = "node(s) didn't match Pod's node affinity/selector"
	untoleratedTaint     = "node(s) had untolerated taint(s)"
	unschedulableNode    = "node(s) were unschedulable"
	noFreePorts          = "node(s) didn't have free ports for the requested pod ports"
	missingFeatures      = "node(s) didn't match Pod's required features"
)

func nodes(all ...*fixture.NodeBuilder) []*fixture.NodeBuilder { return all }

func pods(all ...*fixture.PodBuilder) []*fixture.PodBuilder { return all }

// lastNode is created last and rejects all pods: when Berth knows it, Berth knows all
// earlier writes to nodes.
func lastNode() *fixture.NodeBuilder {
	return fixture.Node("last").Taint("closed", "off", v1.TaintEffectNoSchedule)
}

// webPod starts a pod with app=web.
func webPod(name string) *fixture.PodBuilder { return fixture.Pod(name).Label("app", "web") }

// webPodsOn returns a pod with app=web on each of the nodes, which may repeat.
func webPodsOn(nodes ...string) []*fixture.PodBuilder {
	var all []*fixture.PodBuilder
	for i, node := range nodes {
		all = append(all, webPod(fmt.Sprint("old", i)).On(node))
	}
	return all
}

// Requirements of labels of pods.

func in(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

func exists(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

func notExists(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist, Values: values}
}

// affinityTerm returns a term for pods in a domain of the topology that meet all
// requirements.
func affinityTerm(topology string, requirements ...metav1.LabelSelectorRequirement) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchExpressions: requirements}}
}

// matchKey sets matchLabelKeys.
func matchKey(term v1.PodAffinityTerm, key string) v1.PodAffinityTerm {
	term.MatchLabelKeys = []string{key}
	return term
}

// mismatchKey sets mismatchLabelKeys.
func mismatchKey(term v1.PodAffinityTerm, key string) v1.PodAffinityTerm {
	term.MismatchLabelKeys = []string{key}
	return term
}

// inTeam selects the namespaces of a team; all if it is empty.
func inTeam(term v1.PodAffinityTerm, team string) v1.PodAffinityTerm {
	term.NamespaceSelector = &metav1.LabelSelector{}
	if team != "" {
		term.NamespaceSelector.MatchLabels = map[string]string{"team": team}
	}
	return term
}
