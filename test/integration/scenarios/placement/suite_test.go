// Package placement tests on a real kube-apiserver which nodes a pod fits on, which one it
// gets, and the message of a pod that fits on no node. Berth is the shipped manager, a
// process with the permissions of its ServiceAccount, observed through the API only.
// README.md lists the test of kube-scheduler that each scenario stands for.
package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/readme"
)

const (
	// eventuallyTimeout is the timeout of Eventually, pollingInterval how often it polls.
	eventuallyTimeout = 30 * time.Second
	pollingInterval   = 20 * time.Millisecond
	// minute is the timeout of a scenario.
	minute = SpecTimeout(time.Minute)
)

// The namespaces beside default. Their label team has their name.
const (
	blue = "blue"
	red  = "red"
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// binary is the manager's path, and manager the process that runs now.
	binary  string
	manager *operator.Manager
)

func TestPlacement(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "placement")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)
	var err error
	binary, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: []string{
		// No controller runs that would remove the taint from nodes that are not ready.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// Adds the toleration of memory pressure to pods that request memory.
		"--enable-admission-plugins=PodTolerationRestriction",
		// Without these the API server rejects the comparison operators, and in 1.35 drops
		// the declared features.
		"--feature-gates=TaintTolerationComparisonOperators=true,NodeDeclaredFeatures=true,RestartAllContainersOnContainerExits=true",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cp)).To(Succeed())
	for _, team := range []string{blue, red} {
		Expect(admin.Create(ctx, fixture.Namespace(team).Label("team", team).Obj())).To(Succeed())
	}
	for name, value := range map[string]int32{"mid": 200, "high": 300} {
		createPriorityClass(ctx, name, value)
	}
	startManager(ctx)
	for name, spec := range profiles() {
		Expect(operator.ApplyProfile(ctx, cp, name, spec)).To(Succeed())
		Expect(operator.UntilProgrammed(ctx, cp, name)).Error().NotTo(HaveOccurred())
	}
}, NodeTimeout(15*time.Minute))

// createPriorityClass creates a PriorityClass and waits until the API server accepts pods with it:
// its admission plugin knows classes from a watch.
func createPriorityClass(ctx context.Context, name string, value int32) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})).To(Succeed())
	admin.ExpectPriorityClass(ctx, metav1.NamespaceDefault, name)
}

// startManager starts the manager and waits until it is ready. The flags override the
// defaults.
func startManager(ctx context.Context, flags ...string) {
	GinkgoHelper()
	var err error
	manager, err = operator.Start(ctx, cp, binary, append([]string{"--default-profile=", "--other-scheduler-lease=none"}, flags...)...)
	Expect(err).NotTo(HaveOccurred())
	Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
}

func stopManager() { cp.End(manager.Process) }

// testEnv has the objects of one scenario. Scenarios run one after the other in an empty
// cluster.
type testEnv struct {
	// nodes is the number of nodes, and pods has the pods by name.
	nodes int
	pods  map[string]*v1.Pod
}

// newTestEnv deletes all pods and nodes when the scenario ends.
func newTestEnv() *testEnv {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		for _, namespace := range []string{metav1.NamespaceDefault, blue, red} {
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
		}
		Expect(admin.DeleteAllOf(ctx, &v1.Node{})).To(Succeed())
	}, NodeTimeout(eventuallyTimeout))
	return &testEnv{pods: map[string]*v1.Pod{}}
}

// addedLabel is a label of the last node of each call of addNodes, whose number is added.
const addedLabel = "placement.test/added"

var added int

// addNodes creates nodes, status included, and waits until Berth knows them, and that those of
// the previous scenario are gone. Berth receives nodes in order, so it does when it binds a pod to
// the last one, which has a label of its own: other scenarios have nodes of the same names. It
// receives that pod after all earlier pods, those of the previous scenario included.
func (env *testEnv) addNodes(ctx context.Context, nodes ...*fixture.NodeBuilder) {
	GinkgoHelper()
	if len(nodes) == 0 {
		return
	}
	added++
	label := fmt.Sprint(added)
	nodes[len(nodes)-1].Label(addedLabel, label)
	var last *v1.Node
	for _, node := range nodes {
		last = node.Obj()
		Expect(admin.Create(ctx, last)).To(Succeed())
	}
	env.nodes += len(nodes)
	probePod := fixture.Pod("probe").RequireNodeAffinity(fixture.NodeNameTerm(last.Name)).NodeSelector(addedLabel, label).
		Toleration(v1.Toleration{Operator: v1.TolerationOpExists}).Valid()
	Expect(admin.Create(ctx, probePod)).To(Succeed())
	Eventually(admin.NodeName(ctx, probePod)).Should(Equal(last.Name), func() string { return "PodScheduled of the probe: " + apitest.PodScheduled(probePod) })
	admin.Remove(ctx, probePod)
}

