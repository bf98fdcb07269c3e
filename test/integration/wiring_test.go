package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler/decision"
)

// The one account that every spec's manager has.
const (
	namespace      = "berth-system"
	serviceAccount = "berth-manager"
)

// manager is a Berth that runs in this process.
type manager struct {
	ledger  *decision.Ledger
	applier controllers.Applier
	// elected is closed when it leads.
	elected <-chan struct{}
	// stop ends it and waits until it has ended.
	stop func()
}

// startManager runs a manager with the rights that are shipped. This is the
// one place that knows how a Berth is put together.
func startManager(ctx context.Context) *manager {
	GinkgoHelper()
	cfg, err := cp.ServiceAccountConfig(ctx, namespace, serviceAccount)
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "berth",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		RetryPeriod:                   ptr.To(time.Second),
		// Several managers of one process have controllers of one name.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	Expect(err).NotTo(HaveOccurred())

	ledger, applier := decision.NewLedger(time.Now), &standIn{}
	Expect(controllers.SetupWithManager(mgr, controllers.Options{
		Applier: applier, Registry: registry(), Ledger: ledger, Version: "integration",
	})).To(Succeed())

	running, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		done <- mgr.Start(running)
	}()
	return &manager{ledger: ledger, applier: applier, elected: mgr.Elected(), stop: func() {
		cancel()
		Eventually(done).Should(Receive(BeNil()), "the manager ends")
	}}
}
