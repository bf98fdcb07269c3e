// Package groups tests groups of pods on a real kube-apiserver. Berth is the shipped manager,
// a process with the permissions of its ServiceAccount.
package groups

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// eventuallyTimeout is the timeout of Eventually, pollingInterval how often it polls.
	eventuallyTimeout = 60 * time.Second
	pollingInterval   = 50 * time.Millisecond
	// profileName is the name of the only profile.
	profileName = "gangs"
)

// specTimeout is the timeout of a scenario.
const specTimeout = SpecTimeout(4 * time.Minute)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// berth is the manager. It reaches the API server through the proxy.
	berth              atomic.Pointer[operator.Manager]
	binary, kubeconfig string
	proxy              *faultproxy.Proxy
	// scraper is a token that may read the manager's metrics.
	scraper string
)

func TestGroups(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "groups")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)
	minor, err := controlplane.Minor(ctx, "kube-apiserver")
	Expect(err).NotTo(HaveOccurred())
	if minor < 37 {
		Skip("PodGroups of scheduling.k8s.io/v1beta1 are of Kubernetes 1.37")
	}
	binary, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	const gates = "--feature-gates=GenericWorkload=true,WorkloadWithJob=true"
	cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true, ControllerManagerArgs: []string{gates}, Controllers: []string{
		"job-controller", "statefulset-controller", "serviceaccount-controller",
	}, APIServerArgs: []string{
		gates, "--runtime-config=scheduling.k8s.io/v1beta1=true",
		// No controller runs that would remove the taint from nodes that are not ready, or the
		// finalizer from PodGroups that no pod uses.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodGroupProtection",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	config := rest.CopyConfig(cp.Config())
	config.QPS = -1
	admin.Client, err = client.New(config, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.Kubectl(ctx, nil, "apply", "--server-side", "-f", "testdata/coscheduling.yaml")).Error().NotTo(HaveOccurred())
	Expect(cp.Kubectl(ctx, nil, "wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io")).Error().NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cp)).To(Succeed())
	account, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	scraper, err = operator.AccountWith(ctx, cp, "scraper", operator.ScrapeRole)
	Expect(err).NotTo(HaveOccurred())
	proxy, err = faultproxy.Start(account)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { proxy.Stop() })
	kubeconfig, err = cp.WriteKubeconfig("proxied", proxy.Config(account))
	Expect(err).NotTo(HaveOccurred())
	startBerth(ctx)
	Expect(operator.ApplyProfile(ctx, cp, profileName, gangProfile())).To(Succeed())
	Expect(operator.UntilProgrammed(ctx, cp, profileName)).Error().NotTo(HaveOccurred())
}, NodeTimeout(15*time.Minute))

// gangProfile returns the spec of the profile, which enables GangScheduling.
func gangProfile() v1alpha1.SchedulingProfileSpec {
	spec := v1alpha1.SchedulingProfileSpec{Plugins: &v1alpha1.Plugins{
		MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}},
	}}
	// Gated pods are requeued by events only.
	spec.Queue.FlushAfterSeconds = new(int32(0))
	return spec
}

// startBerth starts the manager, and waits until it is ready.
func startBerth(ctx context.Context) {
	GinkgoHelper()
	launchBerth()
	Expect(berth.Load().Until(ctx, berth.Load().Ready)).To(Succeed())
}

// launchBerth starts the manager. Others follow in time when it is killed: killed_test.go waits for one
// gang during several kills.
func launchBerth() {
	GinkgoHelper()
	manager, err := operator.StartWith(cp, binary, kubeconfig, append([]string{"--default-profile="}, operator.SteadyLease...)...)
	Expect(err).NotTo(HaveOccurred())
	berth.Store(manager)
}

// envLabel has the namespace of the scenario to which a node belongs: all have the same names.
const envLabel = "env"

// testEnv is the namespace of one scenario.
type testEnv struct{ namespace string }

