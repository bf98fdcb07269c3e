// Package lint is `kubectl berth lint`: what would be said of these files, were
// they applied? The cluster is asked for nothing but who serves the profiles' names.
package lint

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// Verb describes it.
var Verb = verb.Verb{
	Name: "lint", Arguments: "-f FILE... [--offline] [--other-schedulers NAMES] [--other-scheduler-lease LEASE] [--warnings-as-errors]",
	Short: "Say what is wrong with profiles and PluginConfigs, before they are applied",
	Long: `What the API server would refuse is told by its own validation of Berth's CRDs;
the rest is what the operator's conditions would say, fault by fault: the same
compiler judges. PluginConfigs that a profile names are looked for among the files.

A name that another scheduler serves is a warning on standard error. Without a cluster
that is default-scheduler, the names of --other-schedulers, and those of a
KubeSchedulerConfiguration among the files, also in a ConfigMap. Where the cluster
answers, it is also asked what Berth's own flags there say, whether kube-scheduler
holds its Lease, and who bound pods of the name. --offline asks no cluster.

How the trial on live pods ends is known to the cluster alone. A Berth that was built
with plugins of its own knows names that this plugin does not.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for who serves the names"},
		{Verbs: []string{"list"}, Resource: "pods", Purpose: "for who bound pods"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", Scope: verb.InBerthNamespace, Purpose: "for Berth's flags"},
		{Verbs: []string{"get"}, Group: "coordination.k8s.io", Resource: "leases", Purpose: "for kube-scheduler's Lease"},
	},
	Examples: []verb.Example{
		{Description: "A folder, as CI would", Command: "kubectl berth lint --offline -f config/samples/"},
		{Description: "What kustomize makes", Command: "kubectl kustomize . | kubectl berth lint -f -"},
		{Description: "With the schedulers that the cluster has beside Berth", Command: "kubectl berth lint -f batch.yaml --other-schedulers=volcano,kai-scheduler"},
	},
	OnSuccess: "nothing is refused", OnFindings: "something is refused; with --warnings-as-errors: or warned about",
}

type options struct {
	verb.Env
	// others and lease are as the flags of the manager.
	others []string
	lease  string
	// offline says that no cluster is asked.
	offline          bool
	warningsAsErrors bool
	// othersGiven says that others is not the flag's default.
	othersGiven bool
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	var cmd *cobra.Command
	cmd = Verb.FilesCommand(func(ctx context.Context, names []string) error {
		o.othersGiven = cmd.Flags().Changed("other-schedulers")
		return o.run(ctx, names)
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&o.others, "other-schedulers", nil, "names that other schedulers serve, as the manager's flag; those of Berth's Deployment if not given")
	flags.StringVar(&o.lease, "other-scheduler-lease", "", "the Lease of the scheduler that serves default-scheduler, or none, as the manager's flag; that of Berth's Deployment if not given")
	flags.BoolVar(&o.offline, "offline", false, "ask no cluster who serves the names")
	flags.BoolVar(&o.warningsAsErrors, "warnings-as-errors", false, "end with exit code 1 upon a warning")
	complete.RegisterFlag(cmd, "other-scheduler-lease", complete.Values(leaseNone, defaultLease))
	return cmd
}

func (o *options) run(ctx context.Context, names []string) error {
	if err := o.checkLease(); err != nil {
		return err
	}
	files, err := manifest.Read(ctx, names, o.In)
	if err != nil {
		return err
	}
	refused, unresolved := 0, false
	for _, object := range files.Objects {
		verdict := Validate(object, files.Configs())
		if !verdict.Valid() {
			refused++
		}
		unresolved = unresolved || verdict.rejection.For(v1alpha1.ConditionResolvedRefs) != nil
		fmt.Fprint(o.Out, verdict)
	}
	warned, err := o.printWarnings(ctx, files)
	if err != nil {
		return err
	}
	err = o.summarize(files, refused, unresolved)
	if err == nil && warned > 0 && o.warningsAsErrors {
		fmt.Fprintf(o.ErrOut, "%s, which --warnings-as-errors forbids.\n", show.Count(warned, "warning"))
		return verb.ErrFindings
	}
	return err
}

// sum says how it went with all of them.
func (o *options) summarize(files *manifest.Files, refused int, unresolved bool) error {
	if len(files.Objects) == 0 {
		return fmt.Errorf("-f: nothing to look at: no document is of %s, %d are of other kinds", v1alpha1.GroupVersion, len(files.Others))
	}
	if unresolved {
		fmt.Fprintln(o.ErrOut, "PluginConfigs are looked for among the files only: give theirs, too, with another -f.")
	}
	if others := len(files.Others) - len(configurationsOf(files)); others > 0 {
		fmt.Fprintf(o.ErrOut, "%s of other kinds not looked at.\n", show.Count(others, "document"))
	}
	if refused > 0 {
		fmt.Fprintf(o.ErrOut, "%d of %s refused.\n", refused, show.Count(len(files.Objects), "object"))
		return verb.ErrFindings
	}
	return nil
}

// Verdict is what would be said of one object.
type Result struct {
	object *manifest.Object
	// rejection is the compiler's; nil where it has none, or was not asked.
	rejection *compile.Rejection
}

// Judge compiles an object that the API server would store.
func Validate(object *manifest.Object, configs map[string]*v1alpha1.PluginConfig) Result {
	v := Result{object: object}
	switch {
	case object.Config != nil:
		_, v.rejection = compile.Config(object.Config, plugins.InTree())
	case object.Profile != nil:
		_, v.rejection = compile.Profile(compile.Input{Profile: object.Profile, Configs: configs, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	}
	return v
}

// Fine says that nothing is wrong.
func (v Result) Valid() bool { return v.object.Errors == nil && v.rejection == nil }

// String has a line for the object, or for each of its conditions that is False,
// and one for each fault.
func (v Result) String() string {
	title := v.object.Source + ": " + v.object.Title
	if v.Valid() {
		return show.Wrap(title+" is fine", "", "    ") + "\n"
	}
	if v.object.Errors != nil {
		text := show.Wrap(title+" would be refused by the API server:", "", "    ") + "\n"
		for _, fault := range v.object.Errors {
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
		for _, fault := range own.Errors {
			text += show.Wrap(fault.Path+": "+fault.Detail, "  ", "  ") + "\n"
		}
	}
	return text
}
