package scope

import (
	"context"
	"reflect"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Pool holds the informers that scopes are lent: the house's own, which run as
// long as the process, and those that only plugins want, which run as long as
// some scope does that asked for them.
type Pool struct {
	options Options

	mu    sync.Mutex
	extra map[reflect.Type]*extra
}

// Options are what a Pool is built from.
type Options struct {
	// Informers is the house's own factory.
	Informers informers.SharedInformerFactory
	// Held are objects of the kinds that the house itself watches. Of other
	// kinds the pool starts informers.
	Held []runtime.Object
	// Client is what informers that only plugins want read with.
	Client kubernetes.Interface
	// Transform is done to what such informers hold; may be nil.
	Transform cache.TransformFunc
	// Log is told of handlers that panic.
	Log logr.Logger
}

// extra is an informer that only plugins want.
type extra struct {
	informer cache.SharedIndexInformer
	scopes   int
	stop     context.CancelFunc
	stopped  chan struct{}
}

// NewPool returns a Pool that has started nothing.
func NewPool(o Options) *Pool { return &Pool{options: o, extra: map[reflect.Type]*extra{}} }

// Extra is how many informers run for plugins alone.
func (p *Pool) Extra() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.extra)
}

func (p *Pool) holds(kind reflect.Type) bool {
	for _, object := range p.options.Held {
		if reflect.TypeOf(object) == kind {
			return true
		}
	}
	return false
}

// borrow returns the informer of obj's kind, and what gives it back; nil where
// the informer is the house's own.
func (p *Pool) borrow(obj runtime.Object, made internalinterfaces.NewInformerFunc) (cache.SharedIndexInformer, func()) {
	kind := reflect.TypeOf(obj)
	if p.holds(kind) {
		return p.options.Informers.InformerFor(obj, made), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.extra[kind]
	if !ok {
		e = p.start(made)
		p.extra[kind] = e
	}
	e.scopes++
	return e.informer, func() { p.giveBack(kind, e) }
}

func (p *Pool) start(made internalinterfaces.NewInformerFunc) *extra {
	e := &extra{informer: made(p.options.Client, 0), stopped: make(chan struct{})}
	if p.options.Transform != nil {
		// Refused only once the informer has started, which it has not.
		_ = e.informer.SetTransform(p.options.Transform)
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	go func() {
		defer close(e.stopped)
		e.informer.RunWithContext(ctx)
	}()
	return e
}

// giveBack stops an informer that the last scope wanted.
func (p *Pool) giveBack(kind reflect.Type, e *extra) {
	p.mu.Lock()
	e.scopes--
	last := e.scopes == 0
	if last {
		delete(p.extra, kind)
	}
	p.mu.Unlock()
	if last {
		e.stop()
		<-e.stopped
	}
}
