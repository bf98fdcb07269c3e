package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/recorder"
	"github.com/berthdev/berth/scheduler/tenure"
	"github.com/berthdev/berth/scheduler/unserved"
)

// reporter is who Events are from that no profile tells.
const reporter = "berth"

// connect makes the clients, the Events' writer and the traces' sender. Nothing runs
// yet but the sender.
func (m *Manager) connect(ctx context.Context) (err error) {
	if err := errors.Join(clientgoscheme.AddToScheme(m.scheme), v1alpha1.AddToScheme(m.scheme)); err != nil {
		return err
	}
	if m.config, err = m.restConfig(m.settings.config); err != nil {
		return err
	}
	rewatch(m.config)
	host, _ := os.Hostname() // an Event or a trace without it says less, and no harm
	if m.traced, err = m.tracing.start(ctx, host, m.version, m.log); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.traced.close(ctx)
		}
	}()
	m.term = tenure.New(clock.RealClock{}, m.elect.RenewDeadline, m.leaseLost)
	if m.to, err = newClients(m.config, m.writeConfig(), m.term, m.traced); err != nil {
		return err
	}
	m.telling = recorder.New(recorder.Options{
		Client: m.to.events.EventsV1(), Scheme: m.scheme, Clock: clock.RealClock{}, Log: m.log, Busy: m.to.busy, Host: host,
	})
	m.end = &ending{asked: m.asked, limit: m.ending, holds: func() bool { return m.term.Err() == nil }}
	return nil
}

// writeConfig is the way of writes to the API server, with the flags' rates.
func (m *Manager) writeConfig() *restclient.Config {
	if m.settings.writes == nil {
		return m.config
	}
	return m.paced(m.settings.writes)
}

// finish answers no probes any more, writes the Events, and sends the traces, that are
// left when all else has ended.
func (m *Manager) finish() {
	m.prober.close()
	ctx, cancel := context.WithTimeout(context.Background(), m.end.lastEvents())
	defer cancel()
	var sent sync.WaitGroup
	sent.Go(func() { m.traced.close(ctx) })
	m.telling.Close(ctx)
	sent.Wait()
}

// manage makes the manager.
func (m *Manager) manage() error {
	managed := m.manager(m.scheme, m.log, m.end)
	managed.Metrics.FilterProvider = gatherFrom(m.metricsRegistry, managed.Metrics.FilterProvider)
	var err error
	if managed.LeaderElectionResourceLockInterface, err = m.lease(m.term, m.config, m.telling); err != nil {
		return err
	}
	if m.mgr, err = ctrl.NewManager(m.config, managed); err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	return nil
}

// schedule makes the scheduler, and registers its metrics and the others'.
func (m *Manager) schedule() error {
	m.ledger, m.desk = decision.NewLedger(clock.RealClock{}.Now), decision.NewDesk(m.explanationTime)
	m.desk.CountDroppedWith(m.ledger.Dropped)
	trim := intake.Trim(m.extenders || plugins.NeedWholePods(m.registry))
	m.informers = intake.NewInformers(m.to.watches, trim)
	m.sched = scheduler.New(scheduler.Options{
		Client: m.to.writes, VolumeClient: m.to.volumes, Watches: m.to.watches, Dynamic: m.to.dynamic, KubeConfig: m.config,
		Informers: m.informers, Transform: trim, Storage: m.learned.storage, DeviceClasses: m.learned.devices, RecorderFor: m.telling.For,
		Registry: m.registry, Unsupported: plugins.Unsupported(m.registry, m.learned.devices.Back), Ledger: m.ledger, Desk: m.desk,
		Clock: clock.RealClock{}, Log: m.log.WithName("scheduler"), Epoch: func(context.Context) int64 { return m.term.Epoch() },
		Takeover: m.to.takeover(m.options, m.term, m.log), Grace: m.end.grace, Seed: rand.Uint64(),
		Extender: m.extenderClients(), Tracer: m.traced.tracer(),
		CacheBytes: memoryLimit(os.DirFS("/")).cacheBytes(&m.cache.Quantity),
	})
	m.end.scheduled = m.sched.Ended()
	for _, collector := range slices.Concat(m.sched.Metrics(), decision.Metrics(), recorder.Metrics(), unserved.Metrics(), controllers.Metrics()) {
		if err := m.metricsRegistry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// serve gives controller-runtime's manager all that it runs, and what is asked of it
// over HTTP.
func (m *Manager) serve() error {
	gate := &controllers.Gate{}
	crds := &served{discovery: m.to.watches.Discovery(), log: m.log, then: func() error { return m.control(gate) }}
	m.checks = probes{
		live: map[string]func() error{
			"loop":            m.sched.NewWatchdog(m.watchdog).Alive,
			"leader-election": func() error { return m.term.Alive(m.elect.LeaseDuration + leaseTolerance) },
		},
		ready: map[string]func() error{"cluster": m.sched.Ready, "crds": crds.ready, "profiles": gate.Ready, "shutdown": m.end.ready},
	}
	if m.watchdog == 0 {
		delete(m.checks.live, "loop")
	}
	if err := errors.Join(
		m.mgr.Add(scheduler.Warm{Scheduler: m.sched}),
		m.mgr.Add(prompt{m.sched, m.sched.Start, m.asked}),
		m.mgr.Add(m.telling),
		m.mgr.Add(m.alone()),
		m.mgr.Add(crds),
	); err != nil {
		return err
	}
	if m.metrics.secure { // otherwise anybody could ask
		if err := m.mgr.AddMetricsServerExtraHandler(debugPath, newDebugging(m.sched, m.to.watches, m.log)); err != nil {
			return err
		}
	}
	m.prober.set(m.checks)
	return nil
}

// alone tells pods that wait for a scheduler that is not there.
func (m *Manager) alone() *unserved.Watch {
	pods := m.informers.Core().V1().Pods()
	return unserved.New(unserved.Options{
		Pods: pods.Lister(), Synced: pods.Informer().HasSynced, Served: m.sched.Profiles().Names, Others: m.otherSchedulers,
		HeldFor: []string{queue.ProfileDeleted, queue.ProfilePaused, queue.NamespaceNotAllowed, queue.ProfileNotRunning},
		Exists:  m.profileExists, Gone: m.sched.Profiles().Gone,
		Nearest: compile.Nearest, Recorder: m.telling.For(reporter), Clock: clock.RealClock{}, Log: m.log.WithName("unserved"),
	})
}

// profileExists asks the API server.
func (m *Manager) profileExists(ctx context.Context, name string) (bool, error) {
	err := m.mgr.GetAPIReader().Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.SchedulingProfile{})
	return err == nil, client.IgnoreNotFound(err)
}

// control starts the controllers, once their kinds are served.
func (m *Manager) control(gate *controllers.Gate) error {
	pods := m.informers.Core().V1().Pods()
	return controllers.SetupWithManager(m.mgr, controllers.Options{
		Applier: m.sched.Profiles(), Registry: m.registry, Ledger: m.ledger, Version: m.version, Gate: gate,
		DefaultProfile: m.defaultProfile, Others: m.others(), Extenders: m.extenderRights(), LastWords: m.end.lastWords,
		Busy: m.to.busy, Desk: m.desk, Decisions: m.to.decisions, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		Crashes: m.crashed.found(), CrashesNoted: m.crashed.noted,
		Exports: export.NewKeeper(m.to.watches, m.namespace, m.registry),
		History: history.New(history.Options{
			Revisions: m.to.watches.AppsV1().ControllerRevisions(m.namespace), Namespace: m.namespace,
			Process: m.process, Clock: clock.RealClock{}, Probation: m.probation,
		}),
	})
}
