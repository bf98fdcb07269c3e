package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
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
	"github.com/berthdev/berth/scheduler/devices"
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
	// VolumeClient binds volumes and PersistentVolumeClaims, and writes ResourceClaims;
	// nil means Client.
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
	// Devices are the kinds of objects about devices that the API server serves.
	Devices devices.Served
	// PodGroups are the kinds of PodGroups that the API server serves.
	PodGroups eventhandlers.PodGroups
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
	pendingPods   *eventhandlers.PendingPods
	eventHandlers *eventhandlers.EventHandlers
	cycle         cycle.Cycle
	cacheBudget   *cycle.Budget
	volumes       *volumes.Volumes
	devices       *devices.Devices
	waitingPods   *framework.WaitingPods
	epoch         int64
	// attemptCount numbers the attempts of this process.
	attemptCount uint64
	heldStatus   *heldStatusQueue
	groupStatus  *groupStatus
	explainer    *explain.Builder
	progress     loopProgress
	inFlight     *inFlight

	// leadMu guards leading. Until leading is true it is held for what only the loop may
	// do, such as cache.UpdateSnapshot; from then on progress.busy excludes the loop.
	leadMu sync.Mutex
	// takenOver is what takeOverEarly took over; leadMu is held.
	takenOver *takenOver
	leading   bool
	// ended is closed when Start returns.
	ended chan struct{}
}

// inFlight are the binding cycles and evictions that run.
type inFlight struct {
	sync.WaitGroup
	// ctx is the context of binding cycles, evictions and undo. Start sets it before the
	// first of them.
	ctx context.Context
}

// New returns a Scheduler that serves no profile yet and has started nothing.
func New(o Options) *Scheduler {
	s := &Scheduler{options: o, inFlight: &inFlight{ctx: context.Background()}, ended: make(chan struct{}), progress: loopProgress{busy: make(chan struct{}, 1)}}
	if o.Go == nil {
		s.options.Go = framework.Goroutine
	}
	if o.Wait == nil {
		s.options.Wait = framework.Block
	}
	o = s.options
	core := o.Informers.Core().V1()
	cachesSynced := make(chan struct{})

	s.cache, s.cacheBudget = cache.New(), cycle.NewBudget(cmp.Or(o.CacheBytes, cycle.DefaultBudget))
	s.waitingPods = framework.NewWaitingPods(o.Clock)
	s.waitingPods.Wait = o.Wait
	s.queue = queue.New(queue.Options{Clock: o.Clock, Wait: o.Wait, SliceSize: o.ChunkSize, Yield: o.Yield, Groups: s.cache.Groups()})
	s.pendingPods = &eventhandlers.PendingPods{Cache: s.cache, Queue: s.queue, WaitingPods: s.waitingPods, Pods: core.Pods().Lister(), Log: o.Log}
	if o.Explanations != nil {
		s.pendingPods.Withdraw = o.Explanations.Withdraw
	}
	s.volumes = volumes.New(volumes.Options{
		Client: cmp.Or(o.VolumeClient, o.Client), Clock: o.Clock, Wait: o.Wait, Queue: s.queue, Log: o.Log,
	})
	s.devices = devices.New(devices.Options{
		Client: cmp.Or(o.VolumeClient, o.Client), Clock: o.Clock, Wait: o.Wait, Go: o.Go, Queue: s.queue, Log: o.Log,
		NoExtendedResources: !o.Devices.ExtendedResources,
	})
	s.binding = binding.New(binding.Options{
		Client: o.Client, Cache: s.cache, Clock: o.Clock, Transform: o.Transform, Go: o.Go, Wait: o.Wait,
		Journal: s.bindingJournal(), NominationFreed: s.pendingPods.NominationFreed, Log: o.Log,
	})
	s.heldStatus = newHeldStatusQueue(o.Clock, holdConditions{s.queue, s.binding, o.RecorderFor})
	s.groupStatus = newGroupStatus(o, s.cache.Groups().PodGroups(), s.inFlight, s.resumeConditionOf)
	s.explainer = &explain.Builder{Pods: core.Pods().Lister(), Nodes: core.Nodes().Lister(), Now: o.Clock.Now}
	h := &hosts{
		options: o, cache: s.cache, queue: s.queue, waitingPods: s.waitingPods, volumes: s.volumes, devices: s.devices, inPreBind: framework.NewPodsInPreBind(),
		preemptor: preemptor{o, newPlanner(o, s.cache), s.binding, s.queue, s.inFlight},
	}
	s.profiles = profile.NewSet(profile.Options{
		Registry: o.Registry, Hosts: h, Queue: s.pendingPods, Namespaces: core.Namespaces().Lister(),
		Unsupported: o.Unsupported, Clock: o.Clock, Log: o.Log,
		Informers: informerPool(o, s.queue), CachesSynced: cachesSynced, Forget: deleteProfileSeries, Applied: s.resumeGroupStatus,
		Go: o.Go, Wait: o.Wait, Cluster: h.trialSource(), NewExtender: o.Extender, CacheBudget: s.cacheBudget,
	})
	handled := eventhandlers.Options{
		PendingPods: s.pendingPods, Binding: s.binding, Profiles: s.profiles, Synced: cachesSynced,
		Storage: o.Storage, PodGroups: o.PodGroups, Dynamic: o.Dynamic, GroupChanged: s.resumeConditionOf, WatchDevices: h.watchDevices, Clock: o.Clock, Wait: o.Wait,
	}
	if o.Explanations != nil {
		handled.Explanations = o.Explanations
	}
	s.eventHandlers = eventhandlers.New(handled)
	return s
}

// Profiles returns the running profiles; the controllers apply changes to them.
func (s *Scheduler) Profiles() *profile.Set { return s.profiles }

// informerPool returns the pool that lends informers to plugins.
func informerPool(o Options, events scopedinformers.EventQueue) *scopedinformers.Pool {
	return scopedinformers.NewPool(scopedinformers.Options{
		Informers: o.Informers, Watched: slices.Concat(eventhandlers.Kinds(), o.Storage.Kinds(), o.PodGroups.Kinds(), o.Devices.Kinds()), NotServed: slices.Concat(o.Storage.Missing(), o.PodGroups.Missing(), o.Devices.Missing()),
		Client:    cmp.Or(o.WatchClient, o.Client),
		OwnEvents: append(eventhandlers.EventResources(), devices.EventResources()...), Dynamic: o.Dynamic, Queue: events, Clock: o.Clock,
		Transform: eventhandlers.Trim(true), Log: o.Log, Go: o.Go, Wait: o.Wait,
	})
}

// QueueCounts counts the pending pods of a profile by where they wait.
func (s *Scheduler) QueueCounts(name string) decision.QueueCounts {
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
