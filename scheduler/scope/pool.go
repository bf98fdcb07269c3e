package scope

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
	extra map[any]*extra
	// changes are those of the stores of Held, by kind.
	changes map[reflect.Type]*changes
	ears    map[fwk.EventResource]*ear
}

// Options are what a Pool is built from.
type Options struct {
	// Informers is the house's own factory.
	Informers informers.SharedInformerFactory
	// Held are objects of the kinds that the house itself watches. Of other
	// kinds the pool starts informers.
	Held []runtime.Object
	// Missing are objects of the kinds that there are none of, since the API
	// server does not serve them: nothing is watched, and nobody waits for it.
	Missing []runtime.Object
	// Own are the events that the house tells of besides those of Held.
	Own []fwk.EventResource
	// Client is what informers that only plugins want read with.
	Client kubernetes.Interface
	// Transform is done to what such informers hold; may be nil.
	Transform cache.TransformFunc
	// Dynamic reads resources whose events plugins want to hear of; nil: what the
	// house does not watch is not heard of.
	Dynamic dynamic.Interface
	// Tell is told of those events, one at a time for each resource.
	Tell func(happened fwk.ClusterEvent, before, after any)
	// Clock times how often a resource is looked for that cannot be watched; nil
	// is the real one.
	Clock clock.Clock
	// Log is told of handlers that panic.
	Log logr.Logger
	// Go starts work beside the caller; nil means framework.Goroutine. Wait waits for
	// such work; nil means framework.Block.
	Go   func(work func())
	Wait framework.Wait
}

// extra is an informer that only plugins want.
type extra struct {
	informer cache.SharedIndexInformer
	changes  *changes
	users    int
	// ctx is that of run; stop ends it.
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// broken holds a value after it lost its watch; why is the last reason.
	broken chan struct{}
	why    atomic.Pointer[error]
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
	return &Pool{options: o, extra: map[any]*extra{}, changes: map[reflect.Type]*changes{}, ears: map[fwk.EventResource]*ear{}}
}

// Extra is how many informers run for plugins alone.
func (p *Pool) Extra() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.extra)
}

func (p *Pool) holds(kind reflect.Type) bool { return has(p.options.Held, kind) }

func (p *Pool) lacks(kind reflect.Type) bool { return has(p.options.Missing, kind) }

func has(objects []runtime.Object, kind reflect.Type) bool {
	return slices.ContainsFunc(objects, func(object runtime.Object) bool { return reflect.TypeOf(object) == kind })
}

// borrow returns the informer of obj's kind, the changes of its store, and what
// gives it back; nil where the informer is the house's own.
func (p *Pool) borrow(obj runtime.Object, made internalinterfaces.NewInformerFunc) (cache.SharedIndexInformer, *changes, func()) {
	kind := reflect.TypeOf(obj)
	if p.holds(kind) {
		return p.options.Informers.InformerFor(obj, made), p.changesOf(kind), nil
	}
	e, back := p.share(kind, func() cache.SharedIndexInformer { return made(p.options.Client, 0) })
	return e.informer, e.changes, back
}

// changesOf returns the changes of the store of a kind that the process watches
// as long as it runs.
func (p *Pool) changesOf(kind reflect.Type) *changes {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes[kind] == nil {
		p.changes[kind] = &changes{}
	}
	return p.changes[kind]
}

// share returns the one informer of what key stands for, and what gives it back.
func (p *Pool) share(key any, made func() cache.SharedIndexInformer) (*extra, func()) {
	p.mu.Lock()
	e, known := p.extra[key]
	if !known {
		e = p.prepare(made())
		p.extra[key] = e
	}
	e.users++
	p.mu.Unlock()
	if !known {
		p.options.Go(e.run)
	}
	return e, func() { p.giveBack(key, e) }
}

// prepare returns an informer that has not started.
func (p *Pool) prepare(informer cache.SharedIndexInformer) *extra {
	e := &extra{informer: informer, changes: &changes{}, stopped: make(chan struct{}), broken: make(chan struct{}, 1)}
	// Both are refused only once the informer has started, which it has not.
	if p.options.Transform != nil {
		_ = informer.SetTransform(p.options.Transform)
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		e.why.Store(&err)
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
func (e *extra) run() {
	defer close(e.stopped)
	e.informer.RunWithContext(e.ctx)
}

// giveBack stops an informer that nobody wants any more.
func (p *Pool) giveBack(key any, e *extra) {
	p.mu.Lock()
	e.users--
	last := e.users == 0
	if last {
		delete(p.extra, key)
	}
	p.mu.Unlock()
	if last {
		e.stop()
		p.await(e.stopped)
	}
}

// await waits for work that has been told to end.
func (p *Pool) await(ended <-chan struct{}) { _ = p.options.Wait(context.Background(), ended) }
