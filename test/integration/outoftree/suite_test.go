package main

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	eventuallyTimeout = 30 * time.Second
	minute            = SpecTimeout(time.Minute)
	twoMinutes        = SpecTimeout(2 * time.Minute)
)

func TestMain(m *testing.M) {
	operator.Main(m, main)
}

func TestOutOfTreePlugins(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "outoftree")
}

var (
	cp      *controlplane.ControlPlane
	admin   apitest.API
	manager *operator.Manager
)

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	var err error
	cp, err = operator.ClusterForPlugins(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())

	manager, err = operator.StartSelf(ctx, cp, "--default-profile=", "--leader-elect-retry-period=200ms")
	Expect(err).NotTo(HaveOccurred())
	Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
	kubectlApply(ctx, "testdata/rights-balance.yaml")
	kubectlApply(ctx, "testdata/profile.yaml")
	_, err = operator.UntilProgrammed(ctx, cp, "foreign")
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(15*time.Minute))

func kubectlApply(ctx context.Context, file string) {
	GinkgoHelper()
	_, err := cp.Kubectl(ctx, nil, "apply", "--server-side", "--force-conflicts", "-f", file)
	Expect(err).NotTo(HaveOccurred())
}

// newPod starts a pod of the profile.
func newPod(name string) *fixture.PodBuilder {
	return fixture.Pod("default/" + name).SchedulerName("foreign")
}

func createNode(ctx context.Context, b *fixture.NodeBuilder) {
	GinkgoHelper()
	apitest.Created(ctx, admin, b.Obj())
}

// currentPod returns the pod as the API server has it.
func currentPod(ctx context.Context, pod *v1.Pod) *v1.Pod {
	GinkgoHelper()
	current := &v1.Pod{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), current)).To(Succeed())
	return current
}

// degradedMessage returns the message of the profile's condition Degraded; empty when it is
// absent.
func degradedMessage(ctx context.Context) func() string {
	return func() string {
		p := &v1alpha1.SchedulingProfile{}
		Expect(admin.Get(ctx, types.NamespacedName{Name: "foreign"}, p)).To(Succeed())
		c := meta.FindStatusCondition(p.Status.Conditions, "Degraded")
		if c == nil {
			return ""
		}
		return c.Message
	}
}

// countGoroutines counts the goroutines of the scheduler that have text in their
// stacks.
func countGoroutines(ctx context.Context, text string) func() int {
	return func() int {
		profile, err := operator.Get(ctx, "http://"+manager.Profiles+"/debug/pprof/goroutine?debug=2")
		Expect(err).NotTo(HaveOccurred())
		count := 0
		for _, stack := range strings.Split(profile, "\n\n") {
			if strings.Contains(stack, text) {
				count++
			}
		}
		return count
	}
}
