package framework

import (
	"fmt"
	"maps"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// CycleState holds the data that plugins store during one attempt. Read, Write
// and Delete are safe for concurrent use. One goroutine sets the other fields
// (skipped plugins and flags) between extension points.
type CycleState struct {
	mu      sync.RWMutex
	storage map[fwk.StateKey]fwk.StateData
	// base holds the data that pods of the same class share; nil without a
	// class. It is no longer written. A nil entry in storage hides the entry in
	// base.
	base *CycleState

	skipFilter, skipScore, skipPreBind sets.Set[string]
	parallelPreBind                    sets.Set[string]
	skipAllPostFilter                  bool
	recordPluginMetrics                bool
	// readOnly says that no plugin changes its data during Filter, AddPod and
	// RemovePod, so that Clone need not copy it.
	readOnly bool
	// podClass identifies the pod's class; 0 without one.
	podClass uint64
	// callWatch tracks the calls of out-of-tree plugins, first in the attempt and then in
	// the binding cycle; may be nil.
	callWatch *CallWatch
	// tracer makes a span for each extension point; nil without tracing. A
	// clone has none.
	tracer trace.Tracer
	// preemption is the result of the attempt's search for victims; a clone has
	// none.
	preemption *PreemptionSearch
	// group is nil unless the cycle of a group decides the pod.
	group *GroupCycleState
	// binding says that the pod's binding cycle has begun.
	binding bool
}

var _ fwk.CycleState = (*CycleState)(nil)

// NewCycleState returns an empty state.
func NewCycleState() *CycleState { return &CycleState{} }

// Reset removes all data, and what PreFilter and PreScore set.
func (c *CycleState) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storage, c.base = nil, nil
	c.skipFilter, c.skipScore, c.readOnly, c.podClass = nil, nil, false, 0
}

// SetBase makes data and skipped plugins of base those of an empty c. base must
// no longer be written.
func (c *CycleState) SetBase(base *CycleState) {
	c.base = base
	c.skipFilter, c.readOnly = base.skipFilter, base.readOnly
}

// SetPodClass sets the class of the pod.
func (c *CycleState) SetPodClass(id uint64) { c.podClass = id }

// PodClass identifies the class of the pod; 0 for none. Filter plugins have the same status
// for all pods of a class on a node with the same pods. It is 0 where that is not certain: where
// a plugin is opaque for the pod, or changes its data in AddPod and RemovePod, and so may read
// other nodes, and in the cycle of a group. A clone has no class.
func (c *CycleState) PodClass() uint64 {
	if c == nil || !c.readOnly || c.group != nil {
		return 0
	}
	return c.podClass
}

// Read returns the data for key, or fwk.ErrNotFound.
func (c *CycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	c.mu.RLock()
	data, found := c.storage[key]
	c.mu.RUnlock()
	if !found && c.base != nil {
		data = c.base.storage[key]
	}
	if data == nil {
		return nil, fwk.ErrNotFound
	}
	return data, nil
}

// ReadStateData returns the data that plugin stored for key at an earlier
// extension point. It is an error if there is none, as in a profile that does
// not enable the plugin there, or if it has another type.
func ReadStateData[T fwk.StateData](state fwk.CycleState, key fwk.StateKey, plugin, point string) (T, error) {
	data, err := state.Read(key)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s is called without its %s: %w", plugin, point, err)
	}
	typed, ok := data.(T)
	if !ok {
		return typed, fmt.Errorf("%s found a %T under %q, want its own", plugin, data, key)
	}
	return typed, nil
}

// Write stores data for key.
func (c *CycleState) Write(key fwk.StateKey, data fwk.StateData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storage == nil {
		c.storage = make(map[fwk.StateKey]fwk.StateData)
	}
	c.storage[key] = data
}

