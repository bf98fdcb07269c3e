package scopedinformers

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Pool holds the informers that scopes are lent: the house's own, which run as
// long as the process, and those that only plugins want, which run as long as
// some scope does that asked for them.
type Pool struct {
	options Options

	mu sync.Mutex
	// extra are by what they hold: a type, or a resource without one.
	pluginInformers map[any]*pluginInformer
	// changes are those of the stores of Held, by kind.
	changes      map[reflect.Type]*changeTracker
	eventSources map[fwk.EventResource]*eventSource
}

// Options are what a Pool is built from.
type Options struct {
	// Informers is the house's own factory.
	Informers informers.SharedInformerFactory
	// Held are objects of the kinds that the house itself watches. Of other
	// kinds the pool starts informers.
	Watched []runtime.Object
	// Missing are objects of the kinds that there are none of, since the API
	// server does not serve them: nothing is watched, and nobody waits for it.
	NotServed []runtime.Object
	// Own are the events that the house tells of besides those of Held.
	OwnEvents []fwk.EventResource
	// Client is what informers that only plugins want read with.
	Client kubernetes.Interface
	// Transform is done to what such informers hold; may be nil.
	Transform cache.TransformFunc
	// Dynamic reads resources whose events plugins want to hear of; nil: what the
	// house does not watch is not heard of.
	Dynamic dynamic.Interface
	// Tell is told of those events, one at a time for each resource.
	OnEvent func(happened fwk.ClusterEvent, before, after any)
	// Clock times how often a resource is looked for that cannot be watched; nil
	// is the real one.
	Clock clock.Clock
	// Log is told of handlers that panic.
	Log logr.Logger
	// Go starts work beside the caller; nil means framework.Goroutine. Wait waits for
	// such work; nil means framework.Block.
	Go   func(work func())
	Wait framework.WaitFunc
}

// extra is an informer that only plugins want.
type pluginInformer struct {
	informer cache.SharedIndexInformer
	changes  *changeTracker
	users    int
	// ctx is that of run; stop ends it.
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// broken holds a value after it lost its watch; why is the last reason.
	broken     chan struct{}
	watchError atomic.Pointer[error]
}

// NewPool returns a Pool that has started nothing.
func NewPool(o Options) *Pool {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Go == nil {
		o.Go = framework.Goroutine
	}
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	return &Pool{options: o, pluginInformers: map[any]*pluginInformer{}, changes: map[reflect.Type]*changeTracker{}, eventSources: map[fwk.EventResource]*eventSource{}}
}

// Extra is how many informers run for plugins alone.
func (p *Pool) PluginInformers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pluginInformers)
}

func (p *Pool) isWatched(kind reflect.Type) bool { return containsKind(p.options.Watched, kind) }

func (p *Pool) isNotServed(kind reflect.Type) bool { return containsKind(p.options.NotServed, kind) }

func containsKind(objects []runtime.Object, kind reflect.Type) bool {
	return slices.ContainsFunc(objects, func(object runtime.Object) bool { return reflect.TypeOf(object) == kind })
}

// borrow returns the informer of obj's kind, the changes of its store, and what
// gives it back; nil where the informer is the house's own.
func (p *Pool) acquire(obj runtime.Object, made internalinterfaces.NewInformerFunc) (cache.SharedIndexInformer, *changeTracker, func()) {
	kind := reflect.TypeOf(obj)
	if p.isWatched(kind) {
		return p.options.Informers.InformerFor(obj, made), p.changesOf(kind), nil
	}
	e, back := p.acquirePluginInformer(kind, func() cache.SharedIndexInformer { return made(p.options.Client, 0) })
	return e.informer, e.changes, back
}

// changesOf returns the changes of the store of a kind that the process watches
// as long as it runs.
func (p *Pool) changesOf(kind reflect.Type) *changeTracker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes[kind] == nil {
		p.changes[kind] = &changeTracker{}
	}
	return p.changes[kind]
}

// share returns the one informer of what key stands for, and what gives it back.
func (p *Pool) acquirePluginInformer(key any, made func() cache.SharedIndexInformer) (*pluginInformer, func()) {
	p.mu.Lock()
	e, known := p.pluginInformers[key]
	if !known {
		e = p.newPluginInformer(made())
		p.pluginInformers[key] = e
	}
	e.users++
	p.mu.Unlock()
	if !known {
		p.options.Go(e.run)
	}
	return e, func() { p.release(key, e) }
}

// prepare returns an informer that has not started.
func (p *Pool) newPluginInformer(informer cache.SharedIndexInformer) *pluginInformer {
	e := &pluginInformer{informer: informer, changes: &changeTracker{}, stopped: make(chan struct{}), broken: make(chan struct{}, 1)}
	// Both are refused only once the informer has started, which it has not.
	if p.options.Transform != nil {
		_ = informer.SetTransform(p.options.Transform)
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		e.watchError.Store(&err)
		select {
		case e.broken <- struct{}{}:
		default:
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// run is the informer's life.
func (e *pluginInformer) run() {
	defer close(e.stopped)
	e.informer.RunWithContext(e.ctx)
}

// giveBack stops an informer that nobody wants any more.
func (p *Pool) release(key any, e *pluginInformer) {
	p.mu.Lock()
	e.users--
	last := e.users == 0
	if last {
		delete(p.pluginInformers, key)
	}
	p.mu.Unlock()
	if last {
		e.stop()
		p.waitFor(e.stopped)
	}
}

// await waits for work that has been told to end.
func (p *Pool) waitFor(ended <-chan struct{}) { _ = p.options.Wait(context.Background(), ended) }
