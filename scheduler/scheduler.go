package scheduler

import (
	"cmp"
	"context"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scope"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Options are what a Scheduler is built from. All fields are required unless
// they say otherwise.
type Options struct {
	// Client binds, patches and reads pods.
	Client clientset.Interface
	// Watches is what informers read with that plugins want and the house does
	// not; nil means Client.
	Watches clientset.Interface
	// VolumeClient binds volumes and claims; nil means Client.
	VolumeClient clientset.Interface
	// Dynamic is what resources are watched with that plugins want to be woken by
	// and the house does not watch; nil: nobody is woken by them.
	Dynamic dynamic.Interface
	// KubeConfig is handed to plugins that make clients of their own.
	KubeConfig *restclient.Config
	// Informers hold what is scheduled; the Scheduler starts them.
	Informers informers.SharedInformerFactory
	// Transform is the one that Informers apply to pods: what is read from the API
	// server besides is brought into the same form. nil: they apply none.
	Transform toolscache.TransformFunc
	// RecorderFor returns the recorder of a profile's events.
	RecorderFor func(profile string) events.EventRecorderLogger
	Registry    framework.Registry
	// Storage is which kinds of storage objects the API server serves.
	Storage intake.Storage
	// DeviceClasses counts the DeviceClasses; Unsupported reads what it counts. nil:
	// none are watched.
	DeviceClasses *intake.DeviceClasses
	// Unsupported names the field of a pod that this build cannot honour.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Extender makes the client of an extender; nil: no profile has any.
	Extender func(life context.Context, profile string, c extender.Config) (fwk.Extender, error)
	Ledger   *decision.Ledger
	// Desk is where explanations wait to be written; nil: no pod is explained.
	Desk  *decision.Desk
	Clock clock.WithTickerAndDelayedExecution
	Log   logr.Logger
	// Tracer makes a span of each attempt, and of each extension point that it comes
	// to; nil: attempts are not traced.
	Tracer trace.Tracer
	// Epoch returns the number of this leadership; nil means 0.
	Epoch func(ctx context.Context) int64
	// Takeover is what is asked before the first decision.
	Takeover Takeover
	// Grace returns the context of what is under way: it outlives ctx, that of
	// Start, for as long as bindings may still be brought to their end. nil: they
	// end with it.
	Grace func(ctx context.Context) (context.Context, context.CancelFunc)
	// Go starts work beside the loop; nil means a goroutine.
	Go func(func())
	// Wait waits for what such work does; nil means framework.Block.
	Wait framework.Wait
	// CacheBytes bounds what is remembered of verdicts for all profiles together;
	// 0 means cycle.DefaultBudget.
	CacheBytes int
	// Slice is how many pods the change of a profile looks at at once, and Yield
	// lets others come in between; 0 and nil leave both to the queue.
	Slice int
	Yield func()
	// Seed is where chance comes from: at which node the search for victims
	// begins.
	Seed uint64
}

// Scheduler is the loop and the rooms it walks through.
type Scheduler struct {
	options  Options
	queue    *queue.Queue
	cache    *cache.Cache
	profiles *profile.Set
	binding  *binding.Binding
	intake   *intake.Intake
	cycle    cycle.Cycle
	caches   *cycle.Budget
	volumes  *volumes.Volumes
	waiting  *framework.WaitingPods
	epoch    int64
	// attempts is how many there were.
	attempts uint64
	held     *heldLine
	pulse    pulse
	// life is the context of what goes on when an attempt is over.
	life context.Context

	// lead is held by whoever may call cache.Refresh: the follower's ticker
	// until leading is set, the loop from then on.
	lead    sync.Mutex
	leading bool
	// flights are the bindings under way.
	flights sync.WaitGroup
	// ended is closed when Start returns.
	ended chan struct{}
}

// New returns a Scheduler that serves no profile yet and has started nothing.
func New(o Options) *Scheduler {
	s := &Scheduler{options: o, life: context.Background(), ended: make(chan struct{}), pulse: pulse{turn: make(chan struct{}, 1)}}
	if o.Go == nil {
		s.options.Go = framework.Goroutine
	}
	if o.Wait == nil {
		s.options.Wait = framework.Block
	}
	s.cache, s.caches = cache.New(), cycle.NewBudget(cmp.Or(o.CacheBytes, cycle.DefaultBudget))
	s.waiting = framework.NewWaitingPods(o.Clock)
	s.waiting.Wait = s.options.Wait
	s.queue = queue.New(queue.Options{Clock: o.Clock, Wait: s.options.Wait, OnHold: s.onHold, OnGate: s.onGate, Slice: o.Slice, Yield: o.Yield})
	s.volumes = volumes.New(volumes.Options{
		Client: cmp.Or(o.VolumeClient, o.Client), Clock: o.Clock, Wait: s.options.Wait, Returned: s.volumeReturned,
	})
	s.held = newHeldLine(o.Clock, s.writeHeld)
	s.binding = binding.New(binding.Options{
		Client: o.Client, Cache: s.cache, Clock: o.Clock, Transform: o.Transform, Go: s.options.Go, Wait: s.options.Wait,
		Journal: s.commits(), Log: o.Log,
	})
	s.intake = intake.New(intake.Options{
		Cache: s.cache, Queue: s.queue, Waiting: s.waiting, Observe: s.binding.Observe, Forget: s.forget, Clock: o.Clock, Log: o.Log, Storage: o.Storage, Wait: s.options.Wait,
		DeviceClasses: o.DeviceClasses, Backing: s.reconsider,
		Namespace: func(name string, before, after labels.Set) { s.profiles.NamespaceChanged(name, before, after) },
	})
	s.profiles = profile.NewSet(profile.Options{
		Registry: o.Registry, HostFor: s.hostFor(), Waiting: waitingPods{s},
		Unsupported: o.Unsupported, Clock: o.Clock, Log: o.Log,
		Informers: s.lent(), Listed: s.intake.Listed(), Forget: forgetProfile,
		Go: s.options.Go, Wait: s.options.Wait, Trials: s.trials(), Namespace: s.namespace, Extender: o.Extender,
		Caches: s.caches,
	})
	o.Ledger.CountQueueWith(s.counts)
	return s
}

// Profiles are the profiles that run; the controllers apply to them.
func (s *Scheduler) Profiles() *profile.Set { return s.profiles }

// lent is what the plugins' informers are taken from.
func (s *Scheduler) lent() *scope.Pool {
	return scope.NewPool(scope.Options{
		Informers: s.options.Informers, Held: append(intake.Kinds(), s.options.Storage.Kinds()...), Missing: s.options.Storage.Missing(),
		Client: cmp.Or(s.options.Watches, s.options.Client),
		Own:    intake.Events(), Dynamic: s.options.Dynamic, Tell: s.intake.Elsewhere, Clock: s.options.Clock,
		Transform: intake.Trim(true), Log: s.options.Log, Go: s.options.Go, Wait: s.options.Wait,
	})
}

// namespace returns the labels of a namespace.
func (s *Scheduler) namespace(name string) (labels.Set, bool) {
	namespace, err := s.options.Informers.Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil, false
	}
	return namespace.Labels, true
}

