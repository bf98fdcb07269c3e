// Package podclass says what makes two pods alike for scheduling: pods with
// equal keys are of one class, which no plugin can distinguish. For a class it
// holds what the plugins computed, and the batch forms of the plugins that
// evaluate many nodes in one call.
//
// The package cycle caches results by class, and decides when a class is built.
package podclass

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// Class is what the plugins of a Framework computed for one pod class: the
// state that PreFilter and PreScore wrote for one pod of the class, and the
// batch forms. A pod class is a set of pods that no plugin can distinguish.
type Class struct {
	*CacheableForms
	// State is the base of the attempts' states. It is replaced, never changed.
	State *framework.CycleState
	// UncachedFilters and UncachedScores are in the order of their chains.
	UncachedFilters []ClassFilter
	UncachedScores  []ClassScore
	// ActiveFilters are those UncachedFilters that do not skip the pods, as of
	// the last Begin.
	ActiveFilters []*ClassFilter
}

// CacheableForms are the batch forms whose results stay valid until the node
// gets a new version. Classes share them that differ in nothing that these
// read.
type CacheableForms struct {
	// CacheableFilters and CacheableScores are in the order of their chains.
	CacheableFilters []ClassFilter
	CacheableScores  []ClassScore
}

// ClassFilter is a plugin of the Filter chain for one pod class.
type ClassFilter struct {
	BatchFilter
	Plugin string
	// Index is the plugin's index in the Filter chain.
	Index int
	// skips is whether PreFilter of an uncached plugin would return Skip.
	skips bool
	// evaluations counts the evaluated nodes.
	evaluations prometheus.Counter
}

// Idle reports whether the filter currently rejects no node.
func (c *ClassFilter) Idle() bool { return isIdle(c.BatchFilter) }

// ClassScore is a plugin of the Score chain for one pod class.
type ClassScore struct {
	BatchScore
	Plugin string
	// Index is the plugin's index in the Score chain.
	Index  int
	Weight int64
	// Normalizer normalizes the scores; may be nil.
	Normalizer BatchNormalizer
	// incremental is the batch score if it reads incremental counts, else nil.
	incremental IncrementalBatchScore
	// evaluations counts the evaluated nodes.
	evaluations prometheus.Counter
}

// Idle reports whether the plugin currently scores all nodes 0.
func (c *ClassScore) Idle() bool { return isIdle(c.BatchScore) }

// Run evaluates slots. The call is tracked, timed and counted for the plugin. A
// panic is not recovered here.
func (c *ClassFilter) Run(f *framework.Framework, state fwk.CycleState, slots []counts.Slot, codes []RejectionCode) {
	c.evaluations.Add(float64(len(slots)))
	done := f.TrackCall(state, c.Plugin, "Filter")
	c.Filter(slots, codes)
	if done() && len(codes) > 0 {
		codes[0] = FilterFailed
	}
}

// Run scores slots, like ClassFilter.Run.
func (c *ClassScore) Run(f *framework.Framework, state fwk.CycleState, slots []counts.Slot, scores []int64) ScoreResult {
	if c.evaluations != nil {
		c.evaluations.Add(float64(len(slots)))
	}
	done := f.TrackCall(state, c.Plugin, "Score")
	scoring := c.Score(slots, scores)
	if done() {
		return ScoreFailed
	}
	return scoring
}

// KeyBuilders build the parts of the key of a framework's pod classes.
type KeyBuilders struct {
	// Cacheable is what cacheable forms read of a pod, except for its requests, and
	// Remaining what only other plugins read.
	Cacheable, Remaining *KeyBuilder
	// Requests is the requests if cacheable forms read them, else empty.
	Requests *KeyBuilder
}

// NewKeyBuilders returns the builders for f. labels are the label keys that
// selectors name.
func NewKeyBuilders(f *framework.Framework, labels *LabelKeys) KeyBuilders {
	cacheable := &KeyBuilder{Labels: labels}
	// A class shares a PodInfo, which depends on these facets.
	remaining := &KeyBuilder{Facets: framework.PodNamespace | framework.PodRequests | framework.PodAffinity, Labels: labels}
	for _, plugin := range f.Plugins() {
		reader, reads := plugin.(framework.ReadsDeclarer)
		if !reads || !framework.AffectsPlacement(plugin) {
			continue
		}
		keys := remaining
		if isCacheable(plugin, reader.Reads()) {
			keys = cacheable
		}
		keys.Facets |= reader.Reads().Pod
		if keyer, ok := plugin.(PodKeyer); ok {
			keys.Keyers = append(keys.Keyers, keyer)
		}
	}
	remaining.Facets &^= cacheable.Facets
	requests := &KeyBuilder{Facets: cacheable.Facets & framework.PodRequests}
	cacheable.Facets &^= framework.PodRequests
	return KeyBuilders{cacheable, remaining, requests}
}

