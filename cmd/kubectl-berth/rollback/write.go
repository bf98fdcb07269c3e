package rollback

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// fieldManager is that of kubectl apply, so that a later one takes over the fields.
const fieldManager = "kubectl-client-side-apply"

// write applies a revision and prints what changed.
func (o *options) write(ctx context.Context, c *cluster.Cluster, to choice) error {
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
	err := c.Client.Get(ctx, client.ObjectKey{Name: to.Profile.Name}, before)
	deleted := apierrors.IsNotFound(err)
	if err != nil && !deleted {
		return cluster.UserError(err)
	}
	t, err := newTarget(ctx, c, to, before)
	if err != nil {
		return err
	}
	after := before.DeepCopy()
	if deleted {
		after, err = t.object, c.Client.Create(ctx, t.object, o.createOptions()...)
	} else {
		err = o.patch(ctx, c, after, t)
	}
	if apierrors.IsConflict(err) || !deleted && apierrors.IsNotFound(err) || deleted && apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("SchedulingProfile %s was changed meanwhile, and nothing was written: run the command again", to.Profile.Name)
	}
	if err != nil {
		return fmt.Errorf("revision %s: %w", to.Name, cluster.UserError(err))
	}
	return o.printResult(t, before, after)
}

func (o *options) createOptions() []client.CreateOption {
	options := []client.CreateOption{client.FieldOwner(fieldManager)}
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

// patch replaces the spec, and what kubectl apply reads of its last call. A merge of what was
// applied, as kubectl apply does it, would keep what an edit or another client added. It is a
// conflict if the object was changed since it was read, or is another one of that name: the
// patch has only what differs from the spec that was read.
func (o *options) patch(ctx context.Context, c *cluster.Cluster, object *unstructured.Unstructured, t target) error {
	before := object.DeepCopy()
	object.Object["spec"] = t.object.Object["spec"]
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, t.object.GetAnnotations())
	object.SetAnnotations(annotations)
	options := []client.PatchOption{client.FieldOwner(fieldManager)}
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	return c.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
}

// printResult prints what changed.
func (o *options) printResult(t target, before, after *unstructured.Unstructured) error {
	dryRun := ""
	if o.dryRun {
		dryRun = " (server dry run)"
	}
	to := t.choice
	what := fmt.Sprintf("revision %d, %s (generation %d, %s)", to.Number, to.Name, to.Generation, to.Status())
	lines, err := specDiff(before, after)
	if err != nil {
		return err
	}
	if lines == nil {
		_, err := fmt.Fprintln(o.Out, show.Wrap(fmt.Sprintf("SchedulingProfile %s: nothing to change: its spec is that of %s", to.Profile.Name, what), "", "  "))
		return err
	}
	fmt.Fprintln(o.Out, show.Wrap(fmt.Sprintf("SchedulingProfile %s rolled back to %s%s", to.Profile.Name, what, dryRun), "", "  "))
	fmt.Fprintln(o.Out, strings.Join(lines, "\n"))
	for _, n := range append(t.notes, o.followUpNotes(to, after)...) {
		fmt.Fprintln(o.Out, show.Wrap(n.text, "", "  "))
		if n.diff != nil {
			fmt.Fprintln(o.Out, strings.Join(n.diff, "\n"))
		}
	}
	return nil
}

// followUpNotes returns what a user should know next.
func (o *options) followUpNotes(to choice, after *unstructured.Unstructured) []note {
	var notes []note
	if to.HasRun() && !to.HasServed() {
		notes = append(notes, note{text: "This revision ran for less than a minute."})
	}
	if to.BlamedFor != "" {
		notes = append(notes, note{text: "Berth may blame this revision for crashes and run another one: `kubectl berth retry " + to.Profile.Name + "` makes Berth build it again."})
	}
	activation, _, _ := unstructured.NestedString(after.Object, "spec", "activation")
	switch name := to.Profile.Name; {
	case o.dryRun:
	case activation == string(v1alpha1.ActivationManual):
		notes = append(notes, note{text: "spec.activation is Manual: after the trial, `kubectl berth profiles " + name + "` says how to approve it."})
	default:
		notes = append(notes, note{text: "Wait for it with: kubectl wait --for=condition=Ready sprof/" + name})
	}
	return notes
}

// specDiff returns the lines in which two specs differ; nil for none.
func specDiff(before, after *unstructured.Unstructured) ([]string, error) {
	was, err := specLines(before)
	if err != nil {
		return nil, err
	}
	is, err := specLines(after)
	if err != nil {
		return nil, err
	}
	return show.Diff(was, is), nil
}

// specLines returns the YAML of a spec without empty values, since a revision has every
// list.
func specLines(object *unstructured.Unstructured) ([]string, error) {
	spec, there := object.Object["spec"]
	if !there {
		return nil, nil
	}
	text, err := yaml.Marshal(map[string]any{"spec": withoutEmpty(spec)})
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// withoutEmpty returns a value without empty objects and lists.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, v := range value {
			if v = withoutEmpty(v); v != nil {
				kept[key] = v
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		if len(value) == 0 {
			return nil
		}
	}
	return value
}
