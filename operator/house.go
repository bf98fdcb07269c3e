package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/recorder"
	"github.com/berthdev/berth/scheduler/tenure"
	"github.com/berthdev/berth/scheduler/unserved"
)

// reporter is who Events are from that no profile tells.
const reporter = "berth"

// house is Berth as it is put together, room by room: each method fills in what
// the next ones need.
type house struct {
	options
	registry framework.Registry
	log      logr.Logger

	// By connect: the ways to the API server, and how the process ends.
	config  *restclient.Config
	to      clients
	term    *tenure.Tenure
	scheme  *runtime.Scheme
	telling *recorder.Recorder
	traced  *traces
	end     *ending
	// By manage.
	mgr ctrl.Manager
	// By schedule.
	informers informers.SharedInformerFactory
	ledger    *decision.Ledger
	desk      *decision.Desk
	sched     *scheduler.Scheduler
}

// connect makes the clients, and what tells others of Berth. Nothing runs yet but
// the traces' sender.
func connect(ctx context.Context, o options, registry framework.Registry) (*house, error) {
	h := &house{options: o, registry: registry, log: o.logger(), scheme: runtime.NewScheme()}
	if err := errors.Join(clientgoscheme.AddToScheme(h.scheme), v1alpha1.AddToScheme(h.scheme)); err != nil {
		return nil, err
	}
	var err error
	if h.config, err = o.restConfig(); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // an Event or a trace without it says less, and no harm
	if h.traced, err = o.tracing.start(ctx, host, h.log); err != nil {
		return nil, err
	}
	h.term = tenure.New(clock.RealClock{}, o.elect.RenewDeadline, deposed(h.log))
	if h.to, err = newClients(h.config, h.term, h.traced); err != nil {
		return nil, err
	}
	tellKubernetes(h.to.watches.Discovery(), h.log)
	if h.elect.LeaderElect, err = electable(ctx, h.to.watches, o, h.log); err != nil {
		return nil, err
	}
	h.telling = recorder.New(recorder.Options{
		Client: h.to.events.EventsV1(), Scheme: h.scheme, Clock: clock.RealClock{}, Busy: h.to.busy, Host: host,
	})
	h.end = &ending{asked: ctx, limit: o.ending, holds: func() bool { return h.term.Err() == nil }}
	return h, nil
}

// finish writes the Events, and sends the traces, that are left when all else has
// ended.
func (h *house) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), h.end.lastEvents())
	defer cancel()
	var sent sync.WaitGroup
	sent.Go(func() { h.traced.close(ctx) })
	h.telling.Close(ctx)
	sent.Wait()
}

// manage makes the manager.
func (h *house) manage() error {
	managed := h.manager(h.scheme, h.log, h.end)
	var err error
	if managed.LeaderElectionResourceLockInterface, err = h.lease(h.term, h.config, h.telling); err != nil {
		return err
	}
	if h.mgr, err = ctrl.NewManager(h.config, managed); err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	return nil
}

// schedule makes the scheduler, and registers its metrics and the others'.
func (h *house) schedule() error {
	h.ledger, h.desk = decision.NewLedger(clock.RealClock{}.Now), decision.NewDesk(clock.RealClock{}.Now)
	h.desk.CountDroppedWith(h.ledger.Dropped)
	trim := intake.Trim(h.extenders || plugins.Strangers(h.registry))
	h.informers = intake.NewInformers(h.to.watches, trim)
	devices, err := intake.NewDeviceClasses(h.to.watches.Discovery(), h.informers)
	if err != nil {
		return fmt.Errorf("looking for DeviceClasses: %w", err)
	}
	storage, err := intake.NewStorage(h.to.watches.Discovery())
	if err != nil {
		return fmt.Errorf("looking for the kinds of storage: %w", err)
	}
	h.sched = scheduler.New(scheduler.Options{
		Client: h.to.writes, VolumeClient: h.to.volumes, Watches: h.to.watches, Dynamic: h.to.dynamic, KubeConfig: h.config,
		Informers: h.informers, Transform: trim, Storage: storage, RecorderFor: h.telling.For,
		Registry: h.registry, Unsupported: plugins.Unsupported(h.registry, devices.Back), Ledger: h.ledger, Desk: h.desk,
		Clock: clock.RealClock{}, Log: h.log.WithName("scheduler"), Epoch: func(context.Context) int64 { return h.term.Epoch() },
		Takeover: h.to.takeover(), Grace: h.end.grace, Seed: rand.Uint64(),
		Extender: h.extenderMaker(h.config, h.to.watches, h.log), Tracer: h.traced.tracer(),
		CacheBytes: memoryLimit(os.DirFS("/")).cacheBytes(&h.cache.Quantity),
	})
	h.end.scheduled = h.sched.Ended()
	timeRequests()
	for _, collector := range slices.Concat(h.sched.Metrics(), decision.Metrics(), recorder.Metrics(), unserved.Metrics(), controllers.Metrics()) {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// serve gives the manager all that it runs, and what is asked of it over HTTP.
func (h *house) serve(ctx context.Context) error {
	gate := &controllers.Gate{}
	crds := &served{discovery: h.to.watches.Discovery(), log: h.log, then: func() error { return h.control(gate) }}
	watched := probes{
		live: map[string]func() error{
			"loop":            h.sched.NewWatchdog(h.watchdog).Alive,
			"leader-election": func() error { return h.term.Alive(h.elect.LeaseDuration + leaseTolerance) },
		},
		ready: map[string]func() error{"cluster": h.sched.Ready, "crds": crds.ready, "profiles": gate.Ready, "shutdown": h.end.ready},
	}
	if h.watchdog == 0 {
		delete(watched.live, "loop")
	}
	if err := errors.Join(
		watched.serve(h.mgr, h.probes),
		h.mgr.Add(scheduler.Warm{Scheduler: h.sched}),
		h.mgr.Add(prompt{h.sched, h.sched.Start, ctx}),
		h.mgr.Add(h.telling),
		h.mgr.Add(h.alone()),
		h.mgr.Add(crds),
	); err != nil {
		return err
	}
	if !h.metrics.secure { // anybody could ask
		return nil
	}
	return h.mgr.AddMetricsServerExtraHandler(debugPath, newDebugging(h.sched, h.to.watches, h.log))
}

// alone tells pods that wait for a scheduler that is not there.
func (h *house) alone() *unserved.Watch {
	pods := h.informers.Core().V1().Pods()
	return unserved.New(unserved.Options{
		Pods: pods.Lister(), Synced: pods.Informer().HasSynced, Served: h.sched.Profiles().Names, Others: h.otherSchedulers,
		Nearest: compile.Nearest, Recorder: h.telling.For(reporter), Clock: clock.RealClock{}, Log: h.log.WithName("unserved"),
	})
}

// control starts the controllers, once their kinds are served.
func (h *house) control(gate *controllers.Gate) error {
	pods := h.informers.Core().V1().Pods()
	return controllers.SetupWithManager(h.mgr, controllers.Options{
		Applier: h.sched.Profiles(), Registry: h.registry, Ledger: h.ledger, Version: version, Gate: gate,
		DefaultProfile: h.defaultProfile, Extenders: h.extenderRights(), LastWords: h.end.lastWords,
		Busy: h.to.busy, Desk: h.desk, Decisions: h.to.decisions, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		Exports: export.NewKeeper(h.to.watches, h.namespace, h.registry),
		History: history.New(history.Options{
			Revisions: h.to.watches.AppsV1().ControllerRevisions(h.namespace), Namespace: h.namespace,
			Process: string(uuid.NewUUID()), Clock: clock.RealClock{},
		}),
	})
}
