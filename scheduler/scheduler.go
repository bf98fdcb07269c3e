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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scopedinformers"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Options configure a Scheduler. A field is required unless its comment says
// what nil or 0 means.
type Options struct {
	// Client binds, patches and reads pods.
	Client clientset.Interface
	// WatchClient serves the informers that plugins ask for and Berth does not run;
	// nil means Client.
	WatchClient clientset.Interface
	// VolumeClient binds volumes and claims; nil means Client.
	VolumeClient clientset.Interface
	// Dynamic watches the resources that plugins register events for and Berth does
	// not watch. With nil, such events requeue no pod.
	Dynamic dynamic.Interface
	// KubeConfig is handed to plugins that make clients of their own.
	KubeConfig *restclient.Config
	// Informers hold the objects that scheduling reads; the Scheduler starts them.
	Informers informers.SharedInformerFactory
	// Transform is the one that Informers apply to pods. Pods that are read from the
	// API server directly get the same transform. nil means none.
	Transform toolscache.TransformFunc
	// RecorderFor returns the event recorder of a profile.
	RecorderFor func(profile string) events.EventRecorderLogger
	Registry    framework.Registry
	// Storage lists the kinds of storage objects that the API server serves.
	Storage eventhandlers.Storage
	// DeviceClasses counts the DeviceClasses; Unsupported reads the counts. nil means
	// that none are watched.
	DeviceClasses *eventhandlers.DeviceClasses
	// Unsupported returns the first field of a pod that this build cannot honour.
	Unsupported func(pod *v1.Pod) (field, why string)
	// Extender makes the client of an extender; nil means that no profile has one.
	Extender func(life context.Context, profile string, c extender.Config) (fwk.Extender, error)
	Ledger   *decision.Ledger
	// Explanations is where explanations wait until a controller writes them; nil
	// means that no pod is explained.
	Explanations *explain.Queue
	Clock        clock.WithTickerAndDelayedExecution
	Log          logr.Logger
	// Tracer makes a span for each attempt and for each extension point of it; nil
	// means no tracing.
	Tracer trace.Tracer
	// Epoch returns the leader epoch; nil means 0.
	Epoch func(ctx context.Context) int64
	// Handover says how to take over from the leader before; see Handover.
	Handover Handover
	// ShutdownContext returns a context that outlives ctx, the one of Start, by the
	// time that bindings may still take to end. nil means that bindings end with ctx.
	ShutdownContext func(ctx context.Context) (context.Context, context.CancelFunc)
	// Go starts a goroutine; nil means framework.Goroutine.
	Go func(func())
	// Wait waits for what such a goroutine does; nil means framework.Block.
	Wait framework.WaitFunc
	// CacheBytes bounds the equivalence caches of all profiles together; 0 means
	// cycle.DefaultBudget.
	CacheBytes int
	// ChunkSize is how many pods a profile change looks at under one lock of the
	// queue; Yield runs between two chunks. 0 and nil mean the queue's defaults.
	ChunkSize int
	Yield     func()
	// Seed seeds the choice of the node at which the search for victims begins.
	Seed uint64
}

// Scheduler runs the scheduling loop and owns the components that it uses.
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
	// attemptCount numbers the attempts of this process.
	attemptCount uint64
	heldStatus   *heldStatusQueue
	explainer    *explain.Builder
	progress     loopProgress
	// bindingContext is the context of binding cycles, evictions and undo.
	bindingContext context.Context

	// leadMu is held for cache.UpdateSnapshot: by Standby's ticker until leading is
	// true, by the loop from then on.
	leadMu  sync.Mutex
	leading bool
	// inFlight counts the binding cycles and evictions that run.
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
	s.queue = queue.New(queue.Options{Clock: o.Clock, Wait: s.options.Wait, SliceSize: o.ChunkSize, Yield: o.Yield})
	s.volumes = volumes.New(volumes.Options{
		Client: cmp.Or(o.VolumeClient, o.Client), Clock: o.Clock, Wait: s.options.Wait, Released: s.volumeReleased,
	})
	core := o.Informers.Core().V1()
	s.explainer = &explain.Builder{Pods: core.Pods().Lister(), Nodes: core.Nodes().Lister(), Now: o.Clock.Now}
	s.binding = binding.New(binding.Options{
		Client: o.Client, Cache: s.cache, Clock: o.Clock, Transform: o.Transform, Go: s.options.Go, Wait: s.options.Wait,
		Journal: s.bindingJournal(), Log: o.Log,
	})
	s.heldStatus = newHeldStatusQueue(o.Clock, holdConditions{s.queue, s.binding, o.RecorderFor})
	s.eventHandlers = eventhandlers.New(eventhandlers.Options{
		Cache: s.cache, Queue: s.queue, WaitingPods: s.waitingPods, OnUnscheduledPodUpdate: s.binding.Observe, OnPodGone: s.forgetPod, Clock: o.Clock, Log: o.Log, Storage: o.Storage, Wait: s.options.Wait,
		DeviceClasses: o.DeviceClasses, OnDeviceClassChange: s.reevaluateHolds,
		OnNamespaceLabels: func(name string, before, after labels.Set) { s.profiles.NamespaceChanged(name, before, after) },
	})
	s.profiles = profile.NewSet(profile.Options{
		Registry: o.Registry, HostFor: s.hostFor(), Queue: podQueue{s},
		Unsupported: o.Unsupported, Clock: o.Clock, Log: o.Log,
		Informers: s.informerPool(), CachesSynced: s.eventHandlers.SyncDone(), Forget: deleteProfileSeries,
		Go: s.options.Go, Wait: s.options.Wait, ClusterState: s.clusterState(), Namespace: s.namespace, NewExtender: o.Extender,
		CacheBudget: s.cacheBudget,
	})
	o.Ledger.SetQueueCounts(s.queueCounts)
	return s
}

// Profiles returns the running profiles; the controllers apply changes to them.
func (s *Scheduler) Profiles() *profile.Set { return s.profiles }

// informerPool returns the pool that lends informers to plugins.
func (s *Scheduler) informerPool() *scopedinformers.Pool {
	return scopedinformers.NewPool(scopedinformers.Options{
		Informers: s.options.Informers, Watched: append(eventhandlers.Kinds(), s.options.Storage.Kinds()...), NotServed: s.options.Storage.Missing(),
		Client:    cmp.Or(s.options.WatchClient, s.options.Client),
		OwnEvents: eventhandlers.EventResources(), Dynamic: s.options.Dynamic, OnEvent: s.eventHandlers.PluginResourceEvent, Clock: s.options.Clock,
		Transform: eventhandlers.Trim(true), Log: s.options.Log, Go: s.options.Go, Wait: s.options.Wait,
	})
}

// namespace returns the labels of a namespace, and false when there is none of
// that name.
func (s *Scheduler) namespace(name string) (labels.Set, bool) {
	namespace, err := s.options.Informers.Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil, false
	}
	return namespace.Labels, true
}

// queueCounts counts the pending pods of a profile by where they wait.
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

// Components are the parts that hold a Scheduler's state, for readers such as the
// debugger and the simulation. Callers must not change them.
type Components struct {
	Queue   *queue.Queue
	Cache   *cache.Cache
	Waiting *framework.WaitingPods
}

// Components returns the parts of s.
func (s *Scheduler) Components() Components {
	return Components{Queue: s.queue, Cache: s.cache, Waiting: s.waitingPods}
}
