// Package house is a Berth that runs in the process of a test: put together as
// package operator does it, with the rights that are shipped, but with the
// test's own plugins and, where it wants, its own way to the API server. The
// test may look into the rooms.
package house

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/tenure"
	"github.com/berthdev/berth/test/operator"
)

// Options are what tells one house from another.
type Options struct {
	// Config is that of its clients.
	Config *rest.Config
	// Writes is the way of the scheduler's writes and quorum reads; nil is
	// Config.
	Writes   *rest.Config
	Registry framework.Registry
	// Probation is how long a revision must run before it is trusted; 0 is as
	// long as it is shipped.
	Probation      time.Duration
	DefaultProfile string
	// Version is Berth's, which each hash is made of; empty is test.
	Version string
	// Election says how it is elected, where that matters.
	Election ctrl.Options
	// Extenders says what extenders may do, and Extender makes their clients.
	Extenders compile.ExtenderRights
	Extender  func(life context.Context, profile string, c extender.Config) (fwk.Extender, error)
	// Now is the time by which explanations are written and go; nil is time.Now.
	Now func() time.Time
	// Log is the scheduler's; without one it is the test's.
	Log logr.Logger
}

// House is a Berth that runs.
type House struct {
	Config    *rest.Config
	Ledger    *decision.Ledger
	Desk      *decision.Desk
	Scheduler *scheduler.Scheduler
	// Watched are the scheduler's informers.
	Watched informers.SharedInformerFactory
	// Gate says whether it is ready.
	Gate *controllers.Gate
	// Elected is closed when it leads.
	Elected <-chan struct{}
	// Stop ends it, waits until it has ended, and says how.
	Stop func() error
}

// Start starts a house, and does not wait until it leads.
func Start(o Options) (*House, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Writes = rest.CopyConfig(cmp.Or(o.Writes, o.Config))
	managed := o.election()
	term := tenure.New(clock.RealClock{}, ptr.Deref(managed.RenewDeadline, 10*time.Second), nil)
	managed.LeaderElectionResourceLockInterface, err = term.Lease(o.Config, operator.Namespace, "berth-manager", nil)
	if err != nil {
		return nil, err
	}
	term.Fence(o.Writes)
	binding.Bound(o.Writes, make(chan struct{}, binding.InFlight))
	mgr, err := ctrl.NewManager(o.Config, managed)
	if err != nil {
		return nil, err
	}
	h := &House{
		Config: o.Config, Ledger: decision.NewLedger(time.Now), Desk: decision.NewDesk(o.Now), Gate: &controllers.Gate{},
		Watched: intake.NewInformers(client, intake.Trim(true)), Elected: mgr.Elected(),
	}
	h.Desk.CountDroppedWith(h.Ledger.Dropped)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := h.furnish(mgr, client, broadcaster, o); err != nil {
		return nil, err
	}
	return h, h.open(mgr, broadcaster)
}

// election is how the manager is made.
func (o Options) election() ctrl.Options {
	m := o.Election
	m.Scheme, m.Metrics = Scheme(), server.Options{BindAddress: "0"}
	m.LeaderElection, m.LeaderElectionID, m.LeaderElectionNamespace = true, "berth-manager", operator.Namespace
	m.LeaderElectionReleaseOnCancel = true
	// Several managers of one process have controllers of one name.
	m.Controller = config.Controller{SkipNameValidation: ptr.To(true)}
	return m
}

// furnish puts the scheduler and the controllers into the manager.
func (h *House) furnish(mgr ctrl.Manager, client kubernetes.Interface, broadcaster events.EventBroadcaster, o Options) error {
	writes, err := kubernetes.NewForConfig(o.Writes)
	if err != nil {
		return err
	}
	devices, err := intake.NewDeviceClasses(client.Discovery(), h.Watched)
	if err != nil {
		return err
	}
	storage, err := intake.NewStorage(client.Discovery())
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(o.Config)
	if err != nil {
		return err
	}
	log := o.Log
	if log.GetSink() == nil {
		log = ctrl.Log.WithName("scheduler")
	}
	resources, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return err
	}
	h.Scheduler = scheduler.New(scheduler.Options{
		Client: writes, Dynamic: resources, KubeConfig: o.Config, Informers: h.Watched, Transform: intake.Trim(true), Storage: storage,
		RecorderFor: func(profile string) events.EventRecorderLogger {
			return broadcaster.NewRecorder(mgr.GetScheme(), profile)
		},
		Registry: o.Registry, Unsupported: plugins.Unsupported(o.Registry, devices.Back), Ledger: h.Ledger, Desk: h.Desk,
		Clock: clock.RealClock{}, Log: log, Extender: o.Extender, Takeover: scheduler.Takeover{
			Call: tenure.By(meta), Profiles: tenure.By(meta).Names(v1alpha1.GroupVersion.WithResource("schedulingprofiles")),
		},
	})
	if err := mgr.Add(scheduler.Warm{Scheduler: h.Scheduler}); err != nil {
		return err
	}
	if err := mgr.Add(h.Scheduler); err != nil {
		return err
	}
	decisions, err := explainer.NewClient(o.Config)
	if err != nil {
		return err
	}
	pods := h.Watched.Core().V1().Pods()
	return controllers.SetupWithManager(mgr, controllers.Options{
		Applier: h.Scheduler.Profiles(), Registry: o.Registry, Ledger: h.Ledger, Version: cmp.Or(o.Version, "test"),
		Gate: h.Gate, DefaultProfile: o.DefaultProfile, Extenders: o.Extenders,
		Desk: h.Desk, Decisions: decisions, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		Exports: export.NewKeeper(client, operator.Namespace, o.Registry),
		History: history.New(history.Options{
			Revisions: client.AppsV1().ControllerRevisions(operator.Namespace), Namespace: operator.Namespace,
			Process: string(uuid.NewUUID()), Clock: clock.RealClock{}, Probation: cmp.Or(o.Probation, history.Probation),
		}),
	})
}

// open lets the manager run until Stop.
func (h *House) open(mgr ctrl.Manager, broadcaster events.EventBroadcaster) error {
	running, cancel := context.WithCancel(context.Background())
	if err := broadcaster.StartRecordingToSinkWithContext(running); err != nil {
		cancel()
		return err
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	h.Stop = sync.OnceValue(func() error {
		cancel()
		defer broadcaster.Shutdown()
		return <-done
	})
	return nil
}
