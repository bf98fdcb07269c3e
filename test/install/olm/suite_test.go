// Package olm installs the bundle through the Operator Lifecycle Manager's own
// programs on a control plane without containers: the catalog is served by opm, and
// KWOK plays the pods of the Deployment. The manager itself runs as a process, with
// the rights that were installed. `make olm-e2e` runs it; `make test` does not.
package olm

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var binaries = flag.String("olm", "", "the `folder` that tools/build-olm.sh prints; empty: nothing runs")

const (
	namespace = operator.Namespace
	account   = operator.Account
	// nodes are as many as the demo wants.
	nodes = 50
	// patience bounds every wait: the lifecycle manager looks again after a minute at
	// what was not there.
	patience = 5 * time.Minute
	pulse    = 200 * time.Millisecond
)

var (
	cp    *controlplane.ControlPlane
	admin client.Client
	root  string // of the operator's module
	work  string // files of this run
)

func TestTheLifecycleManager(t *testing.T) {
	if *binaries == "" {
		t.Skip("make olm-e2e runs it")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "olm")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	work = GinkgoT().TempDir()
	cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true, KWOK: true, Scheduler: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin, err = client.New(cp.Config(), client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.Nodes(ctx, nodes, controlplane.NodeOptions{})).To(Succeed())
	startLifecycleManager(ctx)
}, NodeTimeout(15*time.Minute))

// Who ended on its own explains what is missing better than what is missing.
var _ = AfterEach(func() {
	if CurrentSpecReport().Failed() {
		AddReportEntry("ended", cp.Running())
		logs, _ := filepath.Glob(filepath.Join(cp.Dir(), "*.log"))
		for _, log := range logs {
			if text, err := os.ReadFile(log); err == nil {
				AddReportEntry(filepath.Base(log), string(text[max(0, len(text)-4000):]))
			}
		}
	}
})

// startLifecycleManager installs its kinds and runs its two operators.
func startLifecycleManager(ctx context.Context) {
	GinkgoHelper()
	Expect(cp.InstallCRDs(ctx, filepath.Join(*binaries, "crds"))).To(Succeed())
	kubectl(ctx, "create", "namespace", "olm")
	// One of them takes it from there alone.
	Expect(os.Setenv("KUBECONFIG", cp.Kubeconfig())).To(Succeed())
	_, err := cp.Run(filepath.Join(*binaries, "olm"), "--namespace=olm", "--writeStatusName=", "--writePackageServerStatusName=")
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Run(filepath.Join(*binaries, "catalog"), "--namespace=olm", "--kubeconfig="+cp.Kubeconfig(), "--writeStatusName=")
	Expect(err).NotTo(HaveOccurred())
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cp.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}
