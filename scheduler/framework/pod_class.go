package framework

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Class is what the plugins of a Framework made of the pods of one class: what
// PreFilter and PreScore noted of one of them, and their forms.
type PodClass struct {
	*CacheableForms
	// State is what an attempt's state stands on. It is replaced, never
	// changed.
	State *CycleState
	// Filters and Scores are the live forms, in the order of their chains.
	UncachedFilters []ClassFilter
	UncachedScores  []ClassScore
	// Live are those of Filters that do not skip the pods, as of Begin.
	ActiveFilters []*ClassFilter

	framework     *Framework
	opaquePlugins *opaquePluginSet
	// chain is the Filter chain without the plugins that skip the pods, and
	// without opaque ones.
	chain []countedFilter
}

// Lasting is the forms whose verdicts last as long as a node does not change.
// Classes share it that differ in nothing that these read.
type CacheableForms struct {
	// LastingFilters and LastingScores are in the order of their chains.
	CacheableFilters []ClassFilter
	CacheableScores  []ClassScore
}

// ClassFilter is a form in the Filter chain.
type ClassFilter struct {
	BatchFilter
	Plugin string
	// Place is the plugin's in its chain, from 0.
	Index int
	// skips says that PreFilter of a live form would answer Skip.
	skips bool
	// asked counts the nodes that the form is asked about.
	evaluations prometheus.Counter
}

// Idle reports whether the form refuses no node now.
func (c *ClassFilter) Idle() bool { return isIdle(c.BatchFilter) }

// ClassScore is a form in the Score chain.
type ClassScore struct {
	BatchScore
	Plugin string
	// Place is the plugin's in its chain, from 0.
	Index  int
	Weight int64
	// Normal normalises; nil where nothing has to be.
	Normalizer BatchNormalizer
	// kept is the form where it reads counts, nil elsewhere.
	incremental IncrementalBatchScore
	// asked counts the nodes that the form is asked about.
	evaluations prometheus.Counter
}

// Idle reports whether the form scores all nodes with 0 now.
func (c *ClassScore) Idle() bool { return isIdle(c.BatchScore) }

// HighestScore is the largest sum of weighted scores that a node can have.
func (f *Framework) MaxTotalScore() int64 {
	var sum int64
	for i := range f.score {
		sum += f.score[i].weight * fwk.MaxScore
	}
	return sum
}

// ScorePlugins is how many plugins score.
func (f *Framework) NumScorePlugins() int { return len(f.score) }

// ClassKeys returns what writes down the two parts of a class's key: what
// lasting forms read of a pod, and the rest. labels are the keys that
// selectors of placed pods name.
func (f *Framework) ClassKeyBuilders(labels *LabelKeys) (lasting, rest *ClassKeyBuilder) {
	lasting = &ClassKeyBuilder{Labels: labels}
	// A PodInfo is shared by its class as well.
	rest = &ClassKeyBuilder{Facets: PodNamespace | PodRequests | PodAffinity, Labels: labels}
	for _, plugin := range f.plugins {
		reader, reads := plugin.(ReadsDeclarer)
		if !reads || !affectsPlacement(plugin) {
			continue
		}
		keys := rest
		if isCacheable(plugin, reader.Reads()) {
			keys = lasting
		}
		keys.Facets |= reader.Reads().Pod
		if keyer, ok := plugin.(PodKeyer); ok {
			keys.Keyers = append(keys.Keyers, keyer)
		}
	}
	rest.Facets &^= lasting.Facets
	return lasting, rest
}

// Minds reports whether a verdict that is remembered depends on any of facets.
func (l *CacheableForms) DependsOn(facets Facets) bool {
	minds := func(form any) bool {
		minding, ok := form.(DependencyReporter)
		return ok && minding.Dependencies()&facets != 0
	}
	return slices.ContainsFunc(l.CacheableFilters, func(f ClassFilter) bool { return minds(f.BatchFilter) }) ||
		slices.ContainsFunc(l.CacheableScores, func(s ClassScore) bool { return minds(s.BatchScore) })
}

// ScoreRemembered is what a class remembers of a node's score, made anew in the
// plain way from a pod and its own state. It reports false when a plugin fails.
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

// Begin comes before an attempt. It reports false when the class has to be
// made anew.
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
		if kept := c.UncachedScores[i].incremental; kept != nil && !kept.Current() {
			return false
		}
	}
	return true
}

// RunFilterPlugins is the Framework's RunOpenFilterPlugins for a pod of the class whose state stands
// on the class's: who skips such pods is known.
func (c *PodClass) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (status *fwk.Status) {
	running := ""
	defer c.framework.recoverPanic(pod, state, &running, "Filter", &status)
	w := callWatchOf(state)
	for _, plugin := range c.chain {
		running = plugin.Name()
		c.framework.trial.recordCall(running, "Filter")
		outer := c.framework.beginCall(w, running, "Filter")
		begin := c.framework.callStart(state)
		s := plugin.Filter(ctx, state, pod, node)
		c.framework.observePluginDuration(begin, running, "Filter", s)
		plugin.evaluations.Inc()
		c.framework.endCall(w, running, outer)
		if !s.IsSuccess() {
			return filterStatus(running, s)
		}
	}
	return nil
}

// skip changes which plugins Filter passes over, for attempts to come.
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

// line finds out who does not skip the pods.
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

// readsOf is what a plugin says that it reads; nothing, when it does not say.
func readsOf(plugin fwk.Plugin) Reads {
	if reader, ok := plugin.(ReadsDeclarer); ok {
		return reader.Reads()
	}
	return Reads{}
}