// createPod creates a pod and does not wait for its result.
func (env *testEnv) createPod(ctx context.Context, pod *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	created := pod.Valid()
	Expect(admin.Create(ctx, created)).To(Succeed())
	env.pods[created.Name] = created
	return created
}

// decisionRecord is the content of a bound pod's annotation.
type decisionRecord struct {
	Node               string
	Feasible, Attempts int
	Top                []decision.NodeScore
}

// topNodes returns the nodes with the highest score. A single feasible node has no score.
func (s decisionRecord) topNodes() (nodes []string) {
	if s.Feasible == 1 {
		return []string{s.Node}
	}
	for _, n := range s.Top {
		if n.Score == s.Top[0].Score {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes
}

func readRecord(pod *v1.Pod) (s decisionRecord) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &s)).To(Succeed(), "the annotation of %s", pod.Name)
	return s
}

// The profiles. A pod without schedulerName gets defaultProfile, which is kube-scheduler's
// default.
const (
	defaultProfile = v1.DefaultSchedulerName
	// otherProfile is the same with another name.
	otherProfile = "other"
	// leastAllocated and mostAllocated score nodes by CPU, memory and, with twice the
	// weight, GPUs.
	leastAllocated = "least-gpu"
	mostAllocated  = "most-gpu"
	// Each of these has one score plugin.
	scoreNodeAffinity = "by-nodes"
	scorePodAffinity  = "by-pods"
	scoreTaints       = "by-taints"
	scoreImages       = "by-images"
	scoreSpread       = "by-spread"
)

// gpu is an extended resource.
const gpu = "example.com/gpu"

// profiles returns the specs by name.
func profiles() map[string]v1alpha1.SchedulingProfileSpec {
	all := map[string]v1alpha1.SchedulingProfileSpec{
		defaultProfile:    {},
		otherProfile:      {},
		leastAllocated:    fitStrategy(configv1.LeastAllocated),
		mostAllocated:     fitStrategy(configv1.MostAllocated),
		scoreNodeAffinity: singleScorer("NodeAffinity", true),
		scorePodAffinity:  singleScorer("InterPodAffinity", true),
		scoreTaints:       singleScorer("TaintToleration", true),
		scoreImages:       singleScorer("ImageLocality", false),
		scoreSpread:       singleScorer("PodTopologySpread", true),
	}
	for name, spec := range all {
		// Unschedulable pods are requeued by events only, and annotations name the best
		// nodes.
		spec.Queue.FlushAfterSeconds = new(int32(0))
		spec.Decisions.Detail, spec.Decisions.TopScores = v1alpha1.DetailNodes, new(int32(10))
		all[name] = spec
	}
	return all
}

// singleScorer returns the default profile with one score plugin, which may have a
// PreScore.
func singleScorer(plugin string, prepares bool) v1alpha1.SchedulingProfileSpec {
	nothing := v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: v1alpha1.AllPlugins}}}
	only := nothing
	only.Enabled = []v1alpha1.EnabledPlugin{{Name: plugin}}
	plugins := &v1alpha1.Plugins{PreScore: nothing, Score: only}
	if prepares {
		plugins.PreScore = only
	}
	return v1alpha1.SchedulingProfileSpec{Plugins: plugins}
}

// fitStrategy returns the default profile with a scoring strategy of NodeResourcesFit.
func fitStrategy(strategy configv1.ScoringStrategyType) v1alpha1.SchedulingProfileSpec {
	args, err := json.Marshal(configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
		Type: strategy, Resources: []configv1.ResourceSpec{
			{Name: string(v1.ResourceCPU), Weight: 1}, {Name: string(v1.ResourceMemory), Weight: 1}, {Name: gpu, Weight: 2},
		},
	}})
	Expect(err).NotTo(HaveOccurred())
	return v1alpha1.SchedulingProfileSpec{PluginConfig: []v1alpha1.PluginArguments{
		{Name: "NodeResourcesFit", Args: &runtime.RawExtension{Raw: args}},
	}}
}

// README.md must name existing specs only, and each table.
var _ = ReportAfterSuite("README.md", func(report Report) {
	text, err := os.ReadFile("README.md")
	Expect(err).NotTo(HaveOccurred())
	Expect(readme.UnknownNames(string(text), report)).To(BeEmpty(), "names without a spec")
	Expect(readme.UnnamedContainers(string(text), report)).To(BeEmpty(), "tables without a name")
})
