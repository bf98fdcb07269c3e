package profile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scopedinformers"
)

const (
	// buildTimeout bounds the time for the constructors of a profile's plugins, and again
	// the time for their informers to sync.
	buildTimeout = 30 * time.Second
	// maxAbandonedBuilds bounds the abandoned builds, of all profiles, that have not
	// returned.
	maxAbandonedBuilds = 16
)

// BuildError says that a Blueprint compiled but its plugins could not be built. The previous
// Generation still runs.
type BuildError struct {
	// Plugin is the plugin that failed; may be empty.
	Plugin string
	Err    error
}

func (e *BuildError) Error() string {
	if e.Plugin == "" {
		return "build failed: " + e.Err.Error()
	}
	return "plugin " + e.Plugin + " could not be built: " + e.Err.Error()
}

// Unwrap returns the plugin's error.
func (e *BuildError) Unwrap() error { return e.Err }

// builder builds one Generation. Everything that plugins start ends with the Generation or,
// if the build fails, with the builder.
type builder struct {
	set          *Set
	blueprint    *compile.Blueprint
	fingerprints map[string]string
	ctx          context.Context
	cancel       context.CancelFunc
	informers    *scopedinformers.Factory // nil without Options.Informers
	// trial is nil unless the plugins are built for a trial.
	trial *framework.Trial

	// currentPlugin is the plugin whose constructor runs.
	currentPlugin atomic.Pointer[string]
	// framework, hints and err are the result of newFramework.
	framework *framework.Framework
	hints     []framework.RegisteredEvent
	err       error
	// invalidEvents are the events of the plugins whose resource names are invalid.
	invalidEvents map[fwk.EventResource]error
	// rebuildError is why another build of the same Blueprint is rejected while this one is
	// abandoned and has not returned.
	rebuildError error
}

// build builds a Generation with one reference, which belongs to the caller.
func (s *Set) build(ctx context.Context, b *compile.Blueprint) (*Generation, error) {
	m := &builder{set: s, blueprint: b}
	if err := m.buildPlugins(ctx, s.options.Hosts.HostFor(b.Name)); err != nil {
		return nil, err
	}
	return m.newGeneration(), nil
}

// buildPlugins builds the plugins on host. It stops waiting after buildTimeout or when ctx
// ends. If it fails it tears down all that the plugins started.
func (m *builder) buildPlugins(ctx context.Context, host framework.Host) error {
	m.fingerprints = fingerprints(m.blueprint)
	s := m.set
	if err := s.checkAbandonedBuilds(m.blueprint); err != nil {
		return err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if s.options.Informers != nil {
		m.informers = s.options.Informers.NewFactory(func() { s.notifyDegradedChange(m.blueprint.Name) })
		host.Informers = m.informers
	}
	if m.trial == nil {
		host.QueueSortFaults = m
	}
	constructors := framework.NewCallWatch(s.runtime())
	constructors.Go(func() { m.framework, m.hints, m.err = m.newFramework(host) })
	if err := constructors.Wait(ctx, buildTimeout); err != nil {
		plugin := ""
		if current := m.currentPlugin.Load(); current != nil {
			plugin = *current
		}
		if constructors.Ended() {
			s.options.Go(m.teardown)
		} else {
			m.abandon(constructors, &BuildError{Plugin: plugin, Err: errors.New("its constructor was called before and has not returned")})
		}
		return &BuildError{Plugin: plugin, Err: err}
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

// newFramework calls the plugins' constructors and EventsToRegister.
func (m *builder) newFramework(host framework.Host) (*framework.Framework, []framework.RegisteredEvent, error) {
	extenders, err := m.extenders()
	if err != nil {
		return nil, nil, err
	}
	f, err := framework.New(m.ctx, framework.Config{
		Profile: m.blueprint.Name, Chains: m.blueprint.Chains, Args: m.blueprint.Args, Fingerprints: m.fingerprints, OnBuild: func(plugin string) { m.currentPlugin.Store(&plugin) }, Trial: m.trial,
		Extenders: extenders, AbandonClose: m.abandonClose,
	}, m.set.options.Registry, host)
	if err != nil {
		return nil, nil, err
	}
	hints, err := f.RegisteredEvents(m.ctx)
	return f, hints, err
}

// extenders returns the clients of the blueprint's extenders. In a trial there are none,
// because a call to an extender may have an effect.
func (m *builder) extenders() ([]fwk.Extender, error) {
	if m.trial != nil {
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

// waitForSync waits until the plugins' handlers and informers have synced. The time until
// Berth's own informers have synced does not count, since it is not the plugins' fault.
func (m *builder) waitForSync(ctx context.Context) error {
	if m.informers == nil || len(m.informers.Pending()) == 0 {
		return nil
	}
	if m.set.options.CachesSynced != nil {
		if err := m.set.options.Wait(ctx, m.set.options.CachesSynced); err != nil {
			return &BuildError{Err: err}
		}
	}
	for _, pending := range m.informers.Pending() {
		if err := m.set.runtime().WaitFor(ctx, pending.Done, buildTimeout); err != nil {
			return &BuildError{Err: fmt.Errorf("the informer of %s, which a plugin uses, has not synced: %w; "+
				"is the kind served, and may Berth list and watch it?", pending.Kind, err)}
		}
	}
	return nil
}

func (m *builder) newGeneration() *Generation {
	g := &Generation{Framework: m.framework, cacheBudget: m.set.options.CacheBudget, pluginFingerprints: m.fingerprints, builder: m, closed: make(chan struct{}), refs: 1}
	g.equivalenceCache.Store(g.cacheBudget.NewEquivalenceCache(m.framework))
	g.blueprint.Store(m.blueprint)
	pendingHints := map[string]*atomic.Int32{}
	for _, hint := range m.hints {
		if pendingHints[hint.Plugin] == nil {
			pendingHints[hint.Plugin] = &atomic.Int32{}
		}
		g.hints = append(g.hints, queue.Hint{
			Plugin: hint.Plugin, Event: hint.Event, OwnGroup: hint.OwnGroup,
			Fn: m.set.wrapHint(g, hint, pendingHints[hint.Plugin]),
		})
	}
	g.requeueEvents = RequeueEvents(g.hints)
	return g
}

// teardown ends all that the build started. When it returns no more handlers are called,
// but one may still run, as may the Close of a plugin that did not return in time: the
// caller may hold the lock under which the profile changes.
func (m *builder) teardown() {
	m.cancel()
	if m.framework != nil {
		m.framework.Close()
	}
	if m.informers != nil {
		m.informers.Close()
	}
}

func asBuildError(err error) error {
	var plugin *framework.PluginError
	if errors.As(err, &plugin) {
		return &BuildError{Plugin: plugin.Plugin, Err: plugin.Err}
	}
	return &BuildError{Err: err}
}
