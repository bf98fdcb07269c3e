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
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scopedinformers"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Options are what a Scheduler is built from. All fields are required unless
// they say otherwise.
type Options struct {
	// Client binds, patches and reads pods.
	Client clientset.Interface
	// Watches is what informers read with that plugins want and the house does
	// not; nil means Client.
	WatchClient clientset.Interface
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
	Storage eventhandlers.Storage
	// DeviceClasses counts the DeviceClasses; Unsupported reads what it counts. nil:
	// none are watched.
	DeviceClasses *eventhandlers.DeviceClasses
	// Unsupported names the field of a pod that this build cannot honour.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Extender makes the client of an extender; nil: no profile has any.
	Extender func(life context.Context, profile string, c extender.Config) (fwk.Extender, error)
	Ledger   *decision.Ledger
	// Desk is where explanations wait to be written; nil: no pod is explained.
	Explanations *decision.ExplanationQueue
	Clock        clock.WithTickerAndDelayedExecution
	Log          logr.Logger
	// Tracer makes a span of each attempt, and of each extension point that it comes
	// to; nil: attempts are not traced.
	Tracer trace.Tracer
	// Epoch returns the number of this leadership; nil means 0.
	Epoch func(ctx context.Context) int64
	// Takeover is what is asked before the first decision.
	Handover Handover
	// Grace returns the context of what is under way: it outlives ctx, that of
	// Start, for as long as bindings may still be brought to their end. nil: they
	// end with it.
	ShutdownContext func(ctx context.Context) (context.Context, context.CancelFunc)
	// Go starts work beside the loop; nil means a goroutine.
	Go func(func())
	// Wait waits for what such work does; nil means framework.Block.
	Wait framework.WaitFunc
	// CacheBytes bounds what is remembered of verdicts for all profiles together;
	// 0 means cycle.DefaultBudget.
	CacheBytes int
	// Slice is how many pods the change of a profile looks at at once, and Yield
	// lets others come in between; 0 and nil leave both to the queue.
	ChunkSize int
	Yield     func()
	// Seed is where chance comes from: at which node the search for victims
	// begins.
	Seed uint64
}

// Scheduler is the loop and the rooms it walks through.
type Scheduler struct {
	options       Options
	queue         *queue.Queue
	cache         *cache.Cache
	profiles      *profile.Set
	binding       *binding.Binding
	eventHandlers *eventhandlers.EventHandlers
	cycle         cycle.Cycle
	cacheBudget   *cycle.Budget
	volumes       *volumes.Volumes
	waitingPods   *framework.WaitingPods
	epoch         int64
	// attempts is how many there were.
	attemptCount uint64
	heldStatus   *heldStatusQueue
	progress     loopProgress
	// life is the context of what goes on when an attempt is over.
	bindingContext context.Context

	// lead is held by whoever may call cache.Refresh: the follower's ticker
	// until leading is set, the loop from then on.
	leadMu  sync.Mutex
	leading bool
	// flights are the bindings under way.
	inFlight sync.WaitGroup
	// ended is closed when Start returns.
	ended chan struct{}
}

// New returns a Scheduler that serves no profile yet and has started nothing.
func New(o Options) *Scheduler {
	s := &Scheduler{options: o, bindingContext: context.Background(), ended: make(chan struct{}), progress: loopProgress{busy: make(chan struct{}, 1)}}
	if o.Go == nil {
		s.options.Go = framework.Goroutine
	}
	if o.Wait == nil {
		s.options.Wait = framework.Block
	}
	s.cache, s.cacheBudget = cache.New(), cycle.NewBudget(cmp.Or(o.CacheBytes, cycle.DefaultBudget))
	s.waitingPods = framework.NewWaitingPods(o.Clock)
	s.waitingPods.Wait = s.options.Wait
	s.queue = queue.New(queue.Options{Clock: o.Clock, Wait: s.options.Wait, OnHold: s.onHold, OnGate: s.onGate, SliceSize: o.ChunkSize, Yield: o.Yield})
	s.volumes = volumes.New(volumes.Options{
		Client: cmp.Or(o.VolumeClient, o.Client), Clock: o.Clock, Wait: s.options.Wait, Released: s.volumeReleased,
	})
	s.heldStatus = newHeldStatusQueue(o.Clock, s.writeHeldStatus)
	s.binding = binding.New(binding.Options{
		Client: o.Client, Cache: s.cache, Clock: o.Clock, Transform: o.Transform, Go: s.options.Go, Wait: s.options.Wait,
		Journal: s.bindingJournal(), Log: o.Log,
	})
	s.eventHandlers = eventhandlers.New(eventhandlers.Options{
		Cache: s.cache, Queue: s.queue, WaitingPods: s.waitingPods, OnUnscheduledPodUpdate: s.binding.Observe, OnPodGone: s.forgetPod, Clock: o.Clock, Log: o.Log, Storage: o.Storage, Wait: s.options.Wait,
		DeviceClasses: o.DeviceClasses, OnDeviceClassChange: s.reevaluateHolds,
		OnNamespaceLabels: func(name string, before, after labels.Set) { s.profiles.NamespaceChanged(name, before, after) },
	})
	s.profiles = profile.NewSet(profile.Options{
		Registry: o.Registry, HostFor: s.hostFor(), Queue: podQueue{s},
		Unsupported: o.Unsupported, Clock: o.Clock, Log: o.Log,
		Informers: s.informerPool(), CachesSynced: s.eventHandlers.SyncDone(), Forget: deleteProfileSeries,
		Go: s.options.Go, Wait: s.options.Wait, Trials: s.trials(), Namespace: s.namespace, NewExtender: o.Extender,
		CacheBudget: s.cacheBudget,
	})
	o.Ledger.SetQueueCounts(s.queueCounts)
	return s
}