// Delete removes the data for key, if any.
func (c *CycleState) Delete(key fwk.StateKey) {
	if c.base != nil {
		c.Write(key, nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.storage, key)
}

// Clone returns a state with a clone of all data, or c itself if no plugin
// changes its data. The sets of skipped plugins are shared, since they are
// replaced and never changed. The clone of a nil state is nil.
func (c *CycleState) Clone() fwk.CycleState { return c.cloneBy(fwk.StateData.Clone) }

// detacher is data that reads the snapshot. Detached returns a clone that does not.
type detacher interface{ Detached() fwk.StateData }

// Detached is Clone for a state that is still read after the snapshot has changed.
func (c *CycleState) Detached() fwk.CycleState {
	return c.cloneBy(func(data fwk.StateData) fwk.StateData {
		if d, ok := data.(detacher); ok {
			return d.Detached()
		}
		return data.Clone()
	})
}

func (c *CycleState) cloneBy(cloneData func(fwk.StateData) fwk.StateData) fwk.CycleState {
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
		group:               c.group,
	}
	clone.storage = map[fwk.StateKey]fwk.StateData{}
	if c.base != nil {
		clone.cloneFrom(c.base.storage, cloneData)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	clone.cloneFrom(c.storage, cloneData)
	return clone
}

// cloneFrom adds clones of storage to c.
func (c *CycleState) cloneFrom(storage map[fwk.StateKey]fwk.StateData, cloneData func(fwk.StateData) fwk.StateData) {
	for key, data := range storage {
		if data == nil {
			delete(c.storage, key)
		} else {
			c.storage[key] = cloneData(data)
		}
	}
}

// WithSkipFilterPlugins returns a state with c's data and other plugins that do
// not run at Filter. Neither state may be written any more.
func (c *CycleState) WithSkipFilterPlugins(plugins sets.Set[string]) *CycleState {
	return &CycleState{storage: c.storage, skipFilter: plugins, skipScore: c.skipScore, group: c.group}
}

// Derived returns a state with the data and the skipped plugins of c, to which
// other data can be written. c must have no base, and is no longer written.
func (c *CycleState) Derived() *CycleState {
	return &CycleState{storage: maps.Clone(c.storage), skipFilter: c.skipFilter, skipScore: c.skipScore, readOnly: c.readOnly}
}

// The skipped plugins do not run at their extension point in this attempt.

func (c *CycleState) GetSkipFilterPlugins() sets.Set[string]         { return c.skipFilter }
func (c *CycleState) SetSkipFilterPlugins(plugins sets.Set[string])  { c.skipFilter = plugins }
func (c *CycleState) GetSkipScorePlugins() sets.Set[string]          { return c.skipScore }
func (c *CycleState) SetSkipScorePlugins(plugins sets.Set[string])   { c.skipScore = plugins }
func (c *CycleState) GetSkipPreBindPlugins() sets.Set[string]        { return c.skipPreBind }
func (c *CycleState) SetSkipPreBindPlugins(plugins sets.Set[string]) { c.skipPreBind = plugins }
func (c *CycleState) ShouldSkipAllPostFilterPlugins() bool           { return c.skipAllPostFilter }
func (c *CycleState) SetSkipAllPostFilterPlugins(skip bool)          { c.skipAllPostFilter = skip }

// GetParallelPreBindPlugins returns the plugins whose PreBind may run in
// parallel with others.
func (c *CycleState) GetParallelPreBindPlugins() sets.Set[string] { return c.parallelPreBind }

// SetParallelPreBindPlugins sets the plugins whose PreBind may run in parallel
// with others.
func (c *CycleState) SetParallelPreBindPlugins(plugins sets.Set[string]) {
	c.parallelPreBind = plugins
}

// ShouldRecordPluginMetrics reports whether plugin calls of this attempt are
// timed. It is false for a nil state.
func (c *CycleState) ShouldRecordPluginMetrics() bool { return c != nil && c.recordPluginMetrics }

// SetRecordPluginMetrics sets whether plugin calls of this attempt are timed.
func (c *CycleState) SetRecordPluginMetrics(record bool) { c.recordPluginMetrics = record }

// SetBinding records that the binding cycle of the pod begins.
func (c *CycleState) SetBinding() { c.binding = true }

// MayBeSeen reports whether another attempt may have seen what the attempt of state has reserved:
// the pod's binding cycle has begun, the loop went on without the attempt, or it tried other pods
// between two slices of the group. What nobody saw has refused nobody.
func MayBeSeen(state fwk.CycleState) bool {
	own, ok := state.(*CycleState)
	if !ok || own == nil || own.binding || own.callWatch.isAbandoned() {
		return true
	}
	return own.group != nil && own.group.slices != nil && own.group.slices.Taken()
}

// Preemption returns the result of the attempt's search for victims; nil without
// one.
func (c *CycleState) Preemption() *PreemptionSearch { return c.preemption }

// SetPreemption sets the result of the attempt's search for victims.
func (c *CycleState) SetPreemption(search *PreemptionSearch) { c.preemption = search }
