// Package operator is Berth's command: its flags, its connections, and how the
// house is wired together. Whoever has plugins of their own builds a command of
// their own from it:
//
//	func main() {
//		operator.Main(plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil)))
//	}
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientset "k8s.io/client-go/kubernetes"
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

// version is set when a release is built:
// -ldflags '-X github.com/berthdev/berth/operator.version=v1.2.3'. The hash of a
// profile is made of it, so that plugins that changed are on probation again.
var version = "dev"

// Main runs Berth as the command line says, with more plugins beside those that
// are built in, until the process is told to end. When it fails, it says why and
// exits with 1.
func Main(more ...framework.Registration) {
	options, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	registry, registryErr := plugins.With(plugins.InTree(), more...)
	if err = cmp.Or(err, registryErr); err == nil {
		err = run(ctrl.SetupSignalHandler(), options, registry)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// run wires the house together and runs it until ctx ends.
func run(ctx context.Context, o options, registry framework.Registry) error {
	log := o.logger()
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // an Event or a trace without it says less, and no harm
	traced, err := o.tracing.start(ctx, host, log)
	if err != nil {
		return err
	}
	term := tenure.New(clock.RealClock{}, o.elect.RenewDeadline, deposed(log))
	to, err := newClients(config, term, traced)
	if err != nil {
		return err
	}
	if o.elect.LeaderElect, err = electable(ctx, to.watches, o, log); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	telling := recorder.New(recorder.Options{
		Client: to.events.EventsV1(), Scheme: scheme, Clock: clock.RealClock{}, Busy: to.busy, Host: host,
	})
	end := &ending{asked: ctx, limit: o.ending, holds: func() bool { return term.Err() == nil }}
	defer finish(telling, traced, end)
	managed := o.manager(scheme, log, end)
	if managed.LeaderElectionResourceLockInterface, err = o.lease(term, config, telling); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managed)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}

	ledger := decision.NewLedger(clock.RealClock{}.Now)
	informers := intake.NewInformers(to.watches, intake.Trim(o.extenders || plugins.Strangers(registry)))
	devices, err := intake.NewDeviceClasses(to.watches.Discovery(), informers)
	if err != nil {
		return fmt.Errorf("looking for DeviceClasses: %w", err)
	}
	storage, err := intake.NewStorage(to.watches.Discovery())
	if err != nil {
		return fmt.Errorf("looking for the kinds of storage: %w", err)
	}
	desk := decision.NewDesk(clock.RealClock{}.Now)
	desk.CountDroppedWith(ledger.Dropped)
	sched := scheduler.New(scheduler.Options{
		Client: to.writes, VolumeClient: to.volumes, Watches: to.watches, Dynamic: to.dynamic, KubeConfig: config,
		Informers: informers, Storage: storage, RecorderFor: telling.For,
		Registry: registry, Unsupported: plugins.Unsupported(registry, devices.Back), Ledger: ledger, Desk: desk,
		Clock: clock.RealClock{}, Log: log.WithName("scheduler"), Epoch: func(context.Context) int64 { return term.Epoch() },
		Takeover: to.takeover(), Grace: end.grace, Seed: rand.Uint64(), Extender: o.extenderMaker(config, to.watches, log), Tracer: traced.tracer(),
	})
	end.scheduled = sched.Ended()
	timeRequests()
	for _, collector := range slices.Concat(sched.Metrics(), decision.Metrics(), recorder.Metrics(), unserved.Metrics(), controllers.Metrics()) {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	pods := informers.Core().V1().Pods()
	alone := unserved.New(unserved.Options{
		Pods: pods.Lister(), Synced: pods.Informer().HasSynced, Served: sched.Profiles().Names, Others: o.otherSchedulers,
		Nearest: compile.Nearest, Recorder: telling.For(reporter), Clock: clock.RealClock{}, Log: log.WithName("unserved"),
	})
	gate := &controllers.Gate{}
	crds := &served{discovery: to.watches.Discovery(), log: log, then: func() error {
		return controllers.SetupWithManager(mgr, controllers.Options{
			Applier: sched.Profiles(), Registry: registry, Ledger: ledger, Version: version, Gate: gate,
			DefaultProfile: o.defaultProfile, Extenders: o.extenderRights(), LastWords: end.lastWords,
			Busy: to.busy, Desk: desk, Decisions: to.decisions, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
			Exports: export.NewKeeper(to.watches, o.namespace, registry),
			History: history.New(history.Options{
				Revisions: to.watches.AppsV1().ControllerRevisions(o.namespace), Namespace: o.namespace,
				Process: string(uuid.NewUUID()), Clock: clock.RealClock{},
			}),
		})
	}}
	watched := probes{
		live:  map[string]func() error{"loop": sched.NewWatchdog(o.watchdog).Alive, "leader-election": func() error { return term.Alive(o.elect.LeaseDuration + leaseTolerance) }},
		ready: map[string]func() error{"cluster": sched.Ready, "crds": crds.ready, "profiles": gate.Ready, "shutdown": end.ready},
	}
	if o.watchdog == 0 {
		delete(watched.live, "loop")
	}
	if err := errors.Join(
		watched.serve(mgr, o.probes),
		mgr.Add(scheduler.Warm{Scheduler: sched}),
		mgr.Add(prompt{sched, sched.Start, ctx}),
		mgr.Add(telling),
		mgr.Add(alone),
		mgr.Add(crds),
	); err != nil {
		return err
	}
	if o.metrics.secure { // else anybody could ask
		if err := mgr.AddMetricsServerExtraHandler(debugPath, newDebugging(sched, to.watches, log)); err != nil {
			return err
		}
	}
	log.Info("Starting", "version", version, "leaderElection", o.elect.LeaderElect)
	return mgr.Start(ctx)
}

// reporter is who Events are from that no profile tells.
const reporter = "berth"

// finish writes the Events, and sends the traces, that are left when all else has
// ended.
func finish(telling *recorder.Recorder, traced *traces, end *ending) {
	ctx, cancel := context.WithTimeout(context.Background(), end.lastEvents())
	defer cancel()
	var sent sync.WaitGroup
	sent.Go(func() { traced.close(ctx) })
	telling.Close(ctx)
	sent.Wait()
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// electable says whether a leader can be elected: the Lease needs a namespace.
func electable(ctx context.Context, client clientset.Interface, o options, log logr.Logger) (bool, error) {
	if !o.elect.LeaderElect {
		return false, nil
	}
	_, err := client.CoreV1().Namespaces().Get(ctx, o.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		log.Info("The namespace does not exist: no leader is elected, and history is kept in memory. Run one replica only", "namespace", o.namespace)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for namespace %s: %w", o.namespace, err)
	}
	return true, nil
}

// protobuf returns a copy of config that speaks the cheaper encoding.
func protobuf(config *restclient.Config) *restclient.Config {
	config = restclient.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}
