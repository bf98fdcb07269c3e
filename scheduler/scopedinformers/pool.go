package scopedinformers

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
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

// Pool holds the informers behind all factories: those that Berth itself uses, which run
// as long as the process, and those that only plugins use, which run as long as some
// Factory uses them.
type Pool struct {
	options Options

	mu sync.Mutex
	// pluginInformers are by Go type, by resource where client-go has no type, or by ownKey.
	pluginInformers map[any]*pluginInformer
	// changes tracks the stores of the watched kinds, by kind.
	changes      map[reflect.Type]*changeTracker
	eventSources map[fwk.EventResource]*eventSource
}

// EventQueue requeues the pods that an event concerns.
type EventQueue interface {
	Event(ctx context.Context, happened fwk.ClusterEvent, oldObj, newObj any, only func(*v1.Pod) bool)
}

// Options are what a Pool is built from.
type Options struct {
	// Informers is Berth's own factory.
	Informers informers.SharedInformerFactory
	// Watched holds an object of each kind that Berth itself watches. For other kinds
	// the Pool starts informers.
	Watched []runtime.Object
	// NotServed holds an object of each kind that the API server does not serve. Their
	// informers are empty and count as synced.
	NotServed []runtime.Object
	// OwnEvents are resources, beside those of Watched, whose events Berth itself
	// delivers.
	OwnEvents []fwk.EventResource
	// Client is the client of informers that only plugins use.
	Client kubernetes.Interface
	// Transform transforms the objects of such informers; nil leaves them.
	Transform cache.TransformFunc
	// Dynamic is the client for events of resources that Berth does not watch; nil
	// delivers no such events.
	Dynamic dynamic.Interface
	// Queue gets those events, one at a time for each resource.
	Queue EventQueue
	// Clock times the attempts to watch a resource; nil is the real clock.
	Clock clock.Clock
	// Log gets the panics of handlers, and is the logger of events.
	Log logr.Logger
	// Go starts concurrent work; nil means framework.Goroutine. Wait waits for such
	// work; nil means framework.Block.
	Go   func(work func())
	Wait framework.WaitFunc
}

// pluginInformer is an informer that only plugins use.
type pluginInformer struct {
	informer cache.SharedIndexInformer
	changes  *changeTracker
	users    int
	// ctx is the context of the informer; stop cancels it.
	ctx  context.Context
	stop context.CancelFunc
	// broken receives a value when the watch fails; watchError is the last error.
	broken     chan struct{}
	watchError atomic.Pointer[error]
}

// NewPool returns a Pool that has started no informer.
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

// PluginInformers returns how many informers run only for plugins.
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

// acquire returns the informer of obj's kind, the changeTracker of its store, and a
// function that releases it. That function is nil where Berth itself uses the informer;
// else key is that of pluginInformers.
func (p *Pool) acquire(obj runtime.Object, key any, newInformer internalinterfaces.NewInformerFunc) (cache.SharedIndexInformer, *changeTracker, func()) {
	kind := reflect.TypeOf(obj)
	if p.isWatched(kind) {
		return p.options.Informers.InformerFor(obj, newInformer), p.changesOf(kind), nil
	}
	e, release := p.acquirePluginInformer(key, func() cache.SharedIndexInformer { return newInformer(p.options.Client, 0) })
	return e.informer, e.changes, release
}

// changesOf returns the changeTracker of a kind that Berth itself watches.
func (p *Pool) changesOf(kind reflect.Type) *changeTracker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes[kind] == nil {
		p.changes[kind] = &changeTracker{}
	}
	return p.changes[kind]
}

// acquirePluginInformer returns the informer for key, which it creates with newInformer
// and starts if there is none, and a function that releases it.
func (p *Pool) acquirePluginInformer(key any, newInformer func() cache.SharedIndexInformer) (*pluginInformer, func()) {
	p.mu.Lock()
	e, known := p.pluginInformers[key]
	if !known {
		e = p.newPluginInformer(newInformer())
		p.pluginInformers[key] = e
	}
	e.users++
	p.mu.Unlock()
	if !known {
		p.options.Go(func() { e.informer.RunWithContext(e.ctx) })
	}
	return e, func() { p.release(key, e) }
}

// newPluginInformer returns a pluginInformer that is not started.
func (p *Pool) newPluginInformer(informer cache.SharedIndexInformer) *pluginInformer {
	e := &pluginInformer{informer: informer, changes: &changeTracker{}, broken: make(chan struct{}, 1)}
	// Both only fail once the informer has started.
	if p.options.Transform != nil {
		_ = informer.SetTransform(p.options.Transform)
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		e.watchError.Store(&err)
		framework.Notify(e.broken)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// release stops an informer after its last user. It does not wait until the informer has
// stopped, because that takes until each of its handlers has returned, and a plugin's may
// hang. Nothing depends on it: the next user of the key gets a new informer with a store of
// its own, and a Factory drops the events of its handlers.
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
	}
}
