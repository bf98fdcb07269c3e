//go:build tracing

// Package tracing tests traces with the OpenTelemetry Collector: a running manager sends them,
// and the specs read the output of the Collector's file exporter. It is built for make tracing
// only, since the Collector takes minutes to compile.
package tracing

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

func TestTracing(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "tracing")
}

const minute = NodeTimeout(time.Minute)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// root is the repository, and binary the shipped manager.
	root, binary string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	binary, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = operator.Cluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"n1", "n2"} {
		node := fixture.Node(name).Capacity("cpu", "4", "pods", "110").Obj()
		_, err := cp.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}, NodeTimeout(15*time.Minute))

// startManager starts a manager with additional flags; end ends it.
func startManager(ctx context.Context, flags ...string) (end func()) {
	GinkgoHelper()
	manager, err := operator.Start(ctx, cp, binary, flags...)
	Expect(err).NotTo(HaveOccurred())
	end = func() { cp.End(manager.Process) }
	DeferCleanup(end)
	Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
	return end
}
