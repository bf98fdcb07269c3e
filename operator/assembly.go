package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/recorder"
	"github.com/berthdev/berth/scheduler/unserved"
)

// eventReporter is the reporting controller of Events that are not about one profile.
const eventReporter = "berth"

// connect creates the clients, the event recorder and the trace exporter. Only the
// trace exporter runs yet.
func (m *Manager) connect(ctx context.Context) (err error) {
	if err := errors.Join(clientgoscheme.AddToScheme(m.scheme), v1alpha1.AddToScheme(m.scheme)); err != nil {
		return err
	}
	if m.config, err = m.restConfig(m.settings.givenConfig); err != nil {
		return err
	}
	retryWatches(m.config)
	host, _ := os.Hostname() // Events and traces do without it
	if m.traces, err = m.tracing.start(ctx, host, m.version, m.log); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.traces.close(ctx)
		}
	}()
	m.term = leadership.New(clock.RealClock{}, m.leaderElection.RenewDeadline, m.leaseLost)
	if m.clients, err = newClients(m.config, m.configForWrites(), m.keepsUntrimmedPods(), m.term, m.traces); err != nil {
		return err
	}
	m.events = recorder.New(recorder.Options{
		Client: m.clients.events.EventsV1(), Scheme: m.scheme, Clock: clock.RealClock{}, Log: m.log, Busy: m.clients.bindsInProgress, Host: host,
	})
	m.shutdown = &shutdown{requested: m.stopCtx, timeout: m.shutdownTimeout, leads: func() bool { return m.term.Err() == nil }}
	return nil
}

// configForWrites returns the client configuration for writes, with the rate limits of
// the flags.
func (m *Manager) configForWrites() *restclient.Config {
	if m.settings.givenWriteConfig == nil {
		return m.config
	}
	return m.withClientFlags(m.settings.givenWriteConfig)
}

// close stops the probes, writes the remaining Events and sends the remaining traces,
// after everything else has ended.
func (m *Manager) close() {
	m.probeServer.close()
	ctx, cancel := context.WithTimeout(context.Background(), m.shutdown.finalEventsTimeout())
	defer cancel()
	var traces sync.WaitGroup
	traces.Go(func() { m.traces.close(ctx) })
	m.events.Close(ctx)
	traces.Wait()
}

// createManager creates controller-runtime's manager.
func (m *Manager) createManager() error {
	options := m.managerOptions(m.scheme, m.log, m.shutdown)
	options.Metrics.FilterProvider = serveRegistry(m.metricsRegistry, options.Metrics.FilterProvider)
	var err error
	if options.LeaderElectionResourceLockInterface, err = m.lease(m.term, m.config, m.events, func(ctx context.Context) bool { return m.clients.hadLeader(ctx, m.options) }); err != nil {
		return err
	}
	if m.mgr, err = ctrl.NewManager(m.config, options); err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	return nil
}

// keepsUntrimmedPods reports whether extenders or plugins may read every field of a pod.
func (m *Manager) keepsUntrimmedPods() bool {
	return m.enableExtenders || plugins.NeedsUntrimmedPods(m.registry)
}

