package framework

import (
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// CycleState is what the plugins note down during one attempt. Reading and
// writing notes is safe from several goroutines; the runtime's own fields
// (skips and flags) are set between extension points, by one goroutine.
type CycleState struct {
	mu      sync.RWMutex
	storage map[fwk.StateKey]fwk.StateData
	// base is what pods of the same class share; nil without a class. It is not
	// written to any more. A note that was deleted here, but is there, is nil.
	base *CycleState

	skipFilter, skipScore, skipPreBind sets.Set[string]
	parallelPreBind                    sets.Set[string]
	skipAllPostFilter                  bool
	recordPluginMetrics                bool
	// still says that no note changes while nodes are asked, whatever pods are
	// thought of as on them: so that nobody need clone any.
	readOnly bool
	// watch watches the attempt; nil: nobody does.
	callWatch *CallWatch
	// landing is told of the calls on the way to the node; nil: nobody is.
	bindingCalls *BindingCalls
	// tracer makes a span of each extension point; nil: nobody reads any. What is
	// tried on a clone is none.
	tracer trace.Tracer
}

var _ fwk.CycleState = (*CycleState)(nil)

// NewCycleState returns an empty state.
func NewCycleState() *CycleState { return &CycleState{} }

// Reset makes c empty again.
func (c *CycleState) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storage, c.base = nil, nil
	c.skipFilter, c.skipScore, c.readOnly = nil, nil, false
}

// Stand makes the notes and the skips of base, which must not be written to any
// more, those of an empty c.
func (c *CycleState) SetBase(base *CycleState) {
	c.base = base
	c.skipFilter, c.readOnly = base.skipFilter, base.readOnly
}

// Read returns the note under key, or fwk.ErrNotFound.
func (c *CycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	c.mu.RLock()
	note, found := c.storage[key]
	c.mu.RUnlock()
	if !found && c.base != nil {
		note = c.base.storage[key]
	}
	if note == nil {
		return nil, fwk.ErrNotFound
	}
	return note, nil
}

// Noted returns the note that a plugin left under key at an earlier point. It is an
// error that the profile does not ask the plugin there, or that the note is another's.
func ReadStateData[T fwk.StateData](state fwk.CycleState, key fwk.StateKey, plugin, point string) (T, error) {
	note, err := state.Read(key)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s is asked before its %s: %w", plugin, point, err)
	}
	own, ok := note.(T)
	if !ok {
		return own, fmt.Errorf("%s found a %T under %q, want its own", plugin, note, key)
	}
	return own, nil
}

// Write puts note under key in place of what was there.
func (c *CycleState) Write(key fwk.StateKey, note fwk.StateData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storage == nil {
		c.storage = make(map[fwk.StateKey]fwk.StateData)
	}
	c.storage[key] = note
}

// Delete drops the note under key, if any.
func (c *CycleState) Delete(key fwk.StateKey) {
	if c.base != nil {
		c.Write(key, nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.storage, key)
}

// Clone returns a state with a clone of every note, or c itself where none will
// change. The skip sets are shared: they are replaced, never changed. A nil state
// has a nil clone.
func (c *CycleState) Clone() fwk.CycleState {
	if c == nil {
		return nil
	}
	if c.readOnly {
		return c
	}
	clone := &CycleState{
		skipFilter:          c.skipFilter,
		skipScore:           c.skipScore,
		skipPreBind:         c.skipPreBind,
		parallelPreBind:     c.parallelPreBind,
		skipAllPostFilter:   c.skipAllPostFilter,
		recordPluginMetrics: c.recordPluginMetrics,
		callWatch:           c.callWatch,
	}
	clone.storage = map[fwk.StateKey]fwk.StateData{}
	if c.base != nil {
		clone.cloneFrom(c.base.storage)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	clone.cloneFrom(c.storage)
	return clone
}

// copy clones notes into c.
func (c *CycleState) cloneFrom(notes map[fwk.StateKey]fwk.StateData) {
	for key, note := range notes {
		if note == nil {
			delete(c.storage, key)
		} else {
			c.storage[key] = note.Clone()
		}
	}
}

// GetSkipFilterPlugins returns the plugins that Filter passes over.
func (c *CycleState) GetSkipFilterPlugins() sets.Set[string] { return c.skipFilter }

// SetSkipFilterPlugins says which plugins Filter passes over.
func (c *CycleState) SetSkipFilterPlugins(plugins sets.Set[string]) { c.skipFilter = plugins }

// GetSkipScorePlugins returns the plugins that Score passes over.
func (c *CycleState) GetSkipScorePlugins() sets.Set[string] { return c.skipScore }

// SetSkipScorePlugins says which plugins Score passes over.
func (c *CycleState) SetSkipScorePlugins(plugins sets.Set[string]) { c.skipScore = plugins }

// GetSkipPreBindPlugins returns the plugins that PreBind passes over.
func (c *CycleState) GetSkipPreBindPlugins() sets.Set[string] { return c.skipPreBind }

// SetSkipPreBindPlugins says which plugins PreBind passes over.
func (c *CycleState) SetSkipPreBindPlugins(plugins sets.Set[string]) { c.skipPreBind = plugins }

// GetParallelPreBindPlugins returns the plugins whose PreBind may run beside others.
func (c *CycleState) GetParallelPreBindPlugins() sets.Set[string] { return c.parallelPreBind }

// SetParallelPreBindPlugins says which plugins' PreBind may run beside others.
func (c *CycleState) SetParallelPreBindPlugins(plugins sets.Set[string]) {
	c.parallelPreBind = plugins
}

// ShouldSkipAllPostFilterPlugins reports whether PostFilter is passed over.
func (c *CycleState) ShouldSkipAllPostFilterPlugins() bool { return c.skipAllPostFilter }

// SetSkipAllPostFilterPlugins says whether PostFilter is passed over.
func (c *CycleState) SetSkipAllPostFilterPlugins(skip bool) { c.skipAllPostFilter = skip }

// ShouldRecordPluginMetrics reports whether this attempt is one of the sample
// whose plugin calls are timed. A nil state is not.
func (c *CycleState) ShouldRecordPluginMetrics() bool { return c != nil && c.recordPluginMetrics }

// SetRecordPluginMetrics says whether plugin calls are timed.
func (c *CycleState) SetRecordPluginMetrics(record bool) { c.recordPluginMetrics = record }

// IsPodGroupSchedulingCycle is false: pods are scheduled one by one while the
// gate GenericWorkload is off, as it is in 1.37.
func (c *CycleState) IsPodGroupSchedulingCycle() bool { return false }

// GetPodGroupSchedulingCycle is nil, see IsPodGroupSchedulingCycle.
func (c *CycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return nil }

// GetPlacementCycleState is nil, see IsPodGroupSchedulingCycle.
func (c *CycleState) GetPlacementCycleState() fwk.PlacementCycleState { return nil }
