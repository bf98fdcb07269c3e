package upstreamconfig

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// FromPolicy converts a Policy in JSON: predicates and priorities become plugins, in
// the order in which kube-scheduler evaluated them. The error is of type Errors.
func FromPolicy(text []byte, o Options) (*Result, error) {
	file := &policy{}
	if err := decode(text, file); err != nil {
		return nil, err
	}
	if file.APIVersion != "v1" || file.Kind != PolicyKind {
		return nil, Errors{"apiVersion: must be v1 and kind " + PolicyKind + ", is " + file.APIVersion + " and " + file.Kind}
	}
	t := &policyTranslator{registry: o.Registry, result: &Result{}, weights: map[string]int64{}, args: map[string]any{}, sourcePaths: map[string]*field.Path{}}
	t.predicates(file.Predicates)
	t.priorities(file.Priorities)
	t.settings(file)
	if err := t.errors.err(); err != nil {
		return nil, err
	}
	name := cmp.Or(o.Name, corev1.DefaultSchedulerName)
	config := &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{SchedulerName: &name, Plugins: t.plugins()}}}
	for _, plugin := range t.pluginsWithArguments() {
		raw, err := json.Marshal(t.args[plugin])
		if err != nil {
			return nil, err
		}
		config.Profiles[0].PluginConfig = append(config.Profiles[0].PluginConfig, configv1.PluginConfig{Name: plugin, Args: runtime.RawExtension{Raw: raw}})
	}
	for _, e := range file.Extenders {
		config.Extenders = append(config.Extenders, e.toV1())
	}
	read, err := fromConfiguration(config, o, &Result{}, t.origin(config))
	if err != nil {
		return nil, err
	}
	// The profile names each of its plugins, so it needs no disabled ones.
	for _, p := range read.Profiles {
		p.Spec.Base = v1alpha1.BaseNone
		p.Spec.Plugins.MultiPoint = v1alpha1.PluginSet{}
	}
	read.Remarks = append(t.result.Remarks, slices.DeleteFunc(read.Remarks, func(r Remark) bool { return r.Path == "profiles[0].plugins" })...)
	return read, nil
}

// policyTranslator translates predicates and priorities to plugins.
type policyTranslator struct {
	registry framework.Registry
	result   *Result
	errors   Errors
	// predicatePaths are the fields of the file that ask for a predicate, by its name.
	predicatePaths map[string]*field.Path
	// filters and scores are plugins, in the order in which they run.
	filters, scores []string
	weights         map[string]int64
	args            map[string]any
	// sourcePaths are the fields of the file that ask for a plugin, by its name.
	sourcePaths map[string]*field.Path
}

// hasPlugin reports whether Berth has a plugin. Where it does not, hasPlugin adds a
// remark.
func (t *policyTranslator) hasPlugin(plugin string, path *field.Path) bool {
	if _, known := t.registry[plugin]; known {
		if t.sourcePaths[plugin] == nil {
			t.sourcePaths[plugin] = path
		}
		return true
	}
	why := "this Berth has no plugin " + plugin
	if compile.IsDefault(plugin) {
		why += ", and holds the pods that need it"
	}
	t.result.lost(path, "left out: %s", why)
	return false
}

// addUnknownName adds an error for an unknown name, with a suggestion from names.
func (t *policyTranslator) addUnknownName(path *field.Path, what, name string, names []string) {
	text := "no " + what + " \"" + name + "\" was built in"
	if near := compile.Suggest(name, names); near != "" {
		text += ", did you mean \"" + near + "\"?"
	}
	t.errors.add(path, "%s", text)
}

// settings translates the fields of the Policy beside predicates, priorities and
// extenders.
func (t *policyTranslator) settings(file *policy) {
	if w := file.HardPodAffinitySymmetricWeight; w < 0 || w > 100 {
		t.errors.add(field.NewPath("hardPodAffinitySymmetricWeight"), "must be from 0 to 100, is %d", w)
	} else if w > 1 {
		if !slices.Contains(t.scores, interPodAffinity) && !slices.Contains(t.filters, interPodAffinity) {
			t.result.note(field.NewPath("hardPodAffinitySymmetricWeight"), "left out: nothing in the file asks for pod affinity")
		} else {
			t.args[interPodAffinity] = &configv1.InterPodAffinityArgs{HardPodAffinityWeight: &w}
			t.sourcePaths[interPodAffinity] = field.NewPath("hardPodAffinitySymmetricWeight")
		}
	}
	if file.AlwaysCheckAllPredicates {
		t.result.note(field.NewPath("alwaysCheckAllPredicates"), "left out: it changed the reported reasons, not where pods go; `kubectl get why` shows what is missing on the closest nodes")
	}
}

// pluginsWithArguments are the plugins that have arguments, in the order in which they
// run.
func (t *policyTranslator) pluginsWithArguments() []string {
	var names []string
	for _, name := range slices.Concat(t.filters, t.scores) {
		if t.args[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// plugins returns the plugins of each extension point: those of the predicates and
// priorities at the points that they implement, and those that every profile needs.
func (t *policyTranslator) plugins() *configv1.Plugins {
	stanza := &configv1.Plugins{}
	stanza.MultiPoint.Disabled = []configv1.Plugin{{Name: v1alpha1.AllPlugins}}
	at := func(set *configv1.PluginSet, point framework.Point, names []string) {
		for _, name := range names {
			if t.registry[name].Implements(point) && !slices.ContainsFunc(set.Enabled, func(p configv1.Plugin) bool { return p.Name == name }) {
				set.Enabled = append(set.Enabled, configv1.Plugin{Name: name})
			}
		}
	}
	at(&stanza.PreEnqueue, framework.PreEnqueue, append([]string{"SchedulingGates", "DefaultPreemption"}, t.filters...))
	at(&stanza.QueueSort, framework.QueueSort, []string{"PrioritySort"})
	at(&stanza.PreFilter, framework.PreFilter, t.filters)
	at(&stanza.Filter, framework.Filter, t.filters)
	at(&stanza.PostFilter, framework.PostFilter, []string{"DefaultPreemption"})
	at(&stanza.PreScore, framework.PreScore, t.scores)
	at(&stanza.Score, framework.Score, t.scores)
	at(&stanza.Reserve, framework.Reserve, t.filters)
	at(&stanza.PreBind, framework.PreBind, t.filters)
	at(&stanza.Bind, framework.Bind, []string{"DefaultBinder"})
	for i := range stanza.Score.Enabled {
		weight := int32(t.weights[stanza.Score.Enabled[i].Name])
		stanza.Score.Enabled[i].Weight = &weight
	}
	return stanza
}

// origin returns a function that maps a path of the configuration made from the Policy
// to the field of the Policy.
func (t *policyTranslator) origin(config *configv1.KubeSchedulerConfiguration) func(string) string {
	places := map[string]string{}
	for i, c := range config.Profiles[0].PluginConfig {
		if from := t.sourcePaths[c.Name]; from != nil {
			places[field.NewPath("profiles").Index(0).Child("pluginConfig").Index(i).String()] = from.String()
		}
	}
	return func(path string) string {
		for prefix, from := range places {
			if len(path) >= len(prefix) && path[:len(prefix)] == prefix {
				return from
			}
		}
		return path
	}
}
