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
type opaquePluginSet struct {
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
	Index int
	chain []countedFilter // the plugin as a chain
}

// OpaqueScore is an opaque plugin in the Score chain.
type OpaqueScore struct {
	Plugin string
	// Place is the plugin's in its chain, from 0.
	Index  int
	Weight int64
	scorer weightedScore
}

// opaque reports whether a plugin that decides does not say what it reads.
func isOpaque(plugin fwk.Plugin) bool {
	_, reads := plugin.(ReadsDeclarer)
	return affectsPlacement(plugin) && !reads
}

// opaquesOf finds them in f's chains.
func (f *Framework) findOpaquePlugins(opaque func(fwk.Plugin) bool) (o opaquePluginSet) {
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
func (f *Framework) opaquePluginsFor(pod *v1.Pod) *opaquePluginSet {
	if len(pod.Spec.Volumes) > 0 && HasVolumes(pod) {
		return &f.opaqueWithVolumes
	}
	return &f.opaquePlugins
}

// Opaque reports whether a plugin is for pod; with "", whether any is.
func (f *Framework) IsOpaque(pod *v1.Pod, plugin string) bool {
	names := f.opaquePluginsFor(pod).names
	return names.Has(plugin) || plugin == "" && len(names) > 0
}

// HasOpaquePreFilters reports whether a plugin is in the PreFilter chain that is
// opaque for pod.
func (f *Framework) HasOpaquePreFilters(pod *v1.Pod) bool { return f.opaquePluginsFor(pod).preFilter }

// RunOpenPreFilterPlugins is RunPreFilterPlugins by those that are not opaque.
func (f *Framework) RunNonOpaquePreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	o := f.opaquePluginsFor(pod)
	if !o.preFilter {
		return f.runPreFilterChain(ctx, state, pod, f.preFilter)
	}
	open := slices.DeleteFunc(slices.Clone(f.preFilter), func(p fwk.PreFilterPlugin) bool { return o.names.Has(p.Name()) })
	return f.runPreFilterChain(ctx, state, pod, open)
}

// RunOpenFilterPlugins is RunFilterPlugins by those that are not opaque.
func (f *Framework) RunNonOpaqueFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	o := f.opaquePluginsFor(pod)
	if len(o.filters) == 0 {
		return f.RunFilterPlugins(ctx, state, pod, node)
	}
	open := slices.DeleteFunc(slices.Clone(f.filter), func(p countedFilter) bool { return o.names.Has(p.Name()) })
	return f.runFilterChain(ctx, state, pod, node, open)
}

// RunOpaqueFilter asks one opaque plugin about one node.
func (f *Framework) RunOpaqueFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, filter *OpaqueFilter) *fwk.Status {
	return f.runFilterChain(ctx, state, pod, node, filter.chain)
}

// OpaqueFilters appends those for pod that state does not skip to list.
func (f *Framework) OpaqueFilters(list []OpaqueFilter, state fwk.CycleState, pod *v1.Pod) []OpaqueFilter {
	for _, filter := range f.opaquePluginsFor(pod).filters {
		if !state.GetSkipFilterPlugins().Has(filter.Name()) {
			list = append(list, filter)
		}
	}
	return list
}

// ScoreOpaque has the opaque plugins in the Score chain score nodes: normalised,
// before weights. A status other than success is what the attempt ends with.
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
		f.trial.recordCall(plugin.Plugin, "Score")
		list, status := f.scoreWithPlugin(ctx, plugin.scorer, state, pod, nodes)
		if status.IsSuccess() {
			status = f.normalizeScores(ctx, plugin.scorer, state, pod, list)
		}
		if !status.IsSuccess() {
			return nil, nil, status
		}
		of, scores = append(of, plugin), append(scores, list)
	}
	return of, scores, nil
}

// HasVolumes says whether a disk or a claim stands behind any volume of a pod,
// so that PodVolumes of it are more than nothing.
func HasVolumes(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if hasDiskOrClaim(&pod.Spec.Volumes[i].VolumeSource) {
			return true
		}
	}
	return false
}

// attaches says whether a volume is claimed, is one of those that conflict on a
// node, or is a disk of a cloud that a CSI driver has taken over.
func hasDiskOrClaim(v *v1.VolumeSource) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil ||
		v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil ||
		v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// readsVolumes says whether a plugin reads the volumes of pods.
func readsVolumes(plugin fwk.Plugin) bool {
	return affectsPlacement(plugin) && readsOf(plugin).Pod&PodVolumes != 0
}

// torn says whether a plugin is asked about nodes, or before it is, though not at
// PreFilter, for which it is made: what it misses then, it misses of every pod,
// whatever the pod has.
func (f *Framework) lacksPreFilter(plugin fwk.Plugin) bool {
	name := plugin.Name()
	_, prepares := plugin.(fwk.PreFilterPlugin)
	asked := slices.ContainsFunc(f.filter, func(p countedFilter) bool { return p.Name() == name }) ||
		slices.ContainsFunc(f.preScore, func(p fwk.PreScorePlugin) bool { return p.Name() == name }) ||
		slices.ContainsFunc(f.score, func(s weightedScore) bool { return s.name == name })
	return prepares && asked && !slices.ContainsFunc(f.preFilter, func(p fwk.PreFilterPlugin) bool { return p.Name() == name })
}

// noVolumes is the ScoreForm of a plugin that reads volumes, for pods that have
// none.
type noVolumesScore struct{}

func (noVolumesScore) Score(_ []Slot, scores []int64) ScoreResult {
	clear(scores)
	return Scored
}
