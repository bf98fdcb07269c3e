package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

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
