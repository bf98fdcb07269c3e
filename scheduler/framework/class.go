package framework

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Class is what the plugins of a Framework made of the pods of one class: what
// PreFilter and PreScore noted of one of them, and their forms.
type Class struct {
	*Lasting
	// State is what an attempt's state stands on. It is replaced, never
	// changed.
	State *CycleState
	// Filters and Scores are the live forms, in the order of their chains.
	Filters []ClassFilter
	Scores  []ClassScore
	// Live are those of Filters that do not skip the pods, as of Begin.
	Live []*ClassFilter

	framework *Framework
	opaques   *opaques
	// chain is the Filter chain without the plugins that skip the pods, and
	// without opaque ones.
	chain []filterer
}

// Lasting is the forms whose verdicts last as long as a node does not change.
// Classes share it that differ in nothing that these read.
type Lasting struct {
	// LastingFilters and LastingScores are in the order of their chains.
	LastingFilters []ClassFilter
	LastingScores  []ClassScore
}

// ClassFilter is a form in the Filter chain.
type ClassFilter struct {
	FilterForm
	Plugin string
	// Place is the plugin's in its chain, from 0.
	Place int
	// skips says that PreFilter of a live form would answer Skip.
	skips bool
	// asked counts the nodes that the form is asked about.
	asked prometheus.Counter
}

// Idle reports whether the form refuses no node now.
func (c *ClassFilter) Idle() bool { return idle(c.FilterForm) }

// ClassScore is a form in the Score chain.
type ClassScore struct {
	ScoreForm
	Plugin string
	// Place is the plugin's in its chain, from 0.
	Place  int
	Weight int64
	// Normal normalises; nil where nothing has to be.
	Normal NormalForm
	// kept is the form where it reads counts, nil elsewhere.
	kept KeptScoreForm
	// asked counts the nodes that the form is asked about.
	asked prometheus.Counter
}

// Idle reports whether the form scores all nodes with 0 now.
func (c *ClassScore) Idle() bool { return idle(c.ScoreForm) }

// HighestScore is the largest sum of weighted scores that a node can have.
func (f *Framework) HighestScore() int64 {
	var sum int64
	for i := range f.score {
		sum += f.score[i].weight * fwk.MaxScore
	}
	return sum
}

// ScorePlugins is how many plugins score.
func (f *Framework) ScorePlugins() int { return len(f.score) }

// ClassKeys returns what writes down the two parts of a class's key: what
// lasting forms read of a pod, and the rest. labels are the keys that
// selectors of placed pods name.
func (f *Framework) ClassKeys(labels *LabelKeys) (lasting, rest *ClassKeys) {
	lasting = &ClassKeys{Labels: labels}
	// A PodInfo is shared by its class as well.
	rest = &ClassKeys{Facets: PodNamespace | PodRequests | PodAffinity, Labels: labels}
	for _, plugin := range f.plugins {
		reader, reads := plugin.(Reader)
		if !reads || !decides(plugin) {
			continue
		}
		keys := rest
		if lasts(plugin, reader.Reads()) {
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
func (l *Lasting) Minds(facets Facets) bool {
	minds := func(form any) bool {
		minding, ok := form.(MindingForm)
		return ok && minding.Minds()&facets != 0
	}
	return slices.ContainsFunc(l.LastingFilters, func(f ClassFilter) bool { return minds(f.FilterForm) }) ||
		slices.ContainsFunc(l.LastingScores, func(s ClassScore) bool { return minds(s.ScoreForm) })
}

// ScoreRemembered is what a class remembers of a node's score, made anew in the
// plain way from a pod and its own state. It reports false when a plugin fails.
func (f *Framework) ScoreRemembered(ctx context.Context, state *CycleState, pod *v1.Pod, node fwk.NodeInfo) (sum int64, ok bool) {
	if !f.prepareScores(ctx, state, pod) {
		return 0, false
	}
	for i := range f.score {
		plugin := &f.score[i]
		if f.Opaque(pod, plugin.name) || readsVolumes(plugin.ScorePlugin) || readsOf(plugin.ScorePlugin).Score&moving != 0 || plugin.ScoreExtensions() != nil || state.GetSkipScorePlugins().Has(plugin.name) {
			continue
		}
		f.trial.calls(plugin.name, "Score")
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
func (c *Class) Begin() bool {
	for i := range c.Filters {
		skip, ok := c.Filters[i].FilterForm.(LiveFilterForm).Begin()
		if !ok {
			return false
		}
		if c.Filters[i].skips != skip {
			c.Filters[i].skips = skip
			c.skip(c.Filters[i].Plugin, skip)
		}
	}
	for i := range c.Scores {
		if kept := c.Scores[i].kept; kept != nil && !kept.Current() {
			return false
		}
	}
	return true
}

// RunFilterPlugins is the Framework's RunOpenFilterPlugins for a pod of the class whose state stands
// on the class's: who skips such pods is known.
func (c *Class) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (status *fwk.Status) {
	running := ""
	defer c.framework.rescue(pod, state, &running, "Filter", &status)
	w := watch(state)
	for _, plugin := range c.chain {
		running = plugin.Name()
		c.framework.trial.calls(running, "Filter")
		outer := c.framework.enter(w, running, "Filter")
		begin := c.framework.begins(state)
		s := plugin.Filter(ctx, state, pod, node)
		c.framework.took(begin, running, "Filter", s)
		plugin.asked.Inc()
		c.framework.leave(w, running, outer)
		if !s.IsSuccess() {
			return refusalOf(running, s)
		}
	}
	return nil
}

// skip changes which plugins Filter passes over, for attempts to come.
func (c *Class) skip(plugin string, skip bool) {
	skipped := c.State.GetSkipFilterPlugins().Clone()
	if skip {
		skipped.Insert(plugin)
	} else {
		skipped.Delete(plugin)
	}
	next := &CycleState{notes: c.State.notes}
	next.SetSkipFilterPlugins(skipped)
	next.SetSkipScorePlugins(c.State.GetSkipScorePlugins())
	c.State = next
	c.line()
}

// line finds out who does not skip the pods.
func (c *Class) line() {
	c.Live, c.chain = nil, nil
	skipped := c.State.GetSkipFilterPlugins()
	for i := range c.Filters {
		if !c.Filters[i].skips {
			c.Live = append(c.Live, &c.Filters[i])
		}
	}
	for _, plugin := range c.framework.filter {
		if !skipped.Has(plugin.Name()) && !c.opaques.names.Has(plugin.Name()) {
			c.chain = append(c.chain, plugin)
		}
	}
}

// readsOf is what a plugin says that it reads; nothing, when it does not say.
func readsOf(plugin fwk.Plugin) Reads {
	if reader, ok := plugin.(Reader); ok {
		return reader.Reads()
	}
	return Reads{}
}

// lasts reports whether any verdict of a plugin lasts as long as a node does not
// change.
func lasts(plugin fwk.Plugin, reads Reads) bool {
	_, filters := plugin.(fwk.FilterPlugin)
	_, scores := plugin.(fwk.ScorePlugin)
	return filters && reads.Filter&moving == 0 || scores && reads.Score&moving == 0
}

// SelectedLabels adds the keys that plugins' own selectors name.
func (f *Framework) SelectedLabels(keys *LabelKeys) {
	for _, plugin := range f.plugins {
		if selecting, ok := plugin.(LabelSelecting); ok {
			selecting.SelectedLabels(keys)
		}
	}
}
