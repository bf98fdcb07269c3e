// Package kills kills the manager as it is shipped, again and again, and asks
// whether its profiles run.
package kills

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	cp *controlplane.ControlPlane
	// manager is what the suite built.
	manager string
)

func TestCrashes(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "crashes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: []string{"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	Expect(operator.Install(ctx, cp)).To(Succeed())
}, NodeTimeout(15*time.Minute))
