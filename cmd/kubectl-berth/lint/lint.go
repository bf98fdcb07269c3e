// Package lint is `kubectl berth lint`: it validates files as the API server and Berth
// would, before they are applied. It asks the cluster only which scheduler serves the names
// of the profiles.
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

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "lint", Arguments: "-f FILE... [--offline] [--other-schedulers NAMES] [--other-scheduler-lease LEASE] [--warnings-as-errors]",
	Short: "Validate profiles and PluginConfigs before they are applied",
	Long: `Validates the files as the API server does with the CRDs of Berth, and then as Berth
does: errors are those that the conditions of the object would have. PluginConfigs that a
profile references are looked up in the files.

A name that another scheduler serves is a warning on standard error. Without a cluster,
these names are default-scheduler, those of --other-schedulers, and those of a
KubeSchedulerConfiguration in the files, also in a ConfigMap. With a cluster, lint also
reads the flags of Berth's Deployment, kube-scheduler's Lease, and which scheduler bound
pods with the name. --offline does not contact a cluster.

The CEL expressions in ResourceClaims, ResourceClaimTemplates and DeviceClasses are compiled
as the API server does. Pods that name a group, also those of workloads, are compared with
their profile: a warning says that it schedules no groups.

lint does not run the trial that Berth runs on pods of the cluster, and knows only the
built-in plugins.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for which names are served"},
		{Verbs: []string{"list"}, Resource: "pods", Purpose: "for which scheduler bound pods"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "deployments", Scope: verb.InBerthNamespace, Purpose: "for the flags of Berth"},
		{Verbs: []string{"get"}, Group: "coordination.k8s.io", Resource: "leases", Purpose: "for kube-scheduler's Lease"},
	},
	Examples: []verb.Example{
		{Description: "Validate a directory in CI", Command: "kubectl berth lint --offline -f config/samples/"},
		{Description: "Validate the output of kustomize", Command: "kubectl kustomize . | kubectl berth lint -f -"},
		{Description: "Validate with the names of other schedulers in the cluster", Command: "kubectl berth lint -f batch.yaml --other-schedulers=volcano,kai-scheduler"},
	},
	OnSuccess: "all objects are valid", OnFindings: "an object is invalid; with --warnings-as-errors: or there is a warning",
}

type options struct {
	verb.Env
	// others and lease are the values of the flags --other-schedulers and
	// --other-scheduler-lease.
	others []string
	lease  string
	// offline: do not contact a cluster.
	offline          bool
	warningsAsErrors bool
	// othersGiven: --other-schedulers was given.
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
	flags.StringSliceVar(&o.others, "other-schedulers", nil, "names that other schedulers serve, as for the manager (default: the flag in Berth's Deployment)")
	flags.StringVar(&o.lease, "other-scheduler-lease", "", "the Lease of the scheduler that serves default-scheduler, or none, as for the manager (default: the flag in Berth's Deployment)")
	flags.BoolVar(&o.offline, "offline", false, "do not contact a cluster")
	flags.BoolVar(&o.warningsAsErrors, "warnings-as-errors", false, "exit with code 1 if there is a warning")
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
	invalid, unresolved := 0, false
	for _, object := range files.Objects {
		result := Validate(object, files.Configs())
		if !result.Valid() {
			invalid++
		}
		unresolved = unresolved || result.rejection.For(v1alpha1.ConditionResolvedRefs) != nil
		fmt.Fprint(o.Out, result)
	}
	devices := 0
	var grouped []*groupedPods
	for _, d := range files.Others {
		if pods := groupedPodsOf(d); pods != nil {
			grouped = append(grouped, pods)
			if pods.err != nil {
				invalid++
			}
			fmt.Fprint(o.Out, pods)
		}
		if object := deviceObjectOf(d); object != nil {
			devices++
			if len(object.errors) > 0 {
				invalid++
			}
			fmt.Fprint(o.Out, object)
		}
	}
	warned, err := o.printWarnings(ctx, files)
	if err != nil {
		return err
	}
	warned += o.printGroupWarnings(ctx, files, grouped)
	err = o.summarize(summary{files: files, ofOtherKinds: devices + len(grouped), invalid: invalid, unresolved: unresolved})
	if err == nil && warned > 0 && o.warningsAsErrors {
		fmt.Fprintf(o.ErrOut, "%s treated as errors (--warnings-as-errors).\n", show.Count(warned, "warning"))
		return verb.ErrFindings
	}
	return err
}

// summary counts what was validated.
type summary struct {
	files *manifest.Files
	// ofOtherKinds is the number of documents that are not of Berth and were validated, about
	// devices or with groups of pods; invalid that of invalid objects.
	ofOtherKinds, invalid int
	// unresolved: a profile references a PluginConfig that is in no file.
	unresolved bool
}

// summarize prints a summary and returns the error that the command ends with.
func (o *options) summarize(s summary) error {
	all, others := len(s.files.Objects)+s.ofOtherKinds, len(s.files.Others)-s.ofOtherKinds
	if all == 0 {
		return fmt.Errorf("-f: nothing to validate: no document has apiVersion %s (%d of other kinds)", v1alpha1.GroupVersion, others)
	}
	if s.unresolved {
		fmt.Fprintln(o.ErrOut, "PluginConfigs are looked up in the files only: add them with -f.")
	}
	configurations, err := configurationsOf(s.files)
	if err != nil {
		return err
	}
	if others -= len(configurations); others > 0 {
		fmt.Fprintf(o.ErrOut, "%s of other kinds ignored.\n", show.Count(others, "document"))
	}
	if s.invalid > 0 {
		fmt.Fprintf(o.ErrOut, "%d of %s invalid.\n", s.invalid, show.Count(all, "object"))
		return verb.ErrFindings
	}
	return nil
}

// Result is the result for one object.
type Result struct {
	object *manifest.Object
	// rejection is the compiler's; nil if it accepts the object, or if the API server would
	// reject it.
	rejection *compile.Rejection
}

// Validate compiles an object, unless the API server would reject it.
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

// Valid reports whether the object has no error.
func (v Result) Valid() bool { return v.object.Errors == nil && v.rejection == nil }

// String returns a line for the object, or for each of its conditions that would be False,
// and a line for each error.
func (v Result) String() string {
	title := v.object.Source + ": " + v.object.Title
	if v.Valid() {
		return show.Wrap(title+" is valid", "", "    ") + "\n"
	}
	if v.object.Errors != nil {
		text := show.Wrap(title+" would be rejected by the API server:", "", "    ") + "\n"
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
		text += show.Wrap(fmt.Sprintf("%s would get %s=False (%s):", title, condition, reason), "", "    ") + "\n"
		for _, fault := range own.Errors {
			text += show.Wrap(fault.Path+": "+fault.Detail, "  ", "  ") + "\n"
		}
	}
	return text
}
