// Package placement plays scenarios on a real kube-apiserver: where a pod goes
// in a cluster that stands still or takes a few steps, and with what words it is
// refused. Berth is the manager that ships, a process with the rights of its
// ServiceAccount; nobody looks into it. README.md says which behaviour of
// kube-scheduler's own integration tests each scenario stands for.
package placement

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// patience bounds every wait for something that must come, pulse is how
	// often it is looked for.
	patience = 30 * time.Second
	pulse    = 20 * time.Millisecond
	// minute bounds one scenario.
	minute = SpecTimeout(time.Minute)
)

// The namespaces that scenarios play in, besides default; their label team
// tells them apart.
const (
	blue = "blue"
	red  = "red"
)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// binary is the manager's, house the one that runs now.
	binary string
	house  *operator.Manager
)

func TestPlacement(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "placement")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pulse)
	var err error
	binary, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: []string{
		// Nodes come as they are written: nobody is here to find them ready.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// Who asks for memory bears with a node that is short of it.
		"--enable-admission-plugins=PodTolerationRestriction",
		// What the API server refuses cannot be held against a pod: operators, and
		// what needs a feature that 1.35 has off.
		"--feature-gates=TaintTolerationComparisonOperators=true,NodeDeclaredFeatures=true,RestartAllContainersOnContainerExits=true",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cp)).To(Succeed())
	for _, team := range []string{blue, red} {
		Expect(admin.Create(ctx, fixture.Namespace(team).Label("team", team).Obj())).To(Succeed())
	}
	startManager(ctx)
	for name, spec := range profiles() {
		Expect(operator.ApplyProfile(ctx, cp, name, spec)).To(Succeed())
		Expect(operator.UntilProgrammed(ctx, cp, name)).Error().NotTo(HaveOccurred())
	}
}, NodeTimeout(15*time.Minute))

// startManager starts the manager and waits until it is ready. flags win over
// those that it is always given.
func startManager(ctx context.Context, flags ...string) {
	GinkgoHelper()
	var err error
	house, err = operator.Start(ctx, cp, binary, append([]string{"--default-profile=", "--other-scheduler-lease=none"}, flags...)...)
	Expect(err).NotTo(HaveOccurred())
	Expect(house.Until(ctx, house.Ready)).To(Succeed())
}

func stopManager() { cp.End(house.Process) }
