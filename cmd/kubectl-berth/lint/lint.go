// Package lint is `kubectl berth lint`: what would be said of these files, were
// they applied? It asks no cluster.
package lint

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// Verb describes it.
var Verb = verb.Verb{
	Name: "lint", Arguments: "-f FILE...",
	Short: "Say what is wrong with profiles and PluginConfigs, before they are applied",
	Long: `What the API server would refuse is told by its own validation of Berth's CRDs;
the rest is what the operator's conditions would say, fault by fault: the same
compiler judges. PluginConfigs that a profile names are looked for among the files.

Not to be known without the cluster: whether another scheduler serves the name,
and how the trial on live pods ends. A Berth that was built with plugins of its
own knows names that this plugin does not.`,
	Examples: []verb.Example{
		{Says: "A folder, as CI would", Command: "kubectl berth lint -f config/samples/"},
		{Says: "What kustomize makes", Command: "kubectl kustomize . | kubectl berth lint -f -"},
	},
	Fine: "nothing is refused", Found: "something is refused",
}

type options struct {
	verb.Env
}

// New returns the command.
func New(env verb.Env) *cobra.Command { return Verb.FilesCommand((&options{Env: env}).run) }

func (o *options) run(ctx context.Context, names []string) error {
	files, err := manifest.Read(ctx, names, o.In)
	if err != nil {
		return err
	}
	refused, unresolved := 0, false
	for _, object := range files.Objects {
		verdict := Judge(object, files.Configs())
		if !verdict.Fine() {
			refused++
		}
		unresolved = unresolved || verdict.rejection.For(v1alpha1.ConditionResolvedRefs) != nil
		fmt.Fprint(o.Out, verdict)
	}
	return o.sum(files, refused, unresolved)
}

// sum says how it went with all of them.
func (o *options) sum(files *manifest.Files, refused int, unresolved bool) error {
	if len(files.Objects) == 0 {
		return fmt.Errorf("-f: nothing to look at: no document is of %s, %d are of other kinds", v1alpha1.GroupVersion, files.Others)
	}
	if unresolved {
		fmt.Fprintln(o.ErrOut, "PluginConfigs are looked for among the files only: give theirs, too, with another -f.")
	}
	if files.Others > 0 {
		fmt.Fprintf(o.ErrOut, "%s of other kinds not looked at.\n", show.Count(files.Others, "document"))
	}
	if refused > 0 {
		fmt.Fprintf(o.ErrOut, "%d of %s refused.\n", refused, show.Count(len(files.Objects), "object"))
		return verb.ErrFound
	}
	return nil
}

// Verdict is what would be said of one object.
type Verdict struct {
	object *manifest.Object
	// rejection is the compiler's; nil where it has none, or was not asked.
	rejection *compile.Rejection
}

// Judge compiles an object that the API server would store.
func Judge(object *manifest.Object, configs map[string]*v1alpha1.PluginConfig) Verdict {
	v := Verdict{object: object}
	switch {
	case object.Config != nil:
		_, v.rejection = compile.Config(object.Config, plugins.InTree())
	case object.Profile != nil:
		_, v.rejection = compile.Profile(compile.Input{Profile: object.Profile, Configs: configs, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	}
	return v
}

// Fine says that nothing is wrong.
func (v Verdict) Fine() bool { return v.object.Refused == nil && v.rejection == nil }

// String has a line for the object, or for each of its conditions that is False,
// and one for each fault.
func (v Verdict) String() string {
	title := v.object.Source + ": " + v.object.Title
	if v.Fine() {
		return show.Wrap(title+" is fine", "", "    ") + "\n"
	}
	if v.object.Refused != nil {
		text := show.Wrap(title+" would be refused by the API server:", "", "    ") + "\n"
		for _, fault := range v.object.Refused {
			text += show.Wrap(fault, "  ", "  ") + "\n"
		}
		return text
	}
	text := ""
	for _, condition := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs} {
		own := v.rejection.For(condition)
		if own == nil {
			continue
		}
		_, reason := own.Condition()
		text += show.Wrap(fmt.Sprintf("%s would be %s=False, %s:", title, condition, reason), "", "    ") + "\n"
		for _, fault := range own.Faults {
			text += show.Wrap(fault.Path+": "+fault.Detail, "  ", "  ") + "\n"
		}
	}
	return text
}
