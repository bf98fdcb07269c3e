package profile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scopedinformers"
)

const (
	// buildLimit is how long the constructors of a profile's plugins may take,
	// and again how long their handlers may take to hear what there is.
	buildTimeout = 30 * time.Second
	// maxAbandoned bounds the builds, of all profiles, that were given up and
	// have not come back.
	maxAbandonedBuilds = 16
)

// build is one Generation in the making. Whatever plugins start under it ends
// with the Generation or, should that never be, with the build.
type builder struct {
	set          *Set
	blueprint    *compile.Blueprint
	fingerprints map[string]string
	ctx          context.Context
	cancel       context.CancelFunc
	scope        *scopedinformers.Factory // nil where nothing is watched
	// trial is nil where the plugins are to decide.
	trial *framework.Trial

	mu sync.Mutex
	// at is the plugin whose constructor is at work.
	currentPlugin string
	framework     *framework.Framework
	hints         []framework.RegisteredEvent
	err           error
	// unheard says why events cannot be heard whose names are none.
	invalidEvents map[fwk.EventResource]error
	// finished and abandoned say which came first.
	finished, abandoned bool
	// hangs is why a build of the same is refused while this one, which was
	// abandoned, has not come back.
	rebuildError error
}

// build makes a Generation with one reference, the caller's.
func (s *Set) build(ctx context.Context, b *compile.Blueprint) (*Generation, error) {
	m := &builder{set: s, blueprint: b}
	if err := m.buildPlugins(ctx, s.options.HostFor(b.Name)); err != nil {
		return nil, err
	}
	return m.newGeneration(), nil
}

// make builds the plugins. It waits no longer than the constructors and
// handlers may take, and gives up when ctx ends; nothing is left of it where it
// fails. host is what the plugins are lent.
func (m *builder) buildPlugins(ctx context.Context, host framework.Host) error {
	m.fingerprints = fingerprints(m.blueprint)
	s := m.set
	if err := s.checkAbandonedBuilds(m.blueprint); err != nil {
		return err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if s.options.Informers != nil {
		m.scope = s.options.Informers.NewFactory()
		host.Informers = m.scope
	}
	if m.trial == nil {
		host.OnQueueSortFault = func(err *framework.QueueSortError) {
			s.options.Go(func() { s.handleSortFailure(m.blueprint.Name, err) })
		}
	}
	done := make(chan struct{})
	s.options.Go(func() {
		defer close(done)
		m.newFramework(host)
	})
	if err := s.waitWithTimeout(ctx, done); err != nil {
		return m.abandon(err)
	}
	if m.err != nil {
		m.teardown()
		return asBuildError(m.err)
	}
	m.subscribe()
	if err := m.waitForSync(ctx); err != nil {
		m.teardown()
		return err
	}
	return nil
}

// construct builds the plugins and asks what events they want to hear of.
func (m *builder) newFramework(host framework.Host) {
	extenders, err := m.extenders()
	if err != nil {
		m.recordResult(nil, nil, err)
		return
	}
	f, err := framework.New(m.ctx, framework.Config{
		Profile: m.blueprint.Name, Chains: m.blueprint.Chains, Args: m.blueprint.Args, Fingerprints: m.fingerprints, OnBuild: m.setCurrentPlugin, Trial: m.trial,
		Extenders: extenders,
	}, m.set.options.Registry, host)
	var hints []framework.RegisteredEvent
	if err == nil {
		hints, err = f.RegisteredEvents(m.ctx)
	}
	m.recordResult(f, hints, err)
}

// extenders makes the clients of the blueprint's extenders. On trial there are
// none: a question to one may be heard where it counts.
func (m *builder) extenders() ([]fwk.Extender, error) {
	if m.trial != nil && !fault.TrialAsksExtenders {
		return nil, nil
	}
	var clients []fwk.Extender
	for _, c := range m.blueprint.Extenders {
		if m.set.options.NewExtender == nil {
			return nil, fmt.Errorf("extender %q: extenders are off", c.Name)
		}
		client, err := m.set.options.NewExtender(m.ctx, m.blueprint.Name, c)
		if err != nil {
			return nil, fmt.Errorf("extender %q: %w", c.Name, err)
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// built notes what came of the construction.
func (m *builder) recordResult(f *framework.Framework, hints []framework.RegisteredEvent, err error) {
	m.mu.Lock()
	m.framework, m.hints, m.err, m.finished = f, hints, err, true
	late := m.abandoned
	m.mu.Unlock()
	if late {
		m.teardown()
		m.set.removeAbandonedBuild(m)
	}
}

func (m *builder) setCurrentPlugin(plugin string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.currentPlugin = plugin
}

// listen waits until every handler has heard what there is. What the house
// itself has still to list counts for nothing: that is not the plugins' fault.
func (m *builder) waitForSync(ctx context.Context) error {
	if m.scope == nil || len(m.scope.Pending()) == 0 {
		return nil
	}
	if m.set.options.CachesSynced != nil {
		if err := m.set.options.Wait(ctx, m.set.options.CachesSynced); err != nil {
			return &BuildError{Err: err}
		}
	}
	for _, pending := range m.scope.Pending() {
		if err := m.set.waitWithTimeout(ctx, pending.Done); err != nil {
			return &BuildError{Err: fmt.Errorf("the informer of %s, which a plugin uses, has not synced: %w; "+
				"is the kind served, and may Berth list and watch it?", pending.Kind, err)}
		}
	}
	return nil
}

func (m *builder) newGeneration() *Generation {
	g := &Generation{Framework: m.framework, cacheBudget: m.set.options.CacheBudget, pluginFingerprints: m.fingerprints, closed: make(chan struct{}), refs: 1}
	g.equivalenceCache.Store(g.cacheBudget.NewEquivalenceCache(m.framework))
	g.missedEvents = m.missedEvents
	g.runPreEnqueue = func(ctx context.Context, pod *v1.Pod, lastGate string) string {
		return m.set.runPreEnqueue(ctx, g, pod, lastGate)
	}
	g.teardown = func() {
		g.dropEquivalenceCache()
		m.set.options.Go(func() {
			m.teardown()
			close(g.closed)
			m.set.generationClosed(m.blueprint.Name)
		})
	}
	g.blueprint.Store(m.blueprint)
	out := map[string]*atomic.Int32{}
	for _, hint := range m.hints {
		if out[hint.Plugin] == nil {
			out[hint.Plugin] = &atomic.Int32{}
		}
		g.hints = append(g.hints, queue.Hint{Plugin: hint.Plugin, Event: hint.Event, Fn: m.set.wrapHint(g, hint, out[hint.Plugin])})
	}
	g.requeueEvents = RequeueEvents(g.hints)
	return g
}

// takeDown ends all that the build started. No handler is called when it
// returns, but one may still be at work.
func (m *builder) teardown() {
	m.cancel()
	if m.framework != nil {
		m.framework.Close()
	}
	if m.scope != nil {
		m.scope.Close()
	}
}

// within waits until done, for the limit of a build at most.
func (s *Set) waitWithTimeout(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := s.options.Clock.AfterFunc(buildTimeout, func() {
		cancel(fmt.Errorf("not within %v", buildTimeout))
	})
	defer timer.Stop()
	return s.options.Wait(ctx, done)
}

func asBuildError(err error) error {
	var plugin *framework.PluginError
	if errors.As(err, &plugin) {
		return &BuildError{Plugin: plugin.Plugin, Err: plugin.Err}
	}
	return &BuildError{Err: err}
}
