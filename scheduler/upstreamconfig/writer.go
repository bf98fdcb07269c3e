package upstreamconfig

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// profileWriter converts one profile of kube-scheduler to a SchedulingProfile.
type profileWriter struct {
	registry framework.Registry
	result   *Result
	errors   *Errors
	from     *configv1.KubeSchedulerProfile
	path     *field.Path
	// fields map fields of the profile to fields of the file. Of several that contain
	// a path the first applies.
	fields []fieldMapping
}

type fieldMapping struct{ berth, upstream string }

func (w *profileWriter) mapField(berth, upstream *field.Path) {
	w.fields = append(w.fields, fieldMapping{berth.String(), upstream.String()})
}

// profile returns the SchedulingProfile, and adds what is invalid to the errors.
func (w *profileWriter) profile(name string, shared settings) *v1alpha1.SchedulingProfile {
	p := newProfile(name)
	spec, at := &p.Spec, field.NewPath("spec")
	shared.applyTo(spec)
	w.fields = append(w.fields, shared.fields...)
	if own := w.from.PercentageOfNodesToScore; own != nil {
		spec.PercentageOfNodesToScore = *own
		w.fields = slices.Insert(w.fields, 0, fieldMapping{at.Child("percentageOfNodesToScore").String(), w.path.Child("percentageOfNodesToScore").String()})
	}
	if w.from.Plugins != nil {
		spec.Plugins = w.plugins(w.from.Plugins, at.Child("plugins"))
	}
	spec.PluginConfig = w.arguments(at.Child("pluginConfig"))
	w.mapField(at.Child("plugins"), w.path.Child("plugins"))
	w.mapField(at.Child("pluginConfig"), w.path.Child("pluginConfig"))
	w.noteMissingPlugins()
	return p
}

// pluginSetPair is one extension point in both formats: its name and its two sets.
type pluginSetPair struct {
	point    framework.Point // empty: multiPoint
	name     string
	upstream *configv1.PluginSet
	berth    *v1alpha1.PluginSet
}

func pluginSetPairs(upstream *configv1.Plugins, berth *v1alpha1.Plugins) []pluginSetPair {
	return []pluginSetPair{
		{"", "multiPoint", &upstream.MultiPoint, &berth.MultiPoint},
		{framework.PreEnqueue, "preEnqueue", &upstream.PreEnqueue, &berth.PreEnqueue},
		{framework.QueueSort, "queueSort", &upstream.QueueSort, &berth.QueueSort},
		{framework.PreFilter, "preFilter", &upstream.PreFilter, &berth.PreFilter},
		{framework.Filter, "filter", &upstream.Filter, &berth.Filter},
		{framework.PostFilter, "postFilter", &upstream.PostFilter, &berth.PostFilter},
		{framework.PreScore, "preScore", &upstream.PreScore, &berth.PreScore},
		{framework.Score, "score", &upstream.Score, &berth.Score},
		{framework.Reserve, "reserve", &upstream.Reserve, &berth.Reserve},
		{framework.Permit, "permit", &upstream.Permit, &berth.Permit},
		{framework.PreBind, "preBind", &upstream.PreBind, &berth.PreBind},
		{framework.Bind, "bind", &upstream.Bind, &berth.Bind},
		{framework.PostBind, "postBind", &upstream.PostBind, &berth.PostBind},
	}
}

func (w *profileWriter) plugins(upstream *configv1.Plugins, at *field.Path) *v1alpha1.Plugins {
	berth := &v1alpha1.Plugins{}
	for _, p := range pluginSetPairs(upstream, berth) {
		w.convertSet(p, at.Child(p.name))
	}
	for _, group := range []struct {
		name string
		set  configv1.PluginSet
		why  string
	}{
		{"placementGenerate", upstream.PlacementGenerate, "Berth decides about a group on all nodes"},
		{"placementScore", upstream.PlacementScore, "Berth decides about a group on all nodes"},
		{"podGroupPostFilter", upstream.PodGroupPostFilter, "in Berth the plugins of multiPoint preempt for a group"},
	} {
		if len(group.set.Enabled)+len(group.set.Disabled) > 0 {
			w.result.lost(w.path.Child("plugins", group.name), "Berth has no such field: %s", group.why)
		}
	}
	return berth
}

