package operator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/recorder"
)

// ErrLeaseLost is the error of Run when another process holds the Lease.
var ErrLeaseLost = errors.New("another process holds the Lease")

// Manager is Berth: a scheduler, the controllers of its resources, leader election,
// metrics and probes. New creates it and Run runs it, once. Several Managers can run in
// one process. Its methods are safe for concurrent use.
type Manager struct {
	options
	settings
	registry framework.Registry
	scheme   *runtime.Scheme
	// processID identifies this Manager among all that ever ran. crashReports are the
	// crashes of earlier processes of its container.
	processID    string
	crashReports *crashReports

	// stop ends stopCtx when Run is to end. cancelLeaseLost ends leaseLostCtx when
	// another process holds the Lease.
	stopCtx, leaseLostCtx context.Context
	stop, cancelLeaseLost context.CancelFunc

	// Set by connect.
	config   *restclient.Config
	clients  clients
	term     *leadership.Tracker
	events   *recorder.Recorder
	traces   *traces
	shutdown *shutdown
	// Set by waitForAPIServer.
	probeServer *probeServer
	serverInfo  serverInfo
	// Set by createManager.
	mgr ctrl.Manager
	// Set by createScheduler.
	informers    informers.SharedInformerFactory
	ledger       *decision.Ledger
	explanations *explain.Queue
	profileCache controllers.ProfileCache
	sched        *scheduler.Scheduler
	// Set by addRunnables.
	checks probeChecks
	crds   *crdWaiter
}

// New creates a Manager from the command's flags, args, and from options. It queries
// what the API server serves, opens the addresses of probes and pprof, and schedules
// nothing before Run. ctx bounds New alone. While the API server does not answer, New
// waits and serves the probes: /livez succeeds, and /readyz fails with the check
// api-server. An error names the flag, the plugin or the request that failed.
//
// New changes nothing that belongs to the process: it sets no logger, registers metrics
// in its own registry only, and does not exit. Main does that.
func New(ctx context.Context, args []string, with ...Option) (*Manager, error) {
	o, err := parseFlags(args)
	if err != nil {
		return nil, err
	}
	return build(ctx, o, with)
}

// build is New with parsed flags.
func build(ctx context.Context, o options, with []Option) (*Manager, error) {
	m := &Manager{options: o, settings: newSettings(with), scheme: runtime.NewScheme(), processID: string(uuid.NewUUID())}
	m.stopCtx, m.stop = context.WithCancel(context.Background())
	m.leaseLostCtx, m.cancelLeaseLost = context.WithCancel(context.Background())
	var err error
	if m.registry, err = plugins.With(plugins.InTree(), m.plugins...); err != nil {
		return nil, err
	}
	m.crashReports = m.openCrashReports()
	if err := m.connect(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func() error{func() error { return m.waitForAPIServer(ctx) }, m.createManager, m.createScheduler, m.addRunnables} {
		if err := step(); err != nil {
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// Run runs the Manager until ctx ends, and then shuts down within
// --graceful-shutdown-timeout: it completes bindings, writes Events and explanations,
// and releases the Lease. It returns ErrLeaseLost when another process holds the Lease,
// and another error when the Manager cannot go on. Run may be called once.
func (m *Manager) Run(ctx context.Context) error {
	defer m.close()
	defer context.AfterFunc(ctx, m.stop)()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := func() { m.crds.stop(); cancel() }
	defer context.AfterFunc(m.stopCtx, stop)()
	defer context.AfterFunc(m.leaseLostCtx, stop)()
	m.log.Info("Starting", "version", m.version, "leaderElection", m.leaderElection.LeaderElect)
	err := m.mgr.Start(ctx)
	if m.leaseLostCtx.Err() != nil {
		return ErrLeaseLost
	}
	return err
}

// leaseLost ends the Manager at once when another process holds the Lease: the other
// process does what this one would still write.
func (m *Manager) leaseLost() {
	m.log.Info("Another process holds the Lease: this one exits")
	if m.onLeaseLost != nil {
		m.onLeaseLost()
	}
	m.cancelLeaseLost()
}

// Elected returns a channel that is closed when this Manager leads and begins to
// schedule; without leader election, when it starts.
func (m *Manager) Elected() <-chan struct{} { return m.mgr.Elected() }

// Ready returns why /readyz fails; nil when this Manager may become the leader.
func (m *Manager) Ready() error { return m.checks.readiness() }

// Scheduler returns the scheduler: the running profiles, its queue and its cache, and
// the collectors of its metrics.
func (m *Manager) Scheduler() *scheduler.Scheduler { return m.sched }

// Informers returns the informers of the objects that the scheduler watches, in the
// trimmed form in which it keeps them. The objects are shared: callers must not change
// them.
func (m *Manager) Informers() informers.SharedInformerFactory { return m.informers }

// Ledger returns the recent decisions, by profile.
func (m *Manager) Ledger() *decision.Ledger { return m.ledger }

// Explanations returns the queue of explanations that are not written yet.
func (m *Manager) Explanations() *explain.Queue { return m.explanations }
