package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins"
)

// The one account that every spec's manager has.
const (
	namespace      = "berth-system"
	serviceAccount = "berth-manager"
)

// manager is a Berth that runs in this process.
type manager struct {
	// config is that of its clients.
	config    *rest.Config
	ledger    *decision.Ledger
	scheduler *scheduler.Scheduler
	// elected is closed when it leads.
	elected <-chan struct{}
	// stop ends it and waits until it has ended.
	stop func()
}

// startManager runs a manager with the rights that are shipped, put together
// as main.go does, but for three plugins more.
func startManager(ctx context.Context) *manager {
	GinkgoHelper()
	cfg, err := cp.ServiceAccountConfig(ctx, namespace, serviceAccount)
	Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(cfg)
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "berth-manager",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		RetryPeriod:                   ptr.To(time.Second),
		// Several managers of one process have controllers of one name.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	Expect(err).NotTo(HaveOccurred())

	all, ledger := registry(), decision.NewLedger(time.Now)
	informers := intake.NewInformers(client)
	devices, err := intake.NewDeviceClasses(client.Discovery(), informers)
	Expect(err).NotTo(HaveOccurred())
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	sched := scheduler.New(scheduler.Options{
		Client: client, KubeConfig: cfg, Informers: informers,
		RecorderFor: func(profile string) events.EventRecorderLogger { return broadcaster.NewRecorder(scheme, profile) },
		Registry:    all, Unsupported: plugins.Unsupported(all, devices.Back), Ledger: ledger,
		Clock: clock.RealClock{}, Log: ctrl.Log.WithName("scheduler"),
	})
	Expect(mgr.Add(scheduler.Warm{Scheduler: sched})).To(Succeed())
	Expect(mgr.Add(sched)).To(Succeed())
	Expect(controllers.SetupWithManager(mgr, controllers.Options{
		Applier: sched.Profiles(), Registry: all, Ledger: ledger, Version: "integration",
	})).To(Succeed())

	running, cancel := context.WithCancel(context.Background())
	Expect(broadcaster.StartRecordingToSinkWithContext(running)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	return &manager{config: cfg, ledger: ledger, scheduler: sched, elected: mgr.Elected(), stop: func() {
		cancel()
		Eventually(done).Should(Receive(BeNil()), "the manager ends")
		broadcaster.Shutdown()
	}}
}
