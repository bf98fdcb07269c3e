// Package integration tests the manager on a real kube-apiserver and etcd, with the
// ServiceAccount and the roles of config/default and of the components that come with a
// flag. All specs share one control plane.
package integration

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/readme"
)

const (
	// eventuallyTimeout is the timeout of Eventually.
	eventuallyTimeout = 30 * time.Second
	// pollingInterval is how often Eventually polls.
	pollingInterval = 50 * time.Millisecond
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
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)

	var rules []string
	var err error
	auditLog, rules, err = audit.New(GinkgoT().TempDir(), audit.User(managerAccount))
	Expect(err).NotTo(HaveOccurred())
	serverMinor, err = controlplane.Minor(ctx, "kube-apiserver")
	Expect(err).NotTo(HaveOccurred())
	cp, err = operator.Cluster(ctx, append(rules, schedulingGroupFlags()...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	_, err = kubectl(ctx, "apply", "--server-side", "--kustomize", "install")
	Expect(err).NotTo(HaveOccurred())
	// The manager looks for this kind when it starts.
	_, err = kubectl(ctx, "apply", "--server-side", "-f", "scenarios/groups/testdata/coscheduling.yaml")
	Expect(err).NotTo(HaveOccurred())
	_, err = kubectl(ctx, "wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io")
	Expect(err).NotTo(HaveOccurred())

	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	berth = startManager(ctx)
	DeferCleanup(stopManager)
}, NodeTimeout(15*time.Minute))

// kubectl runs kubectl as the administrator. The error has its output.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return cp.Kubectl(ctx, nil, args...)
}

const (
	// namespace is Berth's namespace.
	namespace = operator.Namespace
	// version is Berth's version, on which the hashes in the documentation depend.
	version = "integration"
)

// TestMain runs the manager in the processes that StartSelf starts.
func TestMain(m *testing.M) {
	operator.Main(m, func() {
		config, err := operator.SelfConfig()
		if err != nil {
			panic(err)
		}
		killAtWrites(config)
		manager.MainWith(manager.WithRESTConfig(config), manager.WithPlugins(testPlugins()...), manager.WithVersion(version))
	})
}

// startManager runs a manager in this process with the shipped permissions, these flags,
// and the options of the suite.
func startManager(ctx context.Context, flags ...string) *operator.InProcess {
	GinkgoHelper()
	return runManager(accountConfig(ctx), flags, suiteOptions()...)
}

func accountConfig(ctx context.Context) *rest.Config {
	GinkgoHelper()
	config, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// suiteOptions returns these options, the suite's plugins, and a probation that is short
// and long enough for a spec to observe.
func suiteOptions(with ...manager.Option) []manager.Option {
	return append(with, manager.WithPlugins(testPlugins()...), manager.WithVersion(version),
		manager.WithProbation(2*time.Second), manager.WithExplanationTime(explanationTime))
}

func runManager(config *rest.Config, flags []string, with ...manager.Option) *operator.InProcess {
	GinkgoHelper()
	m, err := operator.Run(config, flags, with...)
	Expect(err).NotTo(HaveOccurred())
	return m
}

func stopManager() {
	GinkgoHelper()
	Expect(berth.Stop()).To(Succeed())
}

// startManagerProcess starts a manager in its own process, with variables of the
// environment as NAME=value. The suite's own manager must be stopped.
func startManagerProcess(ctx SpecContext, environment ...string) *operator.Manager {
	GinkgoHelper()
	child, err := operator.StartSelfIn(ctx, cp, environment, slices.Concat(operator.SteadyLease, []string{"--default-profile="})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(child.Process) })
	return child
}

// stopManagerProcess sends SIGTERM to a manager and waits for its end.
func stopManagerProcess(ctx SpecContext, child *operator.Manager) {
	GinkgoHelper()
	Expect(cp.Terminate(ctx, child.Process)).To(BeZero(), "exit code")
}

// The suite test/integration/scenarios/volumes has no extenders, so this suite has the
// specs that its README lists under them.
var _ = ReportAfterSuite("test/integration/scenarios/volumes/README.md", func(report Report) {
	text, err := os.ReadFile("scenarios/volumes/README.md")
	Expect(err).NotTo(HaveOccurred())
	section, _ := readme.Section(string(text), "Extenders")
	Expect(section).NotTo(BeEmpty())
	Expect(readme.UnknownNames(section, report)).To(BeEmpty(), "names without a spec")
})
