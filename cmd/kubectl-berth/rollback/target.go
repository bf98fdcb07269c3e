package rollback

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// target is the object that a rollback writes.
type target struct {
	choice
	object *unstructured.Unstructured
	// notes say what the rollback changes besides the spec, and what it does not change.
	notes []note
}

// note is a sentence, and the lines of a diff below it; nil for none.
type note struct {
	text string
	diff []string
}

// newTarget returns the object for a revision. before is the profile as it is, empty for a
// deleted one. The object has kubectl's annotation of what was applied last.
func newTarget(ctx context.Context, c *cluster.Cluster, to choice, before *unstructured.Unstructured) (target, error) {
	t := target{choice: to, object: &unstructured.Unstructured{}}
	if err := t.object.UnmarshalJSON(to.Data); err != nil {
		return t, fmt.Errorf("revision %s does not contain a profile: %w", to.Name, err)
	}
	t.object.SetAPIVersion(v1alpha1.GroupVersion.String()) // it may be stored with another version
	t.noteUndone()
	if err := t.keepState(before); err != nil {
		return t, err
	}
	if err := t.restoreReferences(ctx, c, before); err != nil {
		return t, err
	}
	return t, t.annotate(before)
}

// annotate notes the object for the next kubectl apply, with the labels and annotations that an
// earlier one wrote: the profile keeps these.
func (t *target) annotate(before *unstructured.Unstructured) error {
	applied, last := t.object.DeepCopy(), &unstructured.Unstructured{}
	err := last.UnmarshalJSON([]byte(before.GetAnnotations()[corev1.LastAppliedConfigAnnotation]))
	if err == nil && last.GetName() == applied.GetName() {
		applied.Object["metadata"] = last.Object["metadata"]
	}
	text, err := applied.MarshalJSON()
	if err != nil {
		return err
	}
	note := strings.TrimSpace(string(text)) + "\n"
	if len(note) < validation.TotalAnnotationSizeLimitB { // otherwise kubectl apply would not have written it
		t.object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: note})
	}
	return nil
}

// noteUndone adds a note about the revisions after the chosen one.
func (t *target) noteUndone() {
	var names []string
	for _, r := range t.undone {
		if r.OnTrial {
			continue // it never ran
		}
		names = append(names, describeRevision(r))
	}
	if len(names) > 0 {
		t.notes = append(t.notes, note{text: "This undoes " + show.Count(len(names), "revision") + ": " + strings.Join(names, ", ") + "."})
	}
}

// keepState leaves state and activation as they are: they say whether and when a profile
// runs. Users would not expect a rollback to end a pause.
func (t *target) keepState(before *unstructured.Unstructured) error {
	for _, field := range []string{"state", "activation"} {
		is, there, err := unstructured.NestedString(before.Object, "spec", field)
		if err != nil {
			return err
		}
		was, _, err := unstructured.NestedString(t.object.Object, "spec", field)
		if err != nil {
			return err
		}
		if !there || is == was {
			continue
		}
		if err := unstructured.SetNestedField(t.object.Object, is, "spec", field); err != nil {
			return err
		}
		t.notes = append(t.notes, note{text: fmt.Sprintf("spec.%s stays %s; it was %s in the revision.", field, is, was)})
	}
	return nil
}

// restoreReferences replaces inline arguments by references to the PluginConfigs that they
// came from, if these still have the same arguments; otherwise it adds a note.
func (t *target) restoreReferences(ctx context.Context, c *cluster.Cluster, before *unstructured.Unstructured) error {
	entries, _, err := unstructured.NestedSlice(t.object.Object, "spec", "pluginConfig")
	if err != nil || len(entries) == 0 {
		return err
	}
	named := configReferences(before)
	for i := range entries {
		entry, ok := entries[i].(map[string]any)
		if !ok {
			return fmt.Errorf("revision %s: spec.pluginConfig[%d] must be an object", t.Name, i)
		}
		plugin, _, _ := unstructured.NestedString(entry, "name")
		config := t.PluginConfigs[plugin]
		if config == "" {
			config = named[plugin]
		}
		args, inline := entry["args"]
		if config == "" || !inline {
			continue
		}
		same, why := t.compareArguments(ctx, c, config, plugin, args)
		if same {
			delete(entry, "args")
			entry["configRef"] = map[string]any{"name": config}
			continue
		}
		t.notes = append(t.notes, why)
	}
	return unstructured.SetNestedSlice(t.object.Object, entries, "spec", "pluginConfig")
}

// configReferences returns the PluginConfigs that a profile references, by plugin.
func configReferences(profile *unstructured.Unstructured) map[string]string {
	entries, _, _ := unstructured.NestedSlice(profile.Object, "spec", "pluginConfig")
	by := map[string]string{}
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok {
			plugin, _, _ := unstructured.NestedString(entry, "name")
			by[plugin], _, _ = unstructured.NestedString(entry, "configRef", "name")
		}
	}
	return by
}

// compareArguments reports whether a PluginConfig has these arguments for a plugin; if not,
// why explains what it means that they are inline.
func (t *target) compareArguments(ctx context.Context, c *cluster.Cluster, name, plugin string, args any) (same bool, why note) {
	inline := fmt.Sprintf("The arguments of %s are inline, so edits of PluginConfig %s do not affect this profile: ", plugin, name)
	config, err := c.PluginConfig(ctx, name)
	switch {
	case err != nil:
		return false, note{text: inline + "cannot read it: " + err.Error()}
	case config == nil:
		return false, note{text: inline + "the PluginConfig was deleted."}
	case config.Spec.Plugin != plugin:
		return false, note{text: inline + "the PluginConfig is for plugin " + config.Spec.Plugin + " now."}
	}
	var now any
	if err := json.Unmarshal(config.Spec.Args.Raw, &now); err == nil && equalJSON(now, args) {
		return true, note{}
	}
	return false, note{text: inline + "the PluginConfig has other ones now, and does not change:", diff: argumentsDiff(config, t.choice, now, args)}
}

// equalJSON compares values as JSON: an int64 and a float64 with the same value are equal.
func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil {
		return false
	}
	var left, right any
	return json.Unmarshal(x, &left) == nil && json.Unmarshal(y, &right) == nil && apiequality.Semantic.DeepEqual(left, right)
}

// argumentsDiff returns the difference between the arguments in a PluginConfig and those in
// a revision.
func argumentsDiff(config *v1alpha1.PluginConfig, to choice, now, args any) []string {
	lines := func(value any) []string {
		text, err := yaml.Marshal(value)
		if err != nil {
			return []string{err.Error()}
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	head := []string{
		fmt.Sprintf("--- PluginConfig %s, generation %d", config.Name, config.Generation),
		"+++ " + to.Name,
	}
	return append(head, show.Diff(lines(now), lines(args))...)
}
