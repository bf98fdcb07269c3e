package framework

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodClass is what the plugins of a Framework computed for one pod class: the
// state that PreFilter and PreScore wrote for one pod of the class, and the
// batch forms. A pod class is a set of pods that no plugin can distinguish.
type PodClass struct {
	*CacheableForms
	// State is the base of the attempts' states. It is replaced, never changed.
	State *CycleState
	// UncachedFilters and UncachedScores are in the order of their chains.
	UncachedFilters []ClassFilter
	UncachedScores  []ClassScore
	// ActiveFilters are those UncachedFilters that do not skip the pods, as of
	// the last Begin.
	ActiveFilters []*ClassFilter

	framework     *Framework
	opaquePlugins *opaquePluginSet
	// chain is the Filter chain without opaque plugins and those that skip the
	// pods.
	chain []countedFilter
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

// MaxTotalScore is the highest weighted sum of scores that a node can get.
func (f *Framework) MaxTotalScore() int64 {
	var sum int64
	for i := range f.score {
		sum += f.score[i].weight * fwk.MaxScore
	}
	return sum
}

// NumScorePlugins is the number of Score plugins.
func (f *Framework) NumScorePlugins() int { return len(f.score) }

// ClassKeyBuilders returns the builders of the two parts of a pod class's key:
// what cacheable forms read of a pod, and the rest. labels are the label keys
// that selectors name.
func (f *Framework) ClassKeyBuilders(labels *LabelKeys) (cacheable, remaining *ClassKeyBuilder) {
	cacheable = &ClassKeyBuilder{Labels: labels}
	// A class shares a PodInfo, which depends on these facets.
	remaining = &ClassKeyBuilder{Facets: PodNamespace | PodRequests | PodAffinity, Labels: labels}
	for _, plugin := range f.plugins {
		reader, reads := plugin.(ReadsDeclarer)
		if !reads || !affectsPlacement(plugin) {
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
	return cacheable, remaining
}

// DependsOn reports whether a cached result depends on any of facets.
func (l *CacheableForms) DependsOn(facets Facets) bool {
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
func (f *Framework) CacheableScore(ctx context.Context, state *CycleState, pod *v1.Pod, node fwk.NodeInfo) (sum int64, ok bool) {
	if !f.runCacheablePreScore(ctx, state, pod) {
		return 0, false
	}
	for i := range f.score {
		plugin := &f.score[i]
		if f.IsOpaque(pod, plugin.name) || readsVolumes(plugin.ScorePlugin) || readsOf(plugin.ScorePlugin).Score&uncacheableFacets != 0 || plugin.ScoreExtensions() != nil || state.GetSkipScorePlugins().Has(plugin.name) {
			continue
		}
		f.trial.recordCall(plugin.name, "Score")
		score, status := plugin.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return 0, false
		}
		sum += plugin.weight * score
	}
	return sum, true
}

// Begin prepares the class for an attempt. It returns false if the class has to
// be built again.
func (c *PodClass) Begin() bool {
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

// RunFilterPlugins is Framework.RunNonOpaqueFilterPlugins for a pod of the
// class whose state has c.State as its base. It calls only plugins that do not
// skip the pods.
func (c *PodClass) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (status *fwk.Status) {
	running := ""
	defer c.framework.recoverPanic(pod, state, &running, "Filter", &status)
	for _, plugin := range c.chain {
		running = plugin.Name()
		call := c.framework.beginCall(state, running, "Filter")
		s := plugin.Filter(ctx, state, pod, node)
		plugin.evaluations.Inc()
		if abandoned := call.end(s); abandoned != nil {
			return abandoned
		}
		if !s.IsSuccess() {
			return filterStatus(running, s)
		}
	}
	return nil
}

// setSkipped sets whether Filter skips a plugin in later attempts.
func (c *PodClass) setSkipped(plugin string, skip bool) {
	skipped := c.State.GetSkipFilterPlugins().Clone()
	if skip {
		skipped.Insert(plugin)
	} else {
		skipped.Delete(plugin)
	}
	next := &CycleState{storage: c.State.storage}
	next.SetSkipFilterPlugins(skipped)
	next.SetSkipScorePlugins(c.State.GetSkipScorePlugins())
	c.State = next
	c.updateActive()
}

// updateActive computes ActiveFilters and chain.
func (c *PodClass) updateActive() {
	c.ActiveFilters, c.chain = nil, nil
	skipped := c.State.GetSkipFilterPlugins()
	for i := range c.UncachedFilters {
		if !c.UncachedFilters[i].skips {
			c.ActiveFilters = append(c.ActiveFilters, &c.UncachedFilters[i])
		}
	}
	for _, plugin := range c.framework.filter {
		if !skipped.Has(plugin.Name()) && !c.opaquePlugins.names.Has(plugin.Name()) {
			c.chain = append(c.chain, plugin)
		}
	}
}

// readsOf returns the declared Reads of a plugin, zero for an opaque one.
func readsOf(plugin fwk.Plugin) Reads {
	if reader, ok := plugin.(ReadsDeclarer); ok {
		return reader.Reads()
	}
	return Reads{}
}

// isCacheable reports whether Filter or Score of a plugin depends on no
// uncacheable facet.
func isCacheable(plugin fwk.Plugin, reads Reads) bool {
	_, filters := plugin.(fwk.FilterPlugin)
	_, scores := plugin.(fwk.ScorePlugin)
	return filters && reads.Filter&uncacheableFacets == 0 || scores && reads.Score&uncacheableFacets == 0
}

// SelectedLabels adds the label keys that the plugins' own selectors name.
func (f *Framework) SelectedLabels(keys *LabelKeys) {
	for _, plugin := range f.plugins {
		if selecting, ok := plugin.(LabelSelecting); ok {
			selecting.SelectedLabels(keys)
		}
	}
}

// NewPodClass lets the plugins compute the class of pod. It returns nil if such
// pods have to be scheduled by the reference. cacheable are the forms
// of a class that differs in nothing that they read; if nil they are built.
func (f *Framework) NewPodClass(pod *v1.Pod, columns *Columns, cacheable *CacheableForms) *PodClass {
	m := &podClassBuilder{f, pod, columns, &PodClass{State: NewCycleState(), CacheableForms: cacheable, framework: f, opaquePlugins: f.opaquePluginsFor(pod)}, cacheable == nil}
	if cacheable == nil {
		m.class.CacheableForms = &CacheableForms{}
	}
	// Not the attempt's context, which the forms outlive.
	result, status, _ := f.RunNonOpaquePreFilterPlugins(f.ctx, m.class.State, pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return nil
	}
	for index := range f.filter {
		if !m.addFilter(index) {
			return nil
		}
	}
	m.class.updateActive()
	if !f.runCacheablePreScore(f.ctx, m.class.State, pod) {
		return nil
	}
	for index := range f.score {
		if !m.addScore(index) {
			return nil
		}
	}
	return m.class
}

// podClassBuilder builds a PodClass.
type podClassBuilder struct {
	*Framework
	pod     *v1.Pod
	columns *Columns
	class   *PodClass
	// withCacheable says that cacheable forms are built, too.
	withCacheable bool
}

// addFilter adds a plugin of the Filter chain. It returns false if the plugin
// needs a batch form and has none for the pod.
func (m *podClassBuilder) addFilter(index int) bool {
	plugin, c := m.filter[index].FilterPlugin, m.class
	if m.IsOpaque(m.pod, plugin.Name()) || readsVolumes(plugin) {
		return true // it rejects no node for pods without volumes
	}
	live := readsOf(plugin).Filter&uncacheableFacets != 0
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
		c.UncachedFilters = append(c.UncachedFilters, ClassFilter{form, plugin.Name(), index, skips, m.filter[index].evaluations})
		return true
	case !hasForm:
		form = &batchFilterAdapter{FilterPlugin: plugin, ctx: m.ctx, state: c.State, pod: m.pod, columns: m.columns}
	}
	c.CacheableFilters = append(c.CacheableFilters, ClassFilter{BatchFilter: form, Plugin: plugin.Name(), Index: index, evaluations: m.filter[index].evaluations})
	return true
}

// addScore adds a plugin of the Score chain, with the same result as addFilter.
func (m *podClassBuilder) addScore(index int) bool {
	plugin, c := &m.score[index], m.class
	if m.IsOpaque(m.pod, plugin.name) {
		return true
	}
	if readsVolumes(plugin.ScorePlugin) {
		if !c.State.GetSkipScorePlugins().Has(plugin.name) {
			c.UncachedScores = append(c.UncachedScores, ClassScore{BatchScore: noVolumesScore{}, Plugin: plugin.name, Index: index, Weight: plugin.weight, evaluations: uncounted})
		}
		return true
	}
	live := readsOf(plugin.ScorePlugin).Score&uncacheableFacets != 0
	if !live && (!m.withCacheable || c.State.GetSkipScorePlugins().Has(plugin.name)) {
		return true
	}
	if live && !m.hasPreScorePlugin(plugin.name) {
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
		form = &batchScoreAdapter{ScorePlugin: plugin.ScorePlugin, ctx: m.ctx, state: c.State, pod: m.pod, columns: m.columns}
	}
	normal, _ := form.(BatchNormalizer)
	incremental, _ := form.(IncrementalBatchScore)
	made := ClassScore{form, plugin.name, index, plugin.weight, normal, incremental, m.evaluationCounter(plugin.name, "Score")}
	if live {
		c.UncachedScores = append(c.UncachedScores, made)
	} else {
		c.CacheableScores = append(c.CacheableScores, made)
	}
	return true
}

// runCacheablePreScore runs PreScore of the plugins with cacheable scores. They
// do not read the list of nodes, which is nil.
func (f *Framework) runCacheablePreScore(ctx context.Context, state *CycleState, pod *v1.Pod) bool {
	skipped := sets.New[string]()
	for _, plugin := range f.preScore {
		if f.IsOpaque(pod, plugin.Name()) || readsOf(plugin).Score&uncacheableFacets != 0 && !readsVolumes(plugin) {
			continue
		}
		f.trial.recordCall(plugin.Name(), "PreScore")
		s := plugin.PreScore(ctx, state, pod, nil)
		if s.IsSkip() {
			skipped.Insert(plugin.Name())
			continue
		}
		f.evaluationCounter(plugin.Name(), "PreScore").Inc()
		if !s.IsSuccess() {
			return false
		}
	}
	state.SetSkipScorePlugins(skipped)
	return true
}

// hasPreScorePlugin reports whether a plugin is enabled at PreScore.
func (f *Framework) hasPreScorePlugin(name string) bool {
	return slices.ContainsFunc(f.preScore, func(p fwk.PreScorePlugin) bool { return p.Name() == name })
}
