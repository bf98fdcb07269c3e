package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// namespace is where the manager lives.
	namespace = operator.Namespace
	// version is Berth's here: the documents show hashes that it made.
	version = "integration"
)

// TestMain is the manager where StartSelf started it.
func TestMain(m *testing.M) {
	operator.Main(m, func() {
		config, err := operator.SelfConfig()
		if err != nil {
			panic(err)
		}
		tripping(config)
		manager.MainWith(manager.WithRESTConfig(config), manager.WithPlugins(testPlugins()...), manager.WithVersion(version))
	})
}

// startManager runs a manager in this process, with the rights that are shipped, more
// flags, and the options of the suite.
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

// suiteOptions add the suite's plugins, and trust a revision that ran under a manager of
// this process for so long that a spec can look at it before; with are more.
func suiteOptions(with ...manager.Option) []manager.Option {
	return append(with, manager.WithPlugins(testPlugins()...), manager.WithVersion(version),
		manager.WithProbation(2*time.Second), manager.WithExplanationTime(deskTime))
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

// startChild starts a manager beside the suite, which must have stopped its own.
// environment is what it is told besides, each as NAME=value.
func startChild(ctx SpecContext, environment ...string) *operator.Manager {
	GinkgoHelper()
	child, err := operator.StartSelfIn(ctx, cp, environment, slices.Concat(operator.ShortLease, []string{"--default-profile="})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(child.Process) })
	return child
}

// end asks a manager to end, and waits until it did.
func end(ctx SpecContext, child *operator.Manager) {
	GinkgoHelper()
	Expect(cp.Ask(ctx, child.Process)).To(BeZero(), "its exit code")
}
