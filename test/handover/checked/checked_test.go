// Package checked runs the checker on the shipped manager: a change of the profile, one that is
// refused, a preemption, a pod that waits, and another leader.
package checked

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// profile is the name of the only profile, namespace that of most pods.
	profile, namespace = "checked", "default"
	// lease is the duration of the Lease: long enough for a busy machine.
	lease = 6 * time.Second
)

func TestChecked(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "checked")
}

// testEnv is a control plane with a checker.
type testEnv struct {
	cp     *controlplane.ControlPlane
	admin  apitest.API
	check  *checker.Checker
	binary string
}

var _ = Describe("The checker, on the shipped manager", func() {
	It("finds no violation while the profile changes, a pod is preempted, and another manager leads", func(ctx SpecContext) {
		env := start(ctx)
		first := env.manager(ctx, "first")
		Expect(operator.ApplyProfile(ctx, env.cp, profile, spec(50))).To(Succeed())
		Expect(operator.UntilProgrammed(ctx, env.cp, profile)).Error().NotTo(HaveOccurred())
		env.manager(ctx, "second")
		env.admin.ExpectBound(ctx, env.pods(ctx, "web", 3, "500m")...)

		By("the profile changes, and a change is refused")
		Expect(operator.ApplyProfile(ctx, env.cp, profile, spec(60))).To(Succeed())
		Expect(operator.UntilProgrammed(ctx, env.cp, profile)).Error().NotTo(HaveOccurred())
		env.admin.ExpectBound(ctx, env.pods(ctx, "more", 3, "500m")...)
		env.refuseChange(ctx)
		Expect(operator.ApplyProfile(ctx, env.cp, profile, spec(70))).To(Succeed())
		Expect(operator.UntilProgrammed(ctx, env.cp, profile)).Error().NotTo(HaveOccurred())

		By("a pod of a higher priority takes the place of others")
		env.admin.ExpectBound(ctx, env.pods(ctx, "rest", 2, "500m")...) // the nodes are full
		high := env.admin.Pod(ctx, pod("high", "900m").Mutate(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }))
		env.admin.ExpectBound(ctx, high)
		env.admin.ExpectRefused(ctx, "Insufficient cpu", env.admin.Pod(ctx, pod("other/big", "10")))

		By("another manager leads")
		_, err := operator.UntilProfile(ctx, env.cp, profile, "counts all binds", func(p *v1alpha1.SchedulingProfile) bool {
			return p.Status.Totals != nil && p.Status.Totals.Bound == 9
		})
		Expect(err).NotTo(HaveOccurred())
		env.check.ForgetProcess("first")
		first.Kill()
		env.cp.End(first.Process)
		env.admin.Remove(ctx, high)
		env.admin.ExpectBound(ctx, env.pods(ctx, "last", 1, "500m")...)

		report, err := env.check.End(ctx)
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("checker", report.String())
		Expect(report.Violations).To(BeEmpty(), report.String())
		Expect(report.ByEpoch).To(HaveLen(2), "leaders that bound pods")
		for _, i := range []checker.Invariant{
			checker.I1, checker.I3, checker.I4, checker.I6, checker.I7, checker.I10, checker.I13, checker.I15, checker.I16, checker.I17, checker.I18,
			checker.I21, checker.Foreign, checker.Status, checker.Complete,
		} {
			Expect(report.Checked[i]).To(BeNumerically(">", 0), "checks of %s", i)
		}
	}, SpecTimeout(4*time.Minute))
})

// start starts the control plane with two nodes of two CPUs, and the checker.
func start(ctx context.Context) *testEnv {
	GinkgoHelper()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	env := &testEnv{}
	var err error
	env.binary, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	log, flags, err := checker.AuditFlags(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	env.cp, err = operator.Cluster(ctx, flags...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.cp.Stop)
	env.check, err = checker.Start(ctx, env.cp, checker.Options{Audit: []audit.Log{log}, SampleEvery: time.Second})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.check.Stop)
	env.admin.Client, err = client.New(env.cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	for i := range 2 {
		Expect(env.admin.Create(ctx, fixture.Node(fmt.Sprint("n", i)).Capacity("cpu", "2", "memory", "8Gi", "pods", "10").Obj())).To(Succeed())
	}
	Expect(env.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})).To(Succeed())
	Expect(env.admin.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})).To(Succeed())
	return env
}

// spec is a spec that differs by a number from others. Its status is written every second.
func spec(percentage int32) v1alpha1.SchedulingProfileSpec {
	return v1alpha1.SchedulingProfileSpec{
		PercentageOfNodesToScore: percentage, Decisions: v1alpha1.DecisionPolicy{PublishSeconds: new(int32(1))},
	}
}

// manager starts a manager, and waits until it is ready.
func (env *testEnv) manager(ctx context.Context, name string) *operator.Manager {
	GinkgoHelper()
	m, err := operator.Start(ctx, env.cp, env.binary, "--default-profile=", "--leader-elect-lease-duration="+lease.String(),
		"--leader-elect-renew-deadline="+(lease*2/3).String(), "--leader-elect-retry-period="+(lease/15).String())
	Expect(err).NotTo(HaveOccurred())
	env.check.AddProcess(checker.Process{Name: name, PID: m.PID(), Pprof: m.Profiles})
	Expect(m.Until(ctx, m.Ready)).To(Succeed())
	return m
}

// refuseChange applies a spec that is refused, and waits until its conditions say so.
func (env *testEnv) refuseChange(ctx context.Context) {
	GinkgoHelper()
	refused := spec(60)
	refused.Plugins = &v1alpha1.Plugins{Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Missing"}}}}
	Expect(operator.ApplyProfile(ctx, env.cp, profile, refused)).To(Succeed())
	_, err := operator.UntilProfile(ctx, env.cp, profile, "is refused", func(p *v1alpha1.SchedulingProfile) bool {
		return p.Status.ObservedGeneration == p.Generation && !operator.IsProgrammed(p)
	})
	Expect(err).NotTo(HaveOccurred())
}

// pods creates n pods.
func (env *testEnv) pods(ctx context.Context, name string, n int, cpu string) (pods []*corev1.Pod) {
	GinkgoHelper()
	for i := range n {
		pods = append(pods, env.admin.Pod(ctx, pod(fmt.Sprintf("%s/%s-%d", namespace, name, i), cpu)))
	}
	return pods
}

func pod(name, cpu string) *fixture.PodBuilder {
	return fixture.Pod(name).SchedulerName(profile).Requests("cpu", cpu)
}
