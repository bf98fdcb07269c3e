package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Generation is a running instance of a Blueprint. Whoever uses it holds a
// reference; the last one to let go closes it and all that it started.
type Generation struct {
	Framework *framework.Framework

	hints  []queue.Hint
	cancel context.CancelFunc
	closed chan struct{}

	// blueprint is replaced, never written: a newer one of the same hash may
	// carry another metadata.generation.
	blueprint atomic.Pointer[compile.Blueprint]

	mu   sync.Mutex
	refs int
}

// Blueprint is what the Generation was built from.
func (g *Generation) Blueprint() *compile.Blueprint { return g.blueprint.Load() }

// build makes a Generation with one reference, the caller's. Whatever it
// starts ends with the Generation, not with ctx.
func build(b *compile.Blueprint, registry framework.Registry, host framework.Host) (*Generation, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f, err := framework.New(ctx, framework.Config{Profile: b.Name, Chains: b.Chains, Args: b.Args}, registry, host)
	if err != nil {
		cancel()
		return nil, asBuildError(err)
	}
	hints, err := f.Hints(ctx)
	if err != nil {
		f.Close()
		cancel()
		return nil, asBuildError(err)
	}
	g := &Generation{Framework: f, cancel: cancel, closed: make(chan struct{}), refs: 1}
	g.blueprint.Store(b)
	for _, hint := range hints {
		g.hints = append(g.hints, queue.Hint{Plugin: hint.Plugin, Event: hint.Event, Fn: g.whileOpen(hint.QueueingHintFn)})
	}
	return g, nil
}

// whileOpen asks a hint only as long as the Generation is not closed.
func (g *Generation) whileOpen(ask fwk.QueueingHintFn) fwk.QueueingHintFn {
	if ask == nil {
		return nil
	}
	return func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		if !g.retain() {
			return fwk.Queue, nil
		}
		defer g.Release()
		return ask(logger, pod, oldObj, newObj)
	}
}

// sort names the order of the Generation's pods: the plugin and its arguments.
func (g *Generation) sort() string {
	name := g.Framework.SortName()
	args := g.Blueprint().Args[name]
	if args == nil {
		return name
	}
	text, err := json.Marshal(args)
	if err != nil {
		return fmt.Sprintf("%s %#v", name, args)
	}
	return name + " " + string(text)
}

// retain takes one more reference. It reports false when the Generation is
// closed already.
func (g *Generation) retain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refs == 0 {
		return false
	}
	g.refs++
	return true
}

// Release gives one reference back.
func (g *Generation) Release() {
	g.mu.Lock()
	g.refs--
	last := g.refs == 0
	g.mu.Unlock()
	if !last {
		return
	}
	g.cancel()
	g.Framework.Close()
	close(g.closed)
}

// Closed is closed when nobody uses the Generation any more and all that it
// started has been told to end.
func (g *Generation) Closed() <-chan struct{} { return g.closed }

// rules says what the Generation's plugins have to say about waiting. hold is
// asked first. The queue asks without its lock and so may be late: a Generation
// that was closed meanwhile says nothing that would keep a pod waiting, and the
// queue asks again by the rules that replaced it.
func (g *Generation) rules(hold func(*v1.Pod) queue.Hold) *queue.Rules {
	settings := g.Blueprint().Queue
	return &queue.Rules{
		Hash: g.Blueprint().Hash,
		Sort: g.sort(),
		Less: g.Framework.Less,
		Hold: hold,
		PreEnqueue: func(ctx context.Context, pod *v1.Pod, lastGate string) string {
			if !g.retain() {
				return ""
			}
			defer g.Release()
			gate, _ := g.Framework.RunPreEnqueuePlugins(ctx, pod, lastGate)
			return gate
		},
		Hints:          g.hints,
		InitialBackoff: settings.InitialBackoff,
		MaxBackoff:     settings.MaxBackoff,
		FlushAfter:     settings.FlushAfter,
	}
}
