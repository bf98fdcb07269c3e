// Package flowcontrol shows that config/components/flow-control keeps Berth's requests
// apart from those of a crowd that fills the API server.
package flowcontrol

import (
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
)

func TestFlowControl(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "flow control")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	// A tenth of what an API server serves at once as it is shipped: few requests that
	// take long fill it.
	cp, err = operator.Cluster(ctx, "--max-requests-inflight=40", "--max-mutating-requests-inflight=20")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Kubectl(ctx, nil, "apply", "--server-side", "--kustomize="+filepath.Join(root, "test", "install", "flowcontrol", "install"))
	Expect(err).NotTo(HaveOccurred())
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(15*time.Minute))