// Profiles are the profiles that run; the controllers apply to them.
func (s *Scheduler) Profiles() *profile.Set { return s.profiles }

// lent is what the plugins' informers are taken from.
func (s *Scheduler) informerPool() *scopedinformers.Pool {
	return scopedinformers.NewPool(scopedinformers.Options{
		Informers: s.options.Informers, Watched: append(eventhandlers.Kinds(), s.options.Storage.Kinds()...), NotServed: s.options.Storage.Missing(),
		Client:    cmp.Or(s.options.WatchClient, s.options.Client),
		OwnEvents: eventhandlers.EventResources(), Dynamic: s.options.Dynamic, OnEvent: s.eventHandlers.PluginResourceEvent, Clock: s.options.Clock,
		Transform: eventhandlers.Trim(true), Log: s.options.Log, Go: s.options.Go, Wait: s.options.Wait,
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
	preBinds, preempts := framework.NewPodsInPreBind(), newPreemptor(s)
	return func(name string) framework.Host {
		return framework.Host{
			Client: s.options.Client, KubeConfig: s.options.KubeConfig, Informers: s.options.Informers,
			Recorder: s.options.RecorderFor(name), Lister: s.cache.Snapshot(), PinnedLister: s.cache.PinnedSnapshot(), Nominator: s.cache.Nominator,
			Activator: activator{s.queue}, WaitingPods: s.waitingPods, PodsInPreBind: preBinds,
			Preemptor: preempts, Volumes: s.sharedVolumes(), Clock: s.options.Clock,
			OnPluginFault: func(pod *v1.Pod, at framework.PluginFault) { s.queue.RecordPluginFault(pod.UID, at) },
			Go:            s.options.Go, Wait: s.options.Wait,
		}
	}
}

// counts says where the pods of a profile are.
func (s *Scheduler) queueCounts(name string) decision.QueueCounts {
	counts := s.queue.Counts(name)
	s.waitingPods.Each(func(p fwk.WaitingPod) {
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
	if !s.eventHandlers.WaitForSync(ctx) {
		return nil
	}
	ctx = klog.NewContext(ctx, s.options.Log)
	s.bindingContext = ctx
	if s.options.ShutdownContext != nil && !fault.BindsEndWithTheLoop {
		var end context.CancelFunc
		s.bindingContext, end = s.options.ShutdownContext(ctx)
		defer end()
	}
	if s.options.Epoch != nil {
		s.epoch = s.options.Epoch(ctx)
	}
	if !s.handOver(ctx) {
		return nil
	}
	s.leadMu.Lock()
	s.leading = true
	s.leadMu.Unlock()
	s.reportHeldPods()
	s.options.Log.Info("Scheduling", "epoch", s.epoch)
	s.options.Go(func() { s.queue.Run(ctx) })
	s.progress.goroutine = goroutineID()
	s.progress.leading.Store(true)
	defer s.progress.leading.Store(false)
	for {
		attempt := s.queue.Pop(ctx)
		if attempt == nil {
			break
		}
		s.scheduleOne(s.bindingContext, attempt)
	}
	s.shutDown()
	return nil
}

// Ended is closed when Start has returned: this process schedules no more.
func (s *Scheduler) Ended() <-chan struct{} { return s.ended }

// activator lets plugins activate pods.
type activator struct{ queue *queue.Queue }

func (a activator) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	a.queue.Activate(klog.NewContext(context.Background(), logger), pods)
}
