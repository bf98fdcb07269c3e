package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// opaquePluginSet is the plugins whose results must not be cached: those that
// do not declare what they read and, for a pod with volumes or claims, those that
// read these. They are called in every attempt for every node that it visits, also
// if the results of other plugins are cached.
type opaquePluginSet struct {
	preFilter bool // whether a PreFilter plugin is opaque
	filters   []OpaqueFilter
	preScore  []fwk.PreScorePlugin
	scores    []OpaqueScore
	names     sets.Set[string]
	// nonOpaqueFilters is the Filter chain without them.
	nonOpaqueFilters []CountedFilter
}

// OpaqueFilter is an opaque Filter plugin.
type OpaqueFilter struct {
	fwk.FilterPlugin
	// Index is the plugin's index in the Filter chain.
	Index int
	chain []CountedFilter // only this plugin
}

// OpaqueScore is an opaque Score plugin.
type OpaqueScore struct {
	WeightedScore
	// Index is the plugin's index in the Score chain.
	Index int
}

// isOpaque reports whether a plugin influences the choice of node and does not
// declare what it reads.
func isOpaque(plugin fwk.Plugin) bool {
	_, reads := plugin.(ReadsDeclarer)
	return AffectsPlacement(plugin) && !reads
}

// findOpaquePlugins returns the plugins of f for which opaque is true.
func (f *Framework) findOpaquePlugins(opaque func(fwk.Plugin) bool) *opaquePluginSet {
	o := &opaquePluginSet{names: sets.New[string]()}
	for _, plugin := range f.plugins {
		if opaque(plugin) {
			o.names.Insert(plugin.Name())
		}
	}
	for _, plugin := range f.preFilter {
		o.preFilter = o.preFilter || opaque(plugin)
	}
	for index, plugin := range f.filter {
		if opaque(plugin.FilterPlugin) {
			o.filters = append(o.filters, OpaqueFilter{plugin.FilterPlugin, index, f.filter[index : index+1]})
		} else {
			o.nonOpaqueFilters = append(o.nonOpaqueFilters, plugin)
		}
	}
	for _, plugin := range f.preScore {
		if opaque(plugin) {
			o.preScore = append(o.preScore, plugin)
		}
	}
	for index, plugin := range f.score {
		if opaque(plugin.ScorePlugin) {
			o.scores = append(o.scores, OpaqueScore{plugin, index})
		}
	}
	return o
}

// opaquePluginsFor returns the opaque plugins for a pod.
func (f *Framework) opaquePluginsFor(pod *v1.Pod) *opaquePluginSet {
	return f.opaquePlugins[PerAttemptFacets(pod)/PodVolumes]
}

// IsOpaque reports whether plugin is opaque for pod; with "", whether any
// plugin is.
func (f *Framework) IsOpaque(pod *v1.Pod, plugin string) bool {
	names := f.opaquePluginsFor(pod).names
	return names.Has(plugin) || plugin == "" && len(names) > 0
}

// HasOpaquePreFilters reports whether a PreFilter plugin is opaque for pod.
func (f *Framework) HasOpaquePreFilters(pod *v1.Pod) bool { return f.opaquePluginsFor(pod).preFilter }

// RunNonOpaquePreFilterPlugins is RunPreFilterPlugins without opaque plugins.
func (f *Framework) RunNonOpaquePreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	o := f.opaquePluginsFor(pod)
	if !o.preFilter {
		return f.runPreFilterChain(ctx, state, pod, f.preFilter)
	}
	open := slices.DeleteFunc(slices.Clone(f.preFilter), func(p fwk.PreFilterPlugin) bool { return o.names.Has(p.Name()) })
	return f.runPreFilterChain(ctx, state, pod, open)
}

