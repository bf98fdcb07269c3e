package podclass

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// RequestReaders are the plugins of a Framework that read the requests of pods.
// For a class that differs from another one only in its requests they alone are
// called, and what the others computed is taken over. The function New, which
// calls all plugins, is the reference implementation.
type RequestReaders struct {
	framework  *framework.Framework
	preFilters []fwk.PreFilterPlugin
	preScores  []fwk.PreScorePlugin
	// filters and scores are indexes in the Filter and in the Score chain.
	filters, scores []int
}

// NewRequestReaders returns the request readers of f, or nil if one of them also
// reads volumes or devices, so that it is opaque for some pods.
func NewRequestReaders(f *framework.Framework) *RequestReaders {
	r := &RequestReaders{framework: f}
	for _, plugin := range f.Plugins() {
		if readsRequests(plugin) && framework.ReadsPerAttempt(plugin) {
			return nil
		}
	}
	for _, plugin := range f.PreFilterChain() {
		if readsRequests(plugin) {
			r.preFilters = append(r.preFilters, plugin)
		}
	}
	for _, plugin := range f.PreScoreChain() {
		if readsRequests(plugin) {
			r.preScores = append(r.preScores, plugin)
		}
	}
	for index, plugin := range f.FilterChain() {
		if readsRequests(plugin.FilterPlugin) {
			r.filters = append(r.filters, index)
		}
	}
	for index, plugin := range f.ScoreChain() {
		if readsRequests(plugin.ScorePlugin) {
			r.scores = append(r.scores, index)
		}
	}
	return r
}

// readsRequests reports whether a plugin declares that it reads requests. One that
// declares nothing is opaque: a class holds nothing of it.
func readsRequests(plugin fwk.Plugin) bool {
	reader, ok := plugin.(framework.ReadsDeclarer)
	return ok && reader.Reads().Pod&framework.PodRequests != 0
}

// New is the function New for a pod that differs from those of the class alike
// only in its requests. alike must be valid for the current snapshot.
func (r *RequestReaders) New(alike *Class, pod *v1.Pod, columns *counts.Columns, cacheable *CacheableForms) *Class {
	f := r.framework
	m := &builder{f, pod, columns, &Class{State: alike.State.Derived(), CacheableForms: cacheable}, cacheable == nil}
	result, status := f.RerunPreFilterPlugins(f.Context(), m.class.State, pod, r.preFilters)
	if !status.IsSuccess() || !result.AllNodes() || f.RequestsDevices(pod) {
		return nil
	}
	r.takeOverForms(m, alike)
	for _, index := range r.filters {
		if !m.addFilter(index, f.FilterChain()[index]) {
			return nil
		}
	}
	if !r.rerunPreScore(m.class.State, pod) {
		return nil
	}
	for _, index := range r.scores {
		if !m.addScore(index, f.ScoreChain()[index]) {
			return nil
		}
	}
	m.class.sort(m.withCacheable)
	m.class.updateActive()
	return m.class
}

// takeOverForms gives the class the forms of the plugins that do not read
// requests.
func (r *RequestReaders) takeOverForms(m *builder, alike *Class) {
	filterIndex := func(c *ClassFilter) int { return c.Index }
	scoreIndex := func(c *ClassScore) int { return c.Index }
	if m.withCacheable {
		m.class.CacheableForms = &CacheableForms{
			CacheableFilters: without(alike.CacheableFilters, r.filters, filterIndex),
			CacheableScores:  without(alike.CacheableScores, r.scores, scoreIndex),
		}
	}
	m.class.UncachedFilters = without(alike.UncachedFilters, r.filters, filterIndex)
	m.class.UncachedScores = without(alike.UncachedScores, r.scores, scoreIndex)
}

// without returns a copy of forms without those whose index is in indexes, with room
// for these.
func without[T any](forms []T, indexes []int, index func(*T) int) []T {
	if len(forms) == 0 {
		return nil
	}
	rest := make([]T, 0, len(forms))
	for i := range forms {
		if !slices.Contains(indexes, index(&forms[i])) {
			rest = append(rest, forms[i])
		}
	}
	return rest
}

// rerunPreScore runs PreScore of the request readers. Whether the other plugins
// skip Score stays.
func (r *RequestReaders) rerunPreScore(state *framework.CycleState, pod *v1.Pod) bool {
	before := state.GetSkipScorePlugins()
	skipped, ok := runPreScore(r.framework.Context(), r.framework, state, pod, r.preScores)
	isSkipped := func(p fwk.PreScorePlugin) bool { return before.Has(p.Name()) }
	if !ok || len(skipped) == 0 && !slices.ContainsFunc(r.preScores, isSkipped) {
		return ok
	}
	after := before.Clone()
	for _, plugin := range r.preScores {
		after.Delete(plugin.Name())
	}
	state.SetSkipScorePlugins(after.Insert(skipped...))
	return true
}

// sort puts the forms into the order of their chains; the cacheable ones only if
// they are not shared.
func (c *Class) sort(withCacheable bool) {
	filters := func(a, b ClassFilter) int { return cmp.Compare(a.Index, b.Index) }
	scores := func(a, b ClassScore) int { return cmp.Compare(a.Index, b.Index) }
	slices.SortFunc(c.UncachedFilters, filters)
	slices.SortFunc(c.UncachedScores, scores)
	if withCacheable {
		slices.SortFunc(c.CacheableFilters, filters)
		slices.SortFunc(c.CacheableScores, scores)
	}
}
