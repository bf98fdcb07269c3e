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
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Generation is a running instance of a Blueprint. Whoever uses it holds a
// reference; the last one to let go closes it and all that it started.
type Generation struct {
	Framework *framework.Framework
	// memo is nil where nothing can be remembered, and once the Generation was
	// replaced.
	equivalenceCache atomic.Pointer[cycle.EquivalenceCache]
	// caches bounds it together with those of the other Generations; nil: it is
	// bounded alone.
	cacheBudget *cycle.Budget

	hints []queue.Hint
	// wakes are the names of their events, by plugin.
	requeueEvents map[string][]string
	// prints tell the Generation's plugins from those of others; see prints.
	pluginFingerprints map[string]string
	// gate asks the PreEnqueue plugins.
	runPreEnqueue func(ctx context.Context, pod *v1.Pod, lastGate string) string
	// deaf says which events the plugins want to hear of that cannot be heard.
	missedEvents func() []string
	// end takes down all that the Generation started, beside the caller.
	teardown func()
	closed   chan struct{}

	// blueprint is replaced, never written: a newer one of the same hash may
	// carry another metadata.generation.
	blueprint atomic.Pointer[compile.Blueprint]

	mu   sync.Mutex
	refs int
}

// Blueprint is what the Generation was built from.
func (g *Generation) Blueprint() *compile.Blueprint { return g.blueprint.Load() }

// Memo is the equivalence cache of the Generation's plugins; nil where there is
// none. The loop alone uses what it returns.
func (g *Generation) EquivalenceCache() *cycle.EquivalenceCache { return g.equivalenceCache.Load() }

// RenewMemo replaces the equivalence cache by an empty one, if there is one: an
// attempt that was left behind may still write into it. The loop calls it.
func (g *Generation) ResetEquivalenceCache() {
	// It stays nil where the Generation was replaced meanwhile.
	if memo := g.equivalenceCache.Load(); memo != nil && g.equivalenceCache.CompareAndSwap(memo, g.cacheBudget.NewEquivalenceCache(g.Framework)) {
		memo.Close()
	}
}

// letGo frees what only a Generation that takes new pods needs: bindings may hold
// one that was replaced for long. An attempt that is under way keeps the cache that
// it began with, until it ends.
func (g *Generation) dropEquivalenceCache() {
	if !fault.OldGenerationRemembers {
		g.equivalenceCache.Swap(nil).Close()
	}
}

// sort names the order of the Generation's pods, and is it.
func (g *Generation) effectiveQueueSort() (order string, less fwk.LessFunc) {
	if g.Framework.QueueSortFault() != nil && !fault.BrokenSortKept {
		return prioritySort, framework.ByPriority
	}
	return g.queueSortKey(), g.Framework.Less
}

// prioritySort is the sort of profiles that say nothing else.
const prioritySort = "PrioritySort"

// sortPlugin names the QueueSort plugin and its arguments.
func (g *Generation) queueSortKey() string {
	name := g.Framework.QueueSortName()
	return strings.TrimRight(name+" "+argumentsText(g.Blueprint(), name), " ")
}

// Retain takes one more reference for whoever holds one already.
func (g *Generation) Retain() { g.retain() }

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
	if last {
		g.teardown()
	}
}

// Closed is closed when nobody uses the Generation any more and all that it
// started has been told to end.
func (g *Generation) Closed() <-chan struct{} { return g.closed }

// rules says what the Generation's plugins have to say about waiting. hold is
// asked first, and holds every pod where the profile is paused. The queue asks without its lock and so may be late: a Generation
// that was closed meanwhile says nothing that would keep a pod waiting, and the
// queue asks again by the rules that replaced it.
func (g *Generation) queueRules(hold func(*v1.Pod) queue.Hold, paused bool) *queue.Rules {
	settings := g.Blueprint().Queue
	sort, less := g.effectiveQueueSort()
	return &queue.Rules{
		Hash: g.Blueprint().Hash, PluginFingerprints: g.pluginFingerprints,
		Sort:  sort,
		Key:   profileKeyOf(g.Blueprint(), paused),
		Less:  less,
		Clock: g.Framework.Clock,
		Hold:  hold,
		PreEnqueue: func(ctx context.Context, pod *v1.Pod, lastGate string) string {
			if !g.retain() {
				return ""
			}
			defer g.Release()
			return g.runPreEnqueue(ctx, pod, lastGate)
		},
		Hints:          g.hints,
		InitialBackoff: settings.InitialBackoff,
		MaxBackoff:     settings.MaxBackoff,
		FlushAfter:     settings.FlushAfter,
	}
}