// newTestEnv creates the namespace, and nodes with that many CPUs, and waits until Berth knows them,
// and that those of the scenario before are gone. When the scenario ends it deletes all that it made.
func newTestEnv(ctx context.Context, nodes, cpus int) testEnv {
	GinkgoHelper()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	env := testEnv{namespace.Name}
	DeferCleanup(func(ctx SpecContext) {
		Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(env.namespace), client.GracePeriodSeconds(0))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &schedulingv1beta1.PodGroup{}, client.InNamespace(env.namespace))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.Node{})).To(Succeed())
	}, NodeTimeout(eventuallyTimeout))
	for i := range nodes {
		apitest.Created(ctx, admin, fixture.Node(fmt.Sprint("n", i)).Label(envLabel, env.namespace).Capacity("cpu", fmt.Sprint(cpus), "memory", "64Gi", "pods", "110").Obj())
	}
	known := admin.Pod(ctx, env.pod("known", 0).NodeSelector(envLabel, env.namespace).NodeSelector(v1.LabelHostname, fmt.Sprint("n", nodes-1)))
	admin.ExpectBound(ctx, known)
	admin.Remove(ctx, known)
	return env
}

// podGroup creates a PodGroup; minCount 0 makes it one that is no gang.
func (env testEnv) podGroup(ctx context.Context, name string, minCount int32) *schedulingv1beta1.PodGroup {
	GinkgoHelper()
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}}
	if minCount > 0 {
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	} else {
		group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	return apitest.Created(ctx, admin, group)
}

// pod returns a pod with so many CPUs.
func (env testEnv) pod(name string, cpus int) *fixture.PodBuilder {
	return fixture.Pod(env.namespace+"/"+name).SchedulerName(profileName).Requests("cpu", fmt.Sprint(cpus))
}

// member returns a pod with one CPU that names a PodGroup.
func (env testEnv) member(name, group string) *fixture.PodBuilder {
	return env.pod(name, 1).Mutate(func(pod *v1.Pod) { pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} })
}

// members creates count members of a group, called group-0 and so on from first on.
func (env testEnv) members(ctx context.Context, group string, first, count int) (pods []*v1.Pod) {
	GinkgoHelper()
	for i := range count {
		pods = append(pods, admin.Pod(ctx, env.member(fmt.Sprint(group, "-", first+i), group)))
	}
	return pods
}

// waitForGroups waits until Berth knows which PodGroups there are. It receives them in order, so it
// does when it binds a member of the newest one.
func (env testEnv) waitForGroups(ctx context.Context) {
	GinkgoHelper()
	env.podGroup(ctx, "newest", 0)
	pods := env.members(ctx, "newest", 0, 1)
	admin.ExpectBound(ctx, pods...)
	admin.Remove(ctx, pods[0])
}

// expectGated expects that the queue has so many gated pods.
func expectGated(ctx context.Context, count int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		_, metrics, err := berth.Load().Scrape(ctx, scraper)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(metrics)).To(ContainSubstring("\nscheduler_pending_pods{queue=\"gated\"} %d\n", count))
	}).Should(Succeed())
}

// expectWaiting expects that pods are Unschedulable.
func expectWaiting(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False Unschedulable"), pod.Name)
	}
}

// expectCondition expects the condition PodGroupInitiallyScheduled of a PodGroup.
func expectCondition(ctx context.Context, group *schedulingv1beta1.PodGroup, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
		g.Expect(group.Status.Conditions).To(ConsistOf(And(
			HaveField("Type", schedulingv1beta1.PodGroupInitiallyScheduled), HaveField("Status", status), HaveField("Reason", reason))))
	}).Should(Succeed())
}

// boundOf returns how many of the pods have a node.
func boundOf(ctx context.Context, pods []*v1.Pod) func(Gomega) int {
	return func(g Gomega) (bound int) {
		for _, pod := range pods {
			if admin.NodeName(ctx, pod)(g) != "" {
				bound++
			}
		}
		return bound
	}
}
