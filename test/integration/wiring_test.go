package integration

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/test/house"
	"github.com/berthdev/berth/test/operator"
)

const (
	// namespace is where the manager lives.
	namespace = operator.Namespace
	// version is Berth's here: the documents show hashes that it made.
	version = "integration"
)

// TestMain is the manager where it was started as one.
func TestMain(m *testing.M) {
	if !house.IsChild() {
		os.Exit(m.Run())
	}
	RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	house.BeChild(func(cfg *rest.Config) house.Options {
		tripping(cfg)
		return house.Options{Config: cfg, Registry: registry(), Version: version, Election: house.Hasty}
	})
}

// startManager runs a manager in this process, with the rights that are
// shipped.
func startManager(ctx context.Context) *house.House {
	GinkgoHelper()
	cfg, err := house.Account(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	return runManager(furnished(cfg))
}

// furnished has a few plugins more, and believes a revision that ran under a
// manager of this process for so long that a spec can look at it before.
func furnished(cfg *rest.Config) house.Options {
	return house.Options{
		Config: cfg, Registry: registry(), Probation: 2 * time.Second, Version: version, Election: house.Patient,
		Now: deskTime, Extenders: compile.AllExtenders, Extender: hereOnly(cfg),
	}
}

func runManager(o house.Options) *house.House {
	GinkgoHelper()
	h, err := house.Start(o)
	Expect(err).NotTo(HaveOccurred())
	return h
}

func stopManager() {
	GinkgoHelper()
	Expect(berth.Stop()).To(Succeed())
}

// startChild starts a manager beside the suite, which must have stopped its own.
// environment is what it is told besides, each as NAME=value.
func startChild(ctx SpecContext, environment ...string) *house.Child {
	GinkgoHelper()
	child, err := house.StartChild(ctx, cp, GinkgoWriter, environment...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(child.Kill)
	return child
}

// end asks a manager to end, and waits until it did.
func end(child *house.Child) {
	GinkgoHelper()
	Expect(child.Term()).To(Succeed())
	Eventually(child.Ended).Should(BeClosed())
}
