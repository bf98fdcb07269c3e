package profile

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Generation is a running instance of a Blueprint. Each user holds a reference. Releasing
// the last one closes the Generation and ends all that it started.
type Generation struct {
	Framework *framework.Framework
	// equivalenceCache is nil if no verdict can be cached, and after the Generation was
	// replaced.
	equivalenceCache atomic.Pointer[cycle.EquivalenceCache]
	// cacheBudget bounds the equivalence caches of all Generations together; nil bounds
	// each on its own.
	cacheBudget *cycle.Budget

	hints []queue.Hint
	// requeueEvents are the names of the registered events, by plugin.
	requeueEvents map[string][]string
	// pluginFingerprints are the fingerprints of the plugins, by name.
	pluginFingerprints map[string]string
	// builder built the Generation and ends all that it started.
	builder *builder
	closed  chan struct{}

	// blueprint is replaced when a newer Blueprint of the same hash has another
	// metadata.generation. The Blueprint itself is immutable.
	blueprint atomic.Pointer[compile.Blueprint]

	mu   sync.Mutex
	refs int
}

// Blueprint is the Blueprint from which the Generation was built.
func (g *Generation) Blueprint() *compile.Blueprint { return g.blueprint.Load() }

// EquivalenceCache is the equivalence cache of the Generation's plugins; nil if there is
// none. Only the scheduling loop uses the returned cache.
func (g *Generation) EquivalenceCache() *cycle.EquivalenceCache { return g.equivalenceCache.Load() }

// ResetEquivalenceCache replaces the equivalence cache, if there is one, by an empty one,
// because an abandoned attempt may still write to it. The scheduling loop calls it.
func (g *Generation) ResetEquivalenceCache() {
	// If the Generation was replaced in the meantime the cache stays nil.
	if memo := g.equivalenceCache.Load(); memo != nil && g.equivalenceCache.CompareAndSwap(memo, g.cacheBudget.NewEquivalenceCache(g.Framework)) {
		memo.Close()
	}
}

// dropEquivalenceCache frees the cache of a replaced Generation, which bindings may
// reference for long. An attempt in progress keeps using the cache it began with.
func (g *Generation) dropEquivalenceCache() {
	g.equivalenceCache.Swap(nil).Close()
}

// effectiveQueueSort returns the key of the order in which the queue sorts the
// Generation's pods, and its Less function. It is PrioritySort after the QueueSort plugin
// failed.
func (g *Generation) effectiveQueueSort() (order string, less fwk.LessFunc) {
	if g.Framework.QueueSortFault() != nil {
		return prioritySort, framework.ByPriority
	}
	return g.queueSortKey(), g.Framework.Less
}

// prioritySort is the name of the default QueueSort plugin.
const prioritySort = "PrioritySort"

// queueSortKey is the name of the QueueSort plugin with its arguments.
func (g *Generation) queueSortKey() string {
	name := g.Framework.QueueSortName()
	return strings.TrimRight(name+" "+argumentsText(g.Blueprint(), name), " ")
}

// Retain adds a reference for a caller that already holds one.
func (g *Generation) Retain() { g.retain() }

// retain adds a reference. It reports false if the Generation is already closed.
func (g *Generation) retain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refs == 0 {
		return false
	}
	g.refs++
	return true
}

// Release releases one reference.
func (g *Generation) Release() {
	g.mu.Lock()
	g.refs--
	last := g.refs == 0
	g.mu.Unlock()
	if last {
		g.teardown()
	}
}

// teardown ends all that the Generation started, in another goroutine.
func (g *Generation) teardown() {
	g.dropEquivalenceCache()
	set := g.builder.set
	set.options.Go(func() {
		g.builder.teardown()
		close(g.closed)
		set.generationClosed(g.builder.blueprint.Name)
	})
}

// Closed returns a channel that is closed when the last reference was released and all that
// the Generation started was told to end.
func (g *Generation) Closed() <-chan struct{} { return g.closed }

// queueRules returns the rules by which the queue treats the profile's pods. The queue calls
// hold first. It calls the rules without its lock, so it may still call those of a closed
// Generation: these neither reject nor hold a pod, and the queue then applies the rules
// that replaced them.
func (g *Generation) queueRules(hold func(*v1.Pod) queue.Hold, paused bool) *queue.Rules {
	settings := g.Blueprint().Queue
	sort, less := g.effectiveQueueSort()
	return &queue.Rules{
		Hash: g.Blueprint().Hash, PluginFingerprints: g.pluginFingerprints,
		Sort:   sort,
		Key:    profileKeyOf(g.Blueprint(), paused),
		Less:   less,
		Groups: g.Framework.SchedulesGroups(),
		Clock:  g.Framework.Clock,
		Hold:   hold,
		PreEnqueue: func(ctx context.Context, pod *v1.Pod, lastGate string) string {
			if !g.retain() {
				return ""
			}
			defer g.Release()
			return g.builder.set.runPreEnqueue(ctx, g, pod, lastGate)
		},
		Hints:          g.hints,
		InitialBackoff: settings.InitialBackoff,
		MaxBackoff:     settings.MaxBackoff,
		FlushAfter:     settings.FlushAfter,
	}
}
