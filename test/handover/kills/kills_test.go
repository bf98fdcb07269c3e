// Package kills kills the shipped manager repeatedly, and tests that its profiles run.
package kills

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// profiles are all on probation; the last two have no pods.
var profiles = []string{"one", "two", "three", "idle", "idle-2"}

var _ = Describe("A manager that is killed three times within a minute", func() {
	It("runs all its profiles afterwards, also those without pods, and binds their pods", func(ctx SpecContext) {
		node := fixture.Node("n1").Capacity("cpu", "100", "memory", "100Gi", "pods", "100").Obj()
		_, err := cp.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i, name := range profiles {
			spec := v1alpha1.SchedulingProfileSpec{PercentageOfNodesToScore: int32(50 + i)} // each has another hash
			Expect(operator.ApplyProfile(ctx, cp, name, spec)).To(Succeed())
		}
		crashes := "--crash-output-dir=" + GinkgoT().TempDir()
		first := time.Now()
		for range 3 {
			m := startManager(ctx, crashes)
			for _, name := range profiles {
				Eventually(expectBuilt(ctx, name, first)).Should(Succeed())
			}
			m.Kill()
			first = time.Now()
			cp.End(m.Process)
		}

		startManager(ctx, crashes)
		for i, name := range profiles {
			Eventually(expectBuilt(ctx, name, first)).Should(Succeed())
			p, err := operator.Profile(ctx, cp, name)
			Expect(err).NotTo(HaveOccurred())
			c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
			Expect(c).To(HaveField("Reason", string(v1alpha1.ReasonProgrammed)), name)
			if i < 3 {
				expectBound(ctx, name)
			}
		}
	}, SpecTimeout(3*time.Minute))

	It("holds the pods of a profile that does not run, with condition, Event and SchedulingDecision", func(ctx SpecContext) {
		startManager(ctx)
		Expect(operator.ApplyProfile(ctx, cp, "broken", v1alpha1.SchedulingProfileSpec{
			Plugins: &v1alpha1.Plugins{Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Missing"}}}},
		})).To(Succeed())
		pods := cp.Client().CoreV1().Pods("default")
		_, err := pods.Create(ctx, web("pending", "broken"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			pod, err := pods.Get(ctx, "pending", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pod.Status.Conditions).To(ContainElement(SatisfyAll(
				HaveField("Type", v1.PodScheduled), HaveField("Reason", "ProfileNotRunning"),
				HaveField("Message", ContainSubstring(`SchedulingProfile broken does not run: generation 1 was refused: spec.plugins.filter.enabled[0].name`)))))
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			events, err := cp.Client().EventsV1().Events("default").List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).To(ContainElement(SatisfyAll(
				HaveField("Regarding.Name", "pending"), HaveField("Reason", "FailedScheduling"), HaveField("Note", ContainSubstring("broken does not run")))))
			why, err := cp.Kubectl(ctx, nil, "get", "schedulingdecisions", "pending", "-o", "jsonpath={.status.blockedBy}: {.status.message}")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(why).To(HavePrefix("ProfileNotRunning: SchedulingProfile broken does not run"))
		}).Should(Succeed())

		Expect(operator.ApplyProfile(ctx, cp, "broken", v1alpha1.SchedulingProfileSpec{})).To(Succeed())
		Eventually(nodeOf).WithArguments(ctx, "pending").Should(Equal("n1"))
	}, SpecTimeout(2*time.Minute))
})

// startManager starts a manager with a short Lease, until the spec ends.
func startManager(ctx context.Context, flags ...string) *operator.Manager {
	GinkgoHelper()
	m, err := operator.Start(ctx, cp, manager, append(flags,
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms", "--default-profile=")...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(m.Process) })
	return m
}

// expectBuilt expects the leader to have built the profile's revision, which is on
// probation, since that second.
func expectBuilt(ctx context.Context, profile string, since time.Time) func(Gomega) {
	return func(g Gomega) {
		p, err := operator.Profile(ctx, cp, profile)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.Status.Programmed).NotTo(BeNil(), "%v", p.Status.Conditions)
		g.Expect(p.Status.Programmed.Time.Time).To(BeTemporally(">=", since.Truncate(time.Second)), "%v", p.Status.Conditions)
		r, err := cp.Client().AppsV1().ControllerRevisions(operator.Namespace).Get(ctx, p.Status.Programmed.Revision, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.Annotations).To(SatisfyAll(HaveKey(v1alpha1.AnnotationProbation), HaveKey(v1alpha1.AnnotationProcess),
			Not(HaveKey(v1alpha1.AnnotationBuildBegun))))
	}
}

// expectBound creates a pod of the profile and waits until it is bound.
func expectBound(ctx context.Context, profile string) {
	GinkgoHelper()
	_, err := cp.Client().CoreV1().Pods("default").Create(ctx, web("of-"+profile, profile), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(nodeOf).WithArguments(ctx, "of-"+profile).Should(Equal("n1"))
}

// nodeOf returns the node of a pod.
func nodeOf(ctx context.Context, pod string) (string, error) {
	p, err := cp.Client().CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
	return p.Spec.NodeName, err
}

func web(name, profile string) *v1.Pod {
	return fixture.Pod("default/" + name).SchedulerName(profile).Valid()
}

var (
	cp *controlplane.ControlPlane
	// manager is the path of the manager's binary.
	manager string
)

func TestKills(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kills")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: []string{"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	Expect(operator.Install(ctx, cp)).To(Succeed())
}, NodeTimeout(15*time.Minute))