// createScheduler creates the scheduler, and registers its metrics and those of the
// other packages.
func (m *Manager) createScheduler() error {
	m.ledger = decision.NewLedger(clock.RealClock{}.Now)
	m.explanations = explain.NewQueue(m.explanationTime, m.ledger)
	trim := eventhandlers.Trim(m.keepsUntrimmedPods())
	m.informers = eventhandlers.NewInformers(m.clients.watches, trim)
	m.sched = scheduler.New(scheduler.Options{
		Client: m.clients.writes, VolumeClient: m.clients.volumes, WatchClient: m.clients.watches, Dynamic: m.clients.dynamic, KubeConfig: m.config,
		Informers: m.informers, Transform: trim, Storage: m.serverInfo.storage, PodGroups: m.serverInfo.podGroups, Devices: m.serverInfo.deviceKinds, RecorderFor: m.events.For,
		Registry: m.registry, Unsupported: plugins.Unsupported(m.registry), Ledger: m.ledger, Explanations: m.explanations,
		Clock: clock.RealClock{}, Log: m.log.WithName("scheduler"), Epoch: func(context.Context) int64 { return m.term.Epoch() },
		Handover: m.clients.handover(m.options, m.term, m.serverInfo.hadLeader, &m.profileCache, m.log), ShutdownContext: m.shutdown.bindingContext, Seed: rand.Uint64(),
		Extender: m.extenderClients(), Tracer: m.traces.tracer(),
		CacheBytes: readContainerMemory(os.DirFS("/")).equivalenceCacheSize(&m.cacheSize.Quantity),
	})
	m.shutdown.schedulingDone = m.sched.Ended()
	for _, collector := range slices.Concat(m.sched.Metrics(), explain.Metrics(), recorder.Metrics(), unserved.Metrics(), controllers.Metrics()) {
		if err := m.metricsRegistry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// addRunnables adds to controller-runtime's manager all that it runs, and the debug
// handler to its metrics server.
func (m *Manager) addRunnables() error {
	readiness := &controllers.ReadinessCheck{}
	m.crds = &crdWaiter{
		discovery: m.clients.watches.Discovery(), mapper: m.mgr.GetRESTMapper(), log: m.log,
		onServed: func() error { return m.setupControllers(readiness) },
	}
	m.checks = probeChecks{
		live: map[string]func() error{
			"loop":            m.sched.NewWatchdog(m.watchdogTimeout).Check,
			"leader-election": func() error { return m.term.CheckRenewal(m.leaderElection.LeaseDuration + leaseTolerance) },
		},
		ready: map[string]func() error{"cluster": m.sched.Ready, "crds": m.crds.ready, "profiles": readiness.Ready, "shutdown": m.shutdown.ready},
	}
	if m.watchdogTimeout == 0 {
		delete(m.checks.live, "loop")
	}
	if err := errors.Join(
		m.mgr.Add(scheduler.Standby{Scheduler: m.sched}),
		m.mgr.Add(stopOnRequest{m.sched, m.sched.Start, m.stopCtx}),
		m.mgr.Add(m.events),
		m.mgr.Add(m.unservedWatch()),
		m.mgr.Add(m.crds),
	); err != nil {
		return err
	}
	if m.metrics.secure { // without authentication anybody could read it
		if err := m.mgr.AddMetricsServerExtraHandler(debugPath, newDebugHandler(m.sched, m.clients.watches, m.log)); err != nil {
			return err
		}
	}
	m.probeServer.set(m.checks)
	return nil
}

// unservedWatch returns what reports pods whose schedulerName no scheduler serves.
func (m *Manager) unservedWatch() *unserved.Reporter {
	pods := m.informers.Core().V1().Pods()
	return unserved.New(unserved.Options{
		Pods: pods.Lister(), Synced: pods.Informer().HasSynced, Profiles: m.sched.Profiles(), OtherSchedulers: m.otherSchedulers,
		HoldReasons:   []string{queue.ProfileDeleted, queue.ProfilePaused, queue.NamespaceNotAllowed, queue.ProfileNotRunning},
		ProfileExists: profileExists(m.clients.meta), NamesOfProfiles: profilesToFence(m.clients.meta, m.options),
		ClosestName: compile.Suggest, Recorder: m.events.For(eventReporter), Clock: clock.RealClock{}, Log: m.log.WithName("unserved"),
	})
}

// profileExists returns a function that reads from the API server whether a profile exists. Without
// the CRDs none does, for which a typed client would have an error.
func profileExists(reader metadata.Interface) func(ctx context.Context, name string) (bool, error) {
	profiles := reader.Resource(v1alpha1.GroupVersion.WithResource("schedulingprofiles"))
	return func(ctx context.Context, name string) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, leadership.PageTimeout) // the request may be lost
		defer cancel()
		_, err := profiles.Get(ctx, name, metav1.GetOptions{})
		return err == nil, client.IgnoreNotFound(err)
	}
}

// setupControllers adds the controllers to the manager, once their CRDs are served.
func (m *Manager) setupControllers(readiness *controllers.ReadinessCheck) error {
	pods := m.informers.Core().V1().Pods()
	writes, err := newControllerClient(m.config, client.Options{Scheme: m.scheme, Mapper: m.mgr.GetRESTMapper()}, m.term)
	if err != nil {
		return err
	}
	return controllers.SetupWithManager(m.mgr, controllers.Options{
		Applier: m.sched.Profiles(), Registry: m.registry, Ledger: m.ledger, Queue: m.sched, Version: m.version, Readiness: readiness, ProfileCache: &m.profileCache,
		DefaultProfile: m.defaultProfile, OtherSchedulers: m.otherSchedulerOptions(), Extenders: m.extenderPermissions(), FinalWrites: m.shutdown.finalWrites,
		BindsInProgress: m.clients.bindsInProgress, Explanations: m.explanations, DecisionClient: m.clients.decisions, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		Writes:  writes,
		Crashes: m.crashReports.crashes(), CrashesRecorded: m.crashReports.markRecorded,
		Exporter: m.clients.newExporter(m.namespace, m.registry), History: m.clients.newHistory(m.namespace, m.processID, m.probation),
	})
}
