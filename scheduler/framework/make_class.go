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
func (f *Framework) NewClass(pod *v1.Pod, columns *Columns, lasting *Lasting) *Class {
	m := &maker{f, pod, columns, &Class{State: NewCycleState(), Lasting: lasting, framework: f, opaques: f.opaquesFor(pod)}, lasting == nil}
	if lasting == nil {
		m.class.Lasting = &Lasting{}
	}
	// Forms outlive the attempt.
	result, status, _ := f.RunOpenPreFilterPlugins(f.ctx, m.class.State, pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return nil
	}
	for place := range f.filter {
		if !m.addFilter(place) {
			return nil
		}
	}
	m.class.line()
	if !f.prepareScores(f.ctx, m.class.State, pod) {
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
type maker struct {
	*Framework
	pod     *v1.Pod
	columns *Columns
	class   *Class
	// all says that lasting forms are made as well.
	all bool
}

// addFilter adds the form of a plugin in the Filter chain. It reports false
// when there is none.
func (m *maker) addFilter(place int) bool {
	plugin, c := m.filter[place].FilterPlugin, m.class
	if m.Opaque(m.pod, plugin.Name()) || readsVolumes(plugin) {
		return true // which has nothing to say of a pod without volumes
	}
	live := readsOf(plugin).Filter&moving != 0
	if !live && (!m.all || c.State.GetSkipFilterPlugins().Has(plugin.Name())) {
		return true
	}
	var form FilterForm
	formed := false
	if batcher, ok := plugin.(FilterBatcher); ok {
		form, formed = batcher.FilterForm(c.State, m.pod, m.columns)
	}
	switch {
	case formed && form == nil:
		return true
	case live:
		if _, ok := form.(LiveFilterForm); !ok {
			return false
		}
		skips := c.State.GetSkipFilterPlugins().Has(plugin.Name())
		c.Filters = append(c.Filters, ClassFilter{form, plugin.Name(), place, skips, m.filter[place].asked})
		return true
	case !formed:
		form = &filterByNode{FilterPlugin: plugin, ctx: m.ctx, state: c.State, pod: m.pod, columns: m.columns}
	}
	c.LastingFilters = append(c.LastingFilters, ClassFilter{FilterForm: form, Plugin: plugin.Name(), Place: place, asked: m.filter[place].asked})
	return true
}

// addScore adds the form of a plugin in the Score chain.
func (m *maker) addScore(place int) bool {
	plugin, c := &m.score[place], m.class
	if m.Opaque(m.pod, plugin.name) {
		return true
	}
	if readsVolumes(plugin.ScorePlugin) {
		if !c.State.GetSkipScorePlugins().Has(plugin.name) {
			c.Scores = append(c.Scores, ClassScore{ScoreForm: noVolumes{}, Plugin: plugin.name, Place: place, Weight: plugin.weight, asked: uncounted})
		}
		return true
	}
	live := readsOf(plugin.ScorePlugin).Score&moving != 0
	if !live && (!m.all || c.State.GetSkipScorePlugins().Has(plugin.name)) {
		return true
	}
	if live && !m.preScores(plugin.name) {
		return false
	}
	var form ScoreForm
	formed := false
	if batcher, ok := plugin.ScorePlugin.(ScoreBatcher); ok {
		form, formed = batcher.ScoreForm(c.State, m.pod, m.columns)
	}
	switch {
	case formed && form == nil:
		return true
	case !formed && (live || plugin.ScoreExtensions() != nil):
		return false
	case !formed:
		form = &scoreByNode{ScorePlugin: plugin.ScorePlugin, ctx: m.ctx, state: c.State, pod: m.pod, columns: m.columns}
	}
	normal, _ := form.(NormalForm)
	kept, _ := form.(KeptScoreForm)
	made := ClassScore{form, plugin.name, place, plugin.weight, normal, kept, m.asked(plugin.name, "Score")}
	if live {
		c.Scores = append(c.Scores, made)
	} else {
		c.LastingScores = append(c.LastingScores, made)
	}
	return true
}

// prepareScores runs PreScore of the plugins whose scores are remembered,
// which do not look at the nodes.
func (f *Framework) prepareScores(ctx context.Context, state *CycleState, pod *v1.Pod) bool {
	skipped := sets.New[string]()
	for _, plugin := range f.preScore {
		if f.Opaque(pod, plugin.Name()) || readsOf(plugin).Score&moving != 0 && !readsVolumes(plugin) {
			continue
		}
		f.trial.calls(plugin.Name(), "PreScore")
		s := plugin.PreScore(ctx, state, pod, nil)
		if s.IsSkip() {
			skipped.Insert(plugin.Name())
			continue
		}
		f.asked(plugin.Name(), "PreScore").Inc()
		if !s.IsSuccess() {
			return false
		}
	}
	state.SetSkipScorePlugins(skipped)
	return true
}

// preScores reports whether a plugin runs at PreScore.
func (f *Framework) preScores(name string) bool {
	return slices.ContainsFunc(f.preScore, func(p fwk.PreScorePlugin) bool { return p.Name() == name })
}