// convertSet converts the entries of one set that have a meaning in Berth.
func (w *profileWriter) convertSet(p pluginSetPair, at *field.Path) {
	path := w.path.Child("plugins", p.name)
	for i, e := range p.upstream.Enabled {
		from := path.Child("enabled").Index(i)
		if e.Name != v1alpha1.AllPlugins && !w.hasPlugin(e.Name, from.Child("name")) {
			continue
		}
		w.mapField(at.Child("enabled").Index(len(p.berth.Enabled)), from)
		p.berth.Enabled = append(p.berth.Enabled, v1alpha1.EnabledPlugin{Name: e.Name, Weight: w.weight(p.point, e, from.Child("weight"))})
	}
	for i, e := range p.upstream.Disabled {
		from := path.Child("disabled").Index(i)
		if _, known := w.registry[e.Name]; !known && e.Name != v1alpha1.AllPlugins && !compile.IsDefault(e.Name) {
			w.result.note(from.Child("name"), "Berth has no plugin %q, so there is nothing to disable", e.Name)
			continue
		}
		if slices.ContainsFunc(p.berth.Disabled, func(d v1alpha1.DisabledPlugin) bool { return d.Name == e.Name }) {
			w.result.note(from.Child("name"), "%q is listed twice; the second entry has no effect", e.Name)
			continue
		}
		p.berth.Disabled = append(p.berth.Disabled, v1alpha1.DisabledPlugin{Name: e.Name})
	}
}

// hasPlugin reports whether Berth has an enabled plugin. Where it does not, hasPlugin
// adds a remark that says what is lost.
func (w *profileWriter) hasPlugin(name string, path *field.Path) bool {
	_, known := w.registry[name]
	if known {
		return true
	}
	text := fmt.Sprintf("Berth has no plugin %q: it is left out. ", name)
	instead, gone := removedPlugins[name]
	gate, behind := featureGates[name]
	switch {
	case gone:
		text += "kube-scheduler 1.37 has none either: " + instead
	case behind:
		text += fmt.Sprintf("kube-scheduler runs it behind the feature gate %s only", gate)
	case IsUpstreamPlugin(name):
		text += "Pods that need it are held, not bound wrongly"
	default:
		text += "kube-scheduler's own has none either; a Berth that is built with it runs it"
		if near := compile.Suggest(name, slices.Concat(upstreamPlugins, w.registry.Names())); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
	}
	w.result.lost(path, "%s", text)
	return false
}

// weight converts a weight of kube-scheduler. 0 means that it is not set. Where the
// plugin does not score, kube-scheduler ignores the weight.
func (w *profileWriter) weight(point framework.Point, e configv1.Plugin, path *field.Path) *int32 {
	switch {
	case e.Weight == nil || *e.Weight == 0:
		return nil
	case *e.Weight < 0:
		w.errors.add(path, "must be at least 1, is %d", *e.Weight)
		return nil
	case point != "" && point != framework.Score, !w.registry[e.Name].Implements(framework.Score) && e.Name != v1alpha1.AllPlugins:
		w.result.note(path, "left out: %q does not score here, and kube-scheduler ignores it too", e.Name)
		return nil
	}
	weight := *e.Weight
	return &weight
}

// noteMissingPlugins adds a remark with the plugins that kube-scheduler enables by
// default and Berth lacks.
func (w *profileWriter) noteMissingPlugins() {
	var names []string
	for _, e := range compile.DefaultPlugins() {
		if _, known := w.registry[e.Name]; !known && !w.isDisabled(e.Name) {
			names = append(names, e.Name)
		}
	}
	if len(names) > 0 {
		w.result.note(w.path.Child("plugins"), "kube-scheduler enables %s by default, which this Berth lacks: it holds the pods that need one of them", joinNames(names))
	}
}

// isDisabled reports whether the file disables a plugin at multiPoint.
func (w *profileWriter) isDisabled(name string) bool {
	return w.from.Plugins != nil && slices.ContainsFunc(w.from.Plugins.MultiPoint.Disabled, func(d configv1.Plugin) bool {
		return d.Name == name || d.Name == v1alpha1.AllPlugins
	})
}