// RerunPreFilterPlugins runs PreFilter of some plugins again, none of which is
// opaque for pod, on a state for which the plugins ran before. What the others
// did stays.
func (f *Framework) RerunPreFilterPlugins(ctx context.Context, state *CycleState, pod *v1.Pod, plugins []fwk.PreFilterPlugin) (*fwk.PreFilterResult, *fwk.Status) {
	before, leavesStateUnchanged := state.skipFilter, state.readOnly
	result, status, _ := f.runPreFilterChain(ctx, state, pod, plugins)
	isSkipped := func(p fwk.PreFilterPlugin) bool { return before.Has(p.Name()) }
	if len(state.skipFilter) == 0 && !slices.ContainsFunc(plugins, isSkipped) {
		state.skipFilter, state.readOnly = before, leavesStateUnchanged
		return result, status
	}
	skipped := before.Clone()
	for _, plugin := range plugins {
		skipped.Delete(plugin.Name())
	}
	state.skipFilter = skipped.Union(state.skipFilter)
	state.readOnly = f.filterLeavesStateUnchanged(state.skipFilter)
	return result, status
}

// RunNonOpaqueFilterPlugins is RunFilterPlugins without opaque plugins.
func (f *Framework) RunNonOpaqueFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return f.runFilterChain(ctx, state, pod, node, f.opaquePluginsFor(pod).nonOpaqueFilters)
}

// RunOpaqueFilter runs one opaque Filter plugin for a node.
func (f *Framework) RunOpaqueFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, filter *OpaqueFilter) *fwk.Status {
	return f.runFilterChain(ctx, state, pod, node, filter.chain)
}

// OpaqueFilters appends to list the opaque Filter plugins for pod that state
// does not skip.
func (f *Framework) OpaqueFilters(list []OpaqueFilter, state fwk.CycleState, pod *v1.Pod) []OpaqueFilter {
	for _, filter := range f.opaquePluginsFor(pod).filters {
		if !state.GetSkipFilterPlugins().Has(filter.Name()) {
			list = append(list, filter)
		}
	}
	return list
}

// RunOpaqueScorePlugins returns the normalized, unweighted scores of the opaque
// Score plugins. If status is not a success, the attempt ends with it.
func (f *Framework) RunOpaqueScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (of []OpaqueScore, scores []fwk.NodeScoreList, status *fwk.Status) {
	o := f.opaquePluginsFor(pod)
	skipped, status := f.runPreScoreChain(ctx, state, pod, nodes, o.preScore)
	if !status.IsSuccess() {
		return nil, nil, status
	}
	for _, plugin := range o.scores {
		if skipped.Has(plugin.Plugin) {
			continue
		}
		list, status := f.scoreWithPlugin(ctx, plugin.WeightedScore, state, pod, nodes)
		if status.IsSuccess() {
			status = f.normalizeScores(ctx, plugin.WeightedScore, state, pod, list)
		}
		if !status.IsSuccess() {
			return nil, nil, status
		}
		of, scores = append(of, plugin), append(scores, list)
	}
	return of, scores, nil
}

// HasVolumes reports whether the pod has a volume that influences scheduling,
// so that PodVolumes matter.
func HasVolumes(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if hasDiskOrClaim(&pod.Spec.Volumes[i].VolumeSource) {
			return true
		}
	}
	return false
}

// hasDiskOrClaim reports whether a volume has a claim, can conflict with
// volumes of other pods on a node, or is an in-tree cloud disk that a CSI
// driver has taken over.
func hasDiskOrClaim(v *v1.VolumeSource) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil ||
		v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil ||
		v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// lacksPreFilter reports whether a plugin implements PreFilter and is enabled
// at Filter, PreScore or Score, but not at PreFilter. Its results are then not
// cached even for pods without volumes and claims, since it misses what its PreFilter
// would store.
func (f *Framework) lacksPreFilter(plugin fwk.Plugin) bool {
	name := plugin.Name()
	_, prepares := plugin.(fwk.PreFilterPlugin)
	enabled := slices.ContainsFunc(f.filter, func(p CountedFilter) bool { return p.Name() == name }) ||
		slices.ContainsFunc(f.preScore, func(p fwk.PreScorePlugin) bool { return p.Name() == name }) ||
		slices.ContainsFunc(f.score, func(s WeightedScore) bool { return s.Plugin == name })
	return prepares && enabled && !slices.ContainsFunc(f.preFilter, func(p fwk.PreFilterPlugin) bool { return p.Name() == name })
}
