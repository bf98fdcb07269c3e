package operator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/recorder"
)

// ErrLeaseLost is why Run ends when another process holds the Lease.
var ErrLeaseLost = errors.New("another process holds the Lease")

// Manager is Berth: a scheduler, the controllers of its resources, leader election,
// metrics and probes. New builds it and Run runs it, once. Several Managers can run in
// one process. Its methods may be called from any goroutine.
type Manager struct {
	options
	settings
	registry framework.Registry
	scheme   *runtime.Scheme
	// process names this Manager among all that ever ran; crashed are the processes of
	// its container that crashed before.
	processID    string
	crashReports *crashReports

	// asked ends when Run is to end, by ask. lost ends when another process holds the
	// Lease, by lose.
	stopCtx, leaseLostCtx context.Context
	stop, cancelLeaseLost context.CancelFunc

	// connect sets these: the clients, and how the process ends.
	config   *restclient.Config
	clients  clients
	term     *leadership.Tracker
	events   *recorder.Recorder
	traces   *traces
	shutdown *shutdown
	// learn sets these.
	probeServer *probeServer
	serverInfo  serverInfo
	// manage sets this.
	mgr ctrl.Manager
	// schedule sets these.
	informers    informers.SharedInformerFactory
	ledger       *decision.Ledger
	explanations *explain.Queue
	sched        *scheduler.Scheduler
	// serve sets this.
	checks probeChecks
}

// New builds a Manager from the flags of the command, args, and from options. It reads
// from the API server what that serves, opens the addresses of probes and profiles, and
// schedules nothing before Run. ctx bounds the building alone. While the API server does
// not answer, New waits, and serves the probes: /livez succeeds, and /readyz fails at
// api-server. The error names the flag, the plugin or the request that failed.
//
// New changes nothing that belongs to the process: it sets no logger, registers no
// metric outside of its own registry, and ends no process. Main does that.
func New(ctx context.Context, args []string, with ...Option) (*Manager, error) {
	o, err := parseFlags(args)
	if err != nil {
		return nil, err
	}
	return build(ctx, o, with)
}

// build is New after the flags are parsed.
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

// Run runs the Manager until ctx ends, and then for as long as
// --graceful-shutdown-timeout lets it: bindings that are under way are finished, Events
// and explanations are written, and the Lease is given back. It returns ErrLeaseLost
// when another process holds the Lease, and another error when the Manager cannot go on.
// A Manager runs once.
func (m *Manager) Run(ctx context.Context) error {
	defer m.close()
	defer context.AfterFunc(ctx, m.stop)()
	running, stop := context.WithCancel(m.stopCtx)
	defer stop()
	defer context.AfterFunc(m.leaseLostCtx, stop)()
	m.log.Info("Starting", "version", m.version, "leaderElection", m.leaderElection.LeaderElect)
	err := m.mgr.Start(running)
	if m.leaseLostCtx.Err() != nil {
		return ErrLeaseLost
	}
	return err
}

// leaseLost ends the Manager when another process holds the Lease, at once: what this
// one would still write, the other one writes.
func (m *Manager) leaseLost() {
	m.log.Info("Another process holds the Lease: this one ends")
	if m.onLeaseLost != nil {
		m.onLeaseLost()
	}
	m.cancelLeaseLost()
}

// Elected is closed when this Manager leads and begins to schedule; at once where no
// leader is elected.
func (m *Manager) Elected() <-chan struct{} { return m.mgr.Elected() }

// Ready returns why /readyz fails; nil when this Manager could take over.
func (m *Manager) Ready() error { return m.checks.readiness() }

// Scheduler is the scheduler: the profiles that run, its queue and its cache, and the
// collectors of its metrics.
func (m *Manager) Scheduler() *scheduler.Scheduler { return m.sched }

// Informers hold the objects that the scheduler watches, in the form in which it keeps
// them. The objects are shared: callers must not change them.
func (m *Manager) Informers() informers.SharedInformerFactory { return m.informers }

// Ledger holds what was decided of late, by profile.
func (m *Manager) Ledger() *decision.Ledger { return m.ledger }

// Desk holds the explanations of pods that are not written yet.
func (m *Manager) Explanations() *explain.Queue { return m.explanations }