// hostFor returns what the plugins of a profile are lent.
func (s *Scheduler) hostFor() func(name string) framework.Host {
	preBinds, preempts := framework.NewPreBinds(), newPreemptor(s)
	return func(name string) framework.Host {
		return framework.Host{
			Client: s.options.Client, KubeConfig: s.options.KubeConfig, Informers: s.options.Informers,
			Recorder: s.options.RecorderFor(name), Lister: s.cache.Snapshot(), Lent: s.cache.Lend(), Nominator: s.cache.Nominator,
			Activator: activator{s.queue}, Waiting: s.waiting, PreBinds: preBinds,
			Preemptor: preempts, Volumes: s.lentVolumes(), Clock: s.options.Clock,
			Poisoned: func(pod *v1.Pod, at framework.Poison) { s.queue.Poisoned(pod.UID, at) },
			Go:       s.options.Go, Wait: s.options.Wait,
		}
	}
}

// counts says where the pods of a profile are.
func (s *Scheduler) counts(name string) decision.QueueCounts {
	counts := s.queue.Counts(name)
	s.waiting.Each(func(p fwk.WaitingPod) {
		if p.GetPod().Spec.SchedulerName == name {
			counts.Waiting++
			counts.InFlight--
		}
	})
	return counts
}

// NeedLeaderElection says that only the leader schedules.
func (s *Scheduler) NeedLeaderElection() bool { return true }

// Start schedules until ctx ends, and then sees to it that nothing is left half
// done; see finish.
func (s *Scheduler) Start(ctx context.Context) error {
	defer close(s.ended)
	if !s.intake.WaitForSync(ctx) {
		return nil
	}
	ctx = klog.NewContext(ctx, s.options.Log)
	s.life = ctx
	if s.options.Grace != nil && !fault.BindsEndWithTheLoop {
		var end context.CancelFunc
		s.life, end = s.options.Grace(ctx)
		defer end()
	}
	if s.options.Epoch != nil {
		s.epoch = s.options.Epoch(ctx)
	}
	if !s.takeOver(ctx) {
		return nil
	}
	s.lead.Lock()
	s.leading = true
	s.lead.Unlock()
	s.tellHeld()
	s.options.Log.Info("Scheduling", "epoch", s.epoch)
	s.options.Go(func() { s.queue.Run(ctx) })
	s.pulse.goroutine = thisGoroutine()
	s.pulse.leads.Store(true)
	defer s.pulse.leads.Store(false)
	for {
		attempt := s.queue.Pop(ctx)
		if attempt == nil {
			break
		}
		s.schedule(s.life, attempt)
	}
	s.finish()
	return nil
}

// Ended is closed when Start has returned: this process schedules no more.
func (s *Scheduler) Ended() <-chan struct{} { return s.ended }

// activator lets plugins activate pods.
type activator struct{ queue *queue.Queue }

func (a activator) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	a.queue.Activate(klog.NewContext(context.Background(), logger), pods)
}