// lasts reports whether any verdict of a plugin lasts as long as a node does not
// change.
func isCacheable(plugin fwk.Plugin, reads Reads) bool {
	_, filters := plugin.(fwk.FilterPlugin)
	_, scores := plugin.(fwk.ScorePlugin)
	return filters && reads.Filter&uncacheableFacets == 0 || scores && reads.Score&uncacheableFacets == 0
}

// SelectedLabels adds the keys that plugins' own selectors name.
func (f *Framework) SelectedLabels(keys *LabelKeys) {
	for _, plugin := range f.plugins {
		if selecting, ok := plugin.(LabelSelecting); ok {
			selecting.SelectedLabels(keys)
		}
	}
}

// NewClass asks the plugins about a pod as one of its class. It is nil when
// pods like it have to go the plain way. lasting are the lasting forms of a
// class that differs in nothing that they read; nil makes them.
func (f *Framework) NewPodClass(pod *v1.Pod, columns *Columns, lasting *CacheableForms) *PodClass {
	m := &podClassBuilder{f, pod, columns, &PodClass{State: NewCycleState(), CacheableForms: lasting, framework: f, opaquePlugins: f.opaquePluginsFor(pod)}, lasting == nil}
	if lasting == nil {
		m.class.CacheableForms = &CacheableForms{}
	}
	// Forms outlive the attempt.
	result, status, _ := f.RunNonOpaquePreFilterPlugins(f.ctx, m.class.State, pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return nil
	}
	for place := range f.filter {
		if !m.addFilter(place) {
			return nil
		}
	}
	m.class.updateActive()
	if !f.runCacheablePreScore(f.ctx, m.class.State, pod) {
		return nil
	}
	for place := range f.score {
		if !m.addScore(place) {
			return nil
		}
	}
	return m.class
}

// maker makes a class.
type podClassBuilder struct {
	*Framework
	pod     *v1.Pod
	columns *Columns
	class   *PodClass
	// all says that lasting forms are made as well.
	withCacheable bool
}

// addFilter adds the form of a plugin in the Filter chain. It reports false
// when there is none.
func (m *podClassBuilder) addFilter(place int) bool {
	plugin, c := m.filter[place].FilterPlugin, m.class
	if m.IsOpaque(m.pod, plugin.Name()) || readsVolumes(plugin) {
		return true // which has nothing to say of a pod without volumes
	}
	live := readsOf(plugin).Filter&uncacheableFacets != 0
	if !live && (!m.withCacheable || c.State.GetSkipFilterPlugins().Has(plugin.Name())) {
		return true
	}
	var form BatchFilter
	formed := false
	if batcher, ok := plugin.(BatchFilterPlugin); ok {
		form, formed = batcher.BatchFilter(c.State, m.pod, m.columns)
	}
	switch {
	case formed && form == nil:
		return true
	case live:
		if _, ok := form.(UncachedBatchFilter); !ok {
			return false
		}
		skips := c.State.GetSkipFilterPlugins().Has(plugin.Name())
		c.UncachedFilters = append(c.UncachedFilters, ClassFilter{form, plugin.Name(), place, skips, m.filter[place].evaluations})
		return true
	case !formed:
		form = &batchFilterAdapter{FilterPlugin: plugin, ctx: m.ctx, state: c.State, pod: m.pod, columns: m.columns}
	}
	c.CacheableFilters = append(c.CacheableFilters, ClassFilter{BatchFilter: form, Plugin: plugin.Name(), Index: place, evaluations: m.filter[place].evaluations})
	return true
}

// addScore adds the form of a plugin in the Score chain.
func (m *podClassBuilder) addScore(place int) bool {
	plugin, c := &m.score[place], m.class
	if m.IsOpaque(m.pod, plugin.name) {
		return true
	}
	if readsVolumes(plugin.ScorePlugin) {
		if !c.State.GetSkipScorePlugins().Has(plugin.name) {
			c.UncachedScores = append(c.UncachedScores, ClassScore{BatchScore: noVolumesScore{}, Plugin: plugin.name, Index: place, Weight: plugin.weight, evaluations: uncounted})
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
	formed := false
	if batcher, ok := plugin.ScorePlugin.(BatchScorePlugin); ok {
		form, formed = batcher.BatchScore(c.State, m.pod, m.columns)
	}
	switch {
	case formed && form == nil:
		return true
	case !formed && (live || plugin.ScoreExtensions() != nil):
		return false
	case !formed:
		form = &batchScoreAdapter{ScorePlugin: plugin.ScorePlugin, ctx: m.ctx, state: c.State, pod: m.pod, columns: m.columns}
	}
	normal, _ := form.(BatchNormalizer)
	kept, _ := form.(IncrementalBatchScore)
	made := ClassScore{form, plugin.name, place, plugin.weight, normal, kept, m.evaluationCounter(plugin.name, "Score")}
	if live {
		c.UncachedScores = append(c.UncachedScores, made)
	} else {
		c.CacheableScores = append(c.CacheableScores, made)
	}
	return true
}

// prepareScores runs PreScore of the plugins whose scores are remembered,
// which do not look at the nodes.
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

// preScores reports whether a plugin runs at PreScore.
func (f *Framework) hasPreScorePlugin(name string) bool {
	return slices.ContainsFunc(f.preScore, func(p fwk.PreScorePlugin) bool { return p.Name() == name })
}
