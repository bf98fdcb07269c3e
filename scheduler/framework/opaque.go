package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// opaques are the plugins that do not say what they read and, for a pod that has
// volumes, those that read them. Nothing that they say is remembered: where other
// plugins' verdicts are, these are asked beside them, in every attempt and about
// every node that it meets.
type opaques struct {
	preFilter bool // whether there are any
	filters   []OpaqueFilter
	preScore  []fwk.PreScorePlugin
	scores    []OpaqueScore
	names     sets.Set[string]
}

// OpaqueFilter is an opaque plugin in the Filter chain.
type OpaqueFilter struct {
	fwk.FilterPlugin
	// Place is the plugin's in its chain, from 0.
	Place int
	alone []filterer // the plugin as a chain
}

// OpaqueScore is an opaque plugin in the Score chain.
type OpaqueScore struct {
	Plugin string
	// Place is the plugin's in its chain, from 0.
	Place  int
	Weight int64
	scorer scorer
}

// opaque reports whether a plugin that decides does not say what it reads.
func opaque(plugin fwk.Plugin) bool {
	_, reads := plugin.(Reader)
	return decides(plugin) && !reads
}

// opaquesOf finds them in f's chains.
func (f *Framework) opaquesOf(opaque func(fwk.Plugin) bool) (o opaques) {
	o.names = sets.New[string]()
	for _, plugin := range f.plugins {
		if opaque(plugin) {
			o.names.Insert(plugin.Name())
		}
	}
	for _, plugin := range f.preFilter {
		o.preFilter = o.preFilter || opaque(plugin)
	}
	for place, plugin := range f.filter {
		if opaque(plugin.FilterPlugin) {
			o.filters = append(o.filters, OpaqueFilter{plugin.FilterPlugin, place, f.filter[place : place+1]})
		}
	}
	for _, plugin := range f.preScore {
		if opaque(plugin) {
			o.preScore = append(o.preScore, plugin)
		}
	}
	for place, plugin := range f.score {
		if opaque(plugin.ScorePlugin) {
			o.scores = append(o.scores, OpaqueScore{plugin.name, place, plugin.weight, plugin})
		}
	}
	return o
}

// opaquesFor are those for a pod.
func (f *Framework) opaquesFor(pod *v1.Pod) *opaques {
	if len(pod.Spec.Volumes) > 0 && HasVolumes(pod) {
		return &f.withVolumes
	}
	return &f.opaques
}

// Opaque reports whether a plugin is for pod; with "", whether any is.
func (f *Framework) Opaque(pod *v1.Pod, plugin string) bool {
	names := f.opaquesFor(pod).names
	return names.Has(plugin) || plugin == "" && len(names) > 0
}

// HasOpaquePreFilters reports whether a plugin is in the PreFilter chain that is
// opaque for pod.
func (f *Framework) HasOpaquePreFilters(pod *v1.Pod) bool { return f.opaquesFor(pod).preFilter }

// RunOpenPreFilterPlugins is RunPreFilterPlugins by those that are not opaque.
func (f *Framework) RunOpenPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	o := f.opaquesFor(pod)
	if !o.preFilter {
		return f.preFilterBy(ctx, state, pod, f.preFilter)
	}
	open := slices.DeleteFunc(slices.Clone(f.preFilter), func(p fwk.PreFilterPlugin) bool { return o.names.Has(p.Name()) })
	return f.preFilterBy(ctx, state, pod, open)
}

// RunOpenFilterPlugins is RunFilterPlugins by those that are not opaque.
func (f *Framework) RunOpenFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	o := f.opaquesFor(pod)
	if len(o.filters) == 0 {
		return f.RunFilterPlugins(ctx, state, pod, node)
	}
	open := slices.DeleteFunc(slices.Clone(f.filter), func(p filterer) bool { return o.names.Has(p.Name()) })
	return f.filterBy(ctx, state, pod, node, open)
}

// RunOpaqueFilter asks one opaque plugin about one node.
func (f *Framework) RunOpaqueFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, filter *OpaqueFilter) *fwk.Status {
	return f.filterBy(ctx, state, pod, node, filter.alone)
}

// OpaqueFilters appends those for pod that state does not skip to list.
func (f *Framework) OpaqueFilters(list []OpaqueFilter, state fwk.CycleState, pod *v1.Pod) []OpaqueFilter {
	for _, filter := range f.opaquesFor(pod).filters {
		if !state.GetSkipFilterPlugins().Has(filter.Name()) {
			list = append(list, filter)
		}
	}
	return list
}

// ScoreOpaque has the opaque plugins in the Score chain score nodes: normalised,
// before weights. A status other than success is what the attempt ends with.
func (f *Framework) ScoreOpaque(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (of []OpaqueScore, scores []fwk.NodeScoreList, status *fwk.Status) {
	o := f.opaquesFor(pod)
	skipped, status := f.preScoreBy(ctx, state, pod, nodes, o.preScore)
	if !status.IsSuccess() {
		return nil, nil, status
	}
	for _, plugin := range o.scores {
		if skipped.Has(plugin.Plugin) {
			continue
		}
		f.trial.calls(plugin.Plugin, "Score")
		list, status := f.rate(ctx, plugin.scorer, state, pod, nodes)
		if status.IsSuccess() {
			status = f.normalise(ctx, plugin.scorer, state, pod, list)
		}
		if !status.IsSuccess() {
			return nil, nil, status
		}
		of, scores = append(of, plugin), append(scores, list)
	}
	return of, scores, nil
}
