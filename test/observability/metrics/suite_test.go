// Package metrics scrapes a running manager.
package metrics

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	process "github.com/berthdev/berth/test/support/operator"
)

const (
	minute = SpecTimeout(time.Minute)
)

func TestMain(m *testing.M) {
	process.Main(m, func() { operator.Main(plugins.Register("Waits", newWaits, (*waits)(nil), nil)) })
}

// waits returns Wait at Permit for each pod, with a short time-out.
type waits struct{}

func newWaits(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return waits{}, nil }

func (waits) Name() string { return "Waits" }

func (waits) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), 10 * time.Millisecond
}

func TestMetrics(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "metrics")
}

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// reader and stranger are tokens: of an account that may scrape, and of one that may not.
	reader, stranger string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	cp, err = process.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: process.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	reader, err = process.AccountWith(ctx, cp, "prometheus", process.ScrapeRole)
	Expect(err).NotTo(HaveOccurred())
	stranger, err = process.AccountWith(ctx, cp, "stranger", "")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"n1", "n2"} {
		node := fixture.Node(name).Capacity("cpu", "4", "pods", "110").Obj()
		_, err := cp.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}, NodeTimeout(15*time.Minute))

// startManager starts a manager with additional flags, which ends with the spec.
func startManager(ctx context.Context, flags ...string) *process.Manager {
	GinkgoHelper()
	manager, err := process.StartSelf(ctx, cp, flags...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(manager.Process) })
	Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
	return manager
}