// DependsOn reports whether a cached result depends on any of facets.
func (l *CacheableForms) DependsOn(facets framework.Facets) bool {
	dependsOn := func(form any) bool {
		reporter, ok := form.(DependencyReporter)
		return ok && reporter.Dependencies()&facets != 0
	}
	return slices.ContainsFunc(l.CacheableFilters, func(f ClassFilter) bool { return dependsOn(f.BatchFilter) }) ||
		slices.ContainsFunc(l.CacheableScores, func(s ClassScore) bool { return dependsOn(s.BatchScore) })
}

// CacheableScore returns the part of a node's score that is cached, computed
// again by the plugins' own Score from pod and state. ok is false if a plugin
// failed.
func CacheableScore(ctx context.Context, f *framework.Framework, state *framework.CycleState, pod *v1.Pod, node fwk.NodeInfo) (sum int64, ok bool) {
	if !runCacheablePreScore(ctx, f, state, pod) {
		return 0, false
	}
	for _, plugin := range f.ScoreChain() {
		if f.IsOpaque(pod, plugin.Plugin) || framework.ReadsPerAttempt(plugin.ScorePlugin) || framework.ReadsOf(plugin.ScorePlugin).Score&uncacheableFacets != 0 || plugin.ScoreExtensions() != nil || state.GetSkipScorePlugins().Has(plugin.Plugin) {
			continue
		}
		done := f.TrackCall(state, plugin.Plugin, "Score")
		score, status := plugin.Score(ctx, state, pod, node)
		if done() || !status.IsSuccess() {
			return 0, false
		}
		sum += plugin.Weight * score
	}
	return sum, true
}

// Begin prepares the class for an attempt. It returns false if the class has to
// be built again.
func (c *Class) Begin() bool {
	for i := range c.UncachedFilters {
		skip, ok := c.UncachedFilters[i].BatchFilter.(UncachedBatchFilter).Begin()
		if !ok {
			return false
		}
		if c.UncachedFilters[i].skips != skip {
			c.UncachedFilters[i].skips = skip
			c.setSkipped(c.UncachedFilters[i].Plugin, skip)
		}
	}
	for i := range c.UncachedScores {
		if incremental := c.UncachedScores[i].incremental; incremental != nil && !incremental.Current() {
			return false
		}
	}
	return true
}

// setSkipped sets whether Filter skips a plugin in later attempts.
func (c *Class) setSkipped(plugin string, skip bool) {
	skipped := c.State.GetSkipFilterPlugins().Clone()
	if skip {
		skipped.Insert(plugin)
	} else {
		skipped.Delete(plugin)
	}
	c.State = c.State.WithSkipFilterPlugins(skipped)
	c.updateActive()
}

// updateActive computes ActiveFilters.
func (c *Class) updateActive() {
	c.ActiveFilters = nil
	for i := range c.UncachedFilters {
		if !c.UncachedFilters[i].skips {
			c.ActiveFilters = append(c.ActiveFilters, &c.UncachedFilters[i])
		}
	}
}

// isCacheable reports whether Filter or Score of a plugin depends on no
// uncacheable facet.
func isCacheable(plugin fwk.Plugin, reads framework.Reads) bool {
	_, filters := plugin.(fwk.FilterPlugin)
	_, scores := plugin.(fwk.ScorePlugin)
	return filters && reads.Filter&uncacheableFacets == 0 || scores && reads.Score&uncacheableFacets == 0
}

// AddSelectedLabels adds the label keys that the plugins' own selectors name.
func AddSelectedLabels(f *framework.Framework, keys *LabelKeys) {
	for _, plugin := range f.Plugins() {
		if selecting, ok := plugin.(LabelSelecting); ok {
			selecting.SelectedLabels(keys)
		}
	}
}

// New lets the plugins of f compute the class of pod. It returns nil if such
// pods have to be scheduled by the reference. cacheable are the forms of a
// class that differs in nothing that they read; if nil they are built.
func New(f *framework.Framework, pod *v1.Pod, columns *counts.Columns, cacheable *CacheableForms) *Class {
	m := &builder{f, pod, columns, &Class{State: framework.NewCycleState(), CacheableForms: cacheable}, cacheable == nil}
	if cacheable == nil {
		m.class.CacheableForms = &CacheableForms{}
	}
	// Not the attempt's context, which the forms outlive.
	result, status, _ := f.RunNonOpaquePreFilterPlugins(f.Context(), m.class.State, pod)
	if !status.IsSuccess() || !result.AllNodes() || f.RequestsDevices(pod) {
		return nil
	}
	for index, plugin := range f.FilterChain() {
		if !m.addFilter(index, plugin) {
			return nil
		}
	}
	m.class.updateActive()
	if !runCacheablePreScore(f.Context(), f, m.class.State, pod) {
		return nil
	}
	for index, plugin := range f.ScoreChain() {
		if !m.addScore(index, plugin) {
			return nil
		}
	}
	return m.class
}

// builder builds a Class.
type builder struct {
	*framework.Framework
	pod     *v1.Pod
	columns *counts.Columns
	class   *Class
	// withCacheable says that cacheable forms are built, too.
	withCacheable bool
}

