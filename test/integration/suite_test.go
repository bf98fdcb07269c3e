// Package integration shows the manager at work on a real kube-apiserver and
// etcd, under the ServiceAccount and the roles that config/default ships, and those of
// the components that come with a flag. One control plane serves the whole suite; each theme has a file of its own.
package integration

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// patience bounds every wait for something that must come.
	patience = 30 * time.Second
	// pulse is how often it is looked for.
	pulse = 50 * time.Millisecond
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// serverMinor is the minor version of the API server: 37 for v1.37.1.
	serverMinor int
	// berth is the manager that runs now.
	berth *operator.InProcess
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "integration")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)

	var rules []string
	var err error
	asked, rules, err = audit.New(GinkgoT().TempDir(), audit.User(managerAccount))
	Expect(err).NotTo(HaveOccurred())
	serverMinor, err = controlplane.Minor(ctx, "kube-apiserver")
	Expect(err).NotTo(HaveOccurred())
	cp, err = operator.Cluster(ctx, append(rules, gangFlags()...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	_, err = kubectl(ctx, "apply", "--server-side", "--kustomize", "install")
	Expect(err).NotTo(HaveOccurred())

	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	berth = startManager(ctx)
	DeferCleanup(stopManager)
}, NodeTimeout(15*time.Minute))

// kubectl runs as the administrator. The error holds what kubectl said.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return cp.Kubectl(ctx, nil, args...)
}
