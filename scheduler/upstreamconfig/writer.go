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

// writer makes one SchedulingProfile.
type profileWriter struct {
	registry framework.Registry
	result   *Result
	errors   *Errors
	from     *configv1.KubeSchedulerProfile
	path     *field.Path
	// fields say what in the file became what in the profile; the first that
	// fits a path counts.
	fields []fieldMapping
}

type fieldMapping struct{ berth, upstream string }

func (w *profileWriter) mapField(ours, theirs *field.Path) {
	w.fields = append(w.fields, fieldMapping{ours.String(), theirs.String()})
}

// profile makes it. What is wrong is among the faults.
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

// pair is one extension point of both: its name, and its two sets.
type pluginSetPair struct {
	point    framework.Point // empty: multiPoint
	name     string
	upstream *configv1.PluginSet
	berth    *v1alpha1.PluginSet
}

func pluginSetPairs(theirs *configv1.Plugins, ours *v1alpha1.Plugins) []pluginSetPair {
	return []pluginSetPair{
		{"", "multiPoint", &theirs.MultiPoint, &ours.MultiPoint},
		{framework.PreEnqueue, "preEnqueue", &theirs.PreEnqueue, &ours.PreEnqueue},
		{framework.QueueSort, "queueSort", &theirs.QueueSort, &ours.QueueSort},
		{framework.PreFilter, "preFilter", &theirs.PreFilter, &ours.PreFilter},
		{framework.Filter, "filter", &theirs.Filter, &ours.Filter},
		{framework.PostFilter, "postFilter", &theirs.PostFilter, &ours.PostFilter},
		{framework.PreScore, "preScore", &theirs.PreScore, &ours.PreScore},
		{framework.Score, "score", &theirs.Score, &ours.Score},
		{framework.Reserve, "reserve", &theirs.Reserve, &ours.Reserve},
		{framework.Permit, "permit", &theirs.Permit, &ours.Permit},
		{framework.PreBind, "preBind", &theirs.PreBind, &ours.PreBind},
		{framework.Bind, "bind", &theirs.Bind, &ours.Bind},
		{framework.PostBind, "postBind", &theirs.PostBind, &ours.PostBind},
	}
}

func (w *profileWriter) plugins(theirs *configv1.Plugins, at *field.Path) *v1alpha1.Plugins {
	ours := &v1alpha1.Plugins{}
	for _, p := range pluginSetPairs(theirs, ours) {
		w.convertSet(p, at.Child(p.name))
	}
	for _, group := range []struct {
		name string
		set  configv1.PluginSet
	}{
		{"placementGenerate", theirs.PlacementGenerate}, {"placementScore", theirs.PlacementScore}, {"podGroupPostFilter", theirs.PodGroupPostFilter},
	} {
		if len(group.set.Enabled)+len(group.set.Disabled) > 0 {
			w.result.lost(w.path.Child("plugins", group.name), "Berth does not schedule pod groups as a whole yet: it holds their pods")
		}
	}
	return ours
}

// set takes over the entries of one set that mean something in Berth.
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
			w.result.note(from.Child("name"), "%q is there twice; once will do", e.Name)
			continue
		}
		p.berth.Disabled = append(p.berth.Disabled, v1alpha1.DisabledPlugin{Name: e.Name})
	}
}

// there says whether Berth has an enabled plugin, and what is lost where not.
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
			text += fmt.Sprintf("; or was %q meant?", near)
		}
	}
	w.result.lost(path, "%s", text)
	return false
}

// weight is what a weight of theirs means: 0 is none, and where nothing scores
// kube-scheduler takes no notice of it.
func (w *profileWriter) weight(point framework.Point, e configv1.Plugin, path *field.Path) *int32 {
	switch {
	case e.Weight == nil || *e.Weight == 0:
		return nil
	case *e.Weight < 0:
		w.errors.add(path, "must be at least 1, is %d", *e.Weight)
		return nil
	case point != "" && point != framework.Score, !w.registry[e.Name].Implements(framework.Score) && e.Name != v1alpha1.AllPlugins:
		w.result.note(path, "left out: %q does not score here, and kube-scheduler takes no notice of it either", e.Name)
		return nil
	}
	weight := *e.Weight
	return &weight
}

// absent names the plugins that kube-scheduler enables by itself and Berth lacks.
func (w *profileWriter) noteMissingPlugins() {
	var names []string
	for _, e := range compile.DefaultPlugins() {
		if _, known := w.registry[e.Name]; !known && !w.isDisabled(e.Name) {
			names = append(names, e.Name)
		}
	}
	if len(names) > 0 {
		w.result.note(w.path.Child("plugins"), "kube-scheduler enables %s by itself, which this Berth does not have: it holds the pods that need one of them", joinNames(names))
	}
}

// off says whether the file disables a default plugin everywhere.
func (w *profileWriter) isDisabled(name string) bool {
	return w.from.Plugins != nil && slices.ContainsFunc(w.from.Plugins.MultiPoint.Disabled, func(d configv1.Plugin) bool {
		return d.Name == name || d.Name == v1alpha1.AllPlugins
	})
}