// addFilter adds a plugin of the Filter chain. It returns false if the plugin
// needs a batch form and has none for the pod.
func (m *builder) addFilter(index int, counted framework.CountedFilter) bool {
	plugin, c := counted.FilterPlugin, m.class
	if m.IsOpaque(m.pod, plugin.Name()) || framework.ReadsPerAttempt(plugin) {
		return true // it rejects no node for pods without volumes or claims
	}
	live := framework.ReadsOf(plugin).Filter&uncacheableFacets != 0
	if !live && (!m.withCacheable || c.State.GetSkipFilterPlugins().Has(plugin.Name())) {
		return true
	}
	var form BatchFilter
	hasForm := false
	if batcher, ok := plugin.(BatchFilterPlugin); ok {
		form, hasForm = batcher.BatchFilter(c.State, m.pod, m.columns)
	}
	switch {
	case hasForm && form == nil:
		return true
	case live:
		if _, ok := form.(UncachedBatchFilter); !ok {
			return false
		}
		skips := c.State.GetSkipFilterPlugins().Has(plugin.Name())
		c.UncachedFilters = append(c.UncachedFilters, ClassFilter{form, plugin.Name(), index, skips, counted.Evaluations})
		return true
	case !hasForm:
		form = &batchFilterAdapter{FilterPlugin: plugin, ctx: m.Context(), state: c.State, pod: m.pod, columns: m.columns}
	}
	c.CacheableFilters = append(c.CacheableFilters, ClassFilter{BatchFilter: form, Plugin: plugin.Name(), Index: index, evaluations: counted.Evaluations})
	return true
}

// addScore adds a plugin of the Score chain, with the same result as addFilter.
func (m *builder) addScore(index int, plugin framework.WeightedScore) bool {
	c := m.class
	if m.IsOpaque(m.pod, plugin.Plugin) {
		return true
	}
	if framework.ReadsPerAttempt(plugin.ScorePlugin) {
		if !c.State.GetSkipScorePlugins().Has(plugin.Plugin) {
			c.UncachedScores = append(c.UncachedScores, ClassScore{BatchScore: zeroScore{}, Plugin: plugin.Plugin, Index: index, Weight: plugin.Weight})
		}
		return true
	}
	live := framework.ReadsOf(plugin.ScorePlugin).Score&uncacheableFacets != 0
	if !live && (!m.withCacheable || c.State.GetSkipScorePlugins().Has(plugin.Plugin)) {
		return true
	}
	if live && !slices.ContainsFunc(m.PreScoreChain(), func(p fwk.PreScorePlugin) bool { return p.Name() == plugin.Plugin }) {
		return false
	}
	var form BatchScore
	hasForm := false
	if batcher, ok := plugin.ScorePlugin.(BatchScorePlugin); ok {
		form, hasForm = batcher.BatchScore(c.State, m.pod, m.columns)
	}
	switch {
	case hasForm && form == nil:
		return true
	case !hasForm && (live || plugin.ScoreExtensions() != nil):
		return false
	case !hasForm:
		form = &batchScoreAdapter{ScorePlugin: plugin.ScorePlugin, ctx: m.Context(), state: c.State, pod: m.pod, columns: m.columns}
	}
	normal, _ := form.(BatchNormalizer)
	incremental, _ := form.(IncrementalBatchScore)
	made := ClassScore{form, plugin.Plugin, index, plugin.Weight, normal, incremental, m.EvaluationCounter(plugin.Plugin, "Score")}
	if live {
		c.UncachedScores = append(c.UncachedScores, made)
	} else {
		c.CacheableScores = append(c.CacheableScores, made)
	}
	return true
}

// runCacheablePreScore runs PreScore of the plugins with cacheable scores.
func runCacheablePreScore(ctx context.Context, f *framework.Framework, state *framework.CycleState, pod *v1.Pod) bool {
	skipped, ok := runPreScore(ctx, f, state, pod, f.PreScoreChain())
	state.SetSkipScorePlugins(sets.New(skipped...))
	return ok
}

// runPreScore runs PreScore of those plugins whose scores are cacheable, and
// returns the names of those that skip Score. They do not read the list of nodes,
// which is nil.
func runPreScore(ctx context.Context, f *framework.Framework, state *framework.CycleState, pod *v1.Pod, plugins []fwk.PreScorePlugin) (skipped []string, ok bool) {
	for _, plugin := range plugins {
		if f.IsOpaque(pod, plugin.Name()) || framework.ReadsOf(plugin).Score&uncacheableFacets != 0 && !framework.ReadsPerAttempt(plugin) {
			continue
		}
		done := f.TrackCall(state, plugin.Name(), "PreScore")
		s := plugin.PreScore(ctx, state, pod, nil)
		if done() {
			return nil, false
		}
		if s.IsSkip() {
			skipped = append(skipped, plugin.Name())
			continue
		}
		f.EvaluationCounter(plugin.Name(), "PreScore").Inc()
		if !s.IsSuccess() {
			return nil, false
		}
	}
	return skipped, true
}

// zeroScore is the batch score of a plugin that reads volumes or claims, for pods
// without them: 0.
type zeroScore struct{}

// Idle returns true.
func (zeroScore) Idle() bool { return true }

func (zeroScore) Score(_ []counts.Slot, scores []int64) ScoreResult {
	clear(scores)
	return Scored
}
