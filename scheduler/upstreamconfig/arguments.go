package upstreamconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

// arguments converts the arguments of the plugins that Berth has.
func (w *profileWriter) arguments(at *field.Path) []v1alpha1.PluginArguments {
	var given []v1alpha1.PluginArguments
	for i, entry := range w.from.PluginConfig {
		path := w.path.Child("pluginConfig").Index(i)
		if !w.hasPlugin(entry.Name, path.Child("name")) {
			continue
		}
		raw := bytes.TrimSpace(entry.Args.Raw)
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			w.result.note(path, "left out: no arguments are the plugin's own defaults")
			continue
		}
		if w.registry[entry.Name].NewArgs == nil {
			w.result.note(path, "left out: plugin %q takes no arguments, and kube-scheduler ignores them too", entry.Name)
			continue
		}
		text, err := withoutTypeMeta(entry.Name, raw)
		if err != nil {
			w.errors.add(path.Child("args"), "%v", err)
			continue
		}
		w.mapField(at.Index(len(given)), path)
		given = append(given, v1alpha1.PluginArguments{Name: entry.Name, Args: &runtime.RawExtension{Raw: text}})
	}
	return given
}

// withoutTypeMeta returns a plugin's arguments without apiVersion and kind where they
// are the ones that kube-scheduler writes. It keeps others, which the compiler reports.
func withoutTypeMeta(plugin string, raw []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("must be an object: %w", err)
	}
	is := func(name, want string) bool {
		var value string
		return json.Unmarshal(fields[name], &value) == nil && value == want
	}
	if is("apiVersion", configv1.SchemeGroupVersion.String()) && is("kind", plugin+"Args") {
		delete(fields, "apiVersion")
		delete(fields, "kind")
	}
	return json.Marshal(fields)
}

// leaveOutIgnoredResources removes ignoredResources from the arguments of NodeResourcesFit
// where extenders ignore resources. kube-scheduler replaces the list by these; Berth would
// add them to it, and so ignore resources that kube-scheduler checks.
func (w *profileWriter) leaveOutIgnoredResources(p *v1alpha1.SchedulingProfile, byExtenders []string) {
	if len(byExtenders) == 0 {
		return
	}
	for i := range p.Spec.PluginConfig {
		entry := &p.Spec.PluginConfig[i]
		if entry.Name != nodeResourcesFit {
			continue
		}
		var args map[string]json.RawMessage
		var list []string
		if json.Unmarshal(entry.Args.Raw, &args) != nil || json.Unmarshal(args[ignoredResourcesField], &list) != nil || len(list) == 0 {
			continue // the compiler reported what is invalid
		}
		delete(args, ignoredResourcesField)
		text, err := json.Marshal(args)
		if err != nil {
			continue
		}
		entry.Args.Raw = text
		path := field.NewPath(w.sourceField(field.NewPath("spec", "pluginConfig").Index(i).String()))
		w.result.note(path.Child("args", ignoredResourcesField), "left out: kube-scheduler does not read it where extenders have resources with ignoredByScheduler, here %s", joinNames(byExtenders))
	}
}

// ignoredResourcesField is the field of the arguments of NodeResourcesFit with the extended
// resources that it does not check.
const ignoredResourcesField = "ignoredResources"

// extractSharedArguments moves arguments that several profiles share into
// PluginConfigs.
func (r *Result) extractSharedArguments() {
	type use struct {
		plugin string
		args   string
		where  []*v1alpha1.PluginArguments
		first  string
	}
	var uses []*use
	for _, p := range r.Profiles {
		for i := range p.Spec.PluginConfig {
			entry := &p.Spec.PluginConfig[i]
			key := string(entry.Args.Raw)
			at := slices.IndexFunc(uses, func(u *use) bool { return u.plugin == entry.Name && u.args == key })
			if at < 0 {
				at = len(uses)
				uses = append(uses, &use{plugin: entry.Name, args: key, first: p.Name})
			}
			uses[at].where = append(uses[at].where, entry)
		}
	}
	taken := map[string]bool{}
	for _, u := range uses {
		if len(u.where) < 2 {
			continue
		}
		name := kebabCase(u.plugin)
		if taken[name] {
			name += "-" + u.first
		}
		taken[name] = true
		r.Configs = append(r.Configs, &v1alpha1.PluginConfig{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PluginConfig"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.PluginConfigSpec{Plugin: u.plugin, Args: runtime.RawExtension{Raw: []byte(u.args)}},
		})
		for _, entry := range u.where {
			entry.Args, entry.ConfigRef = nil, &v1alpha1.PluginConfigReference{Name: name}
		}
	}
	slices.SortFunc(r.Configs, func(a, b *v1alpha1.PluginConfig) int { return cmp.Compare(a.Name, b.Name) })
}

// kebabCase turns the name of a plugin into the name of an object: NodeResourcesFit
// becomes node-resources-fit.
func kebabCase(plugin string) string {
	var b strings.Builder
	for i, c := range plugin {
		switch {
		case unicode.IsUpper(c):
			if i > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(unicode.ToLower(c))
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		default:
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}
