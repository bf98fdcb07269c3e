// Package convert is `kubectl berth convert`: it converts kube-scheduler's configuration to
// Berth's resources, and back.
package convert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// kubeScheduler is the only value of --to.
const kubeScheduler = "kube-scheduler"

type options struct {
	verb.Env
	files  []string
	to     string
	name   string
	key    string
	inline bool
	// registry has the plugins that profiles may use.
	registry framework.Registry
}

// New returns the command.
func New(env verb.Env) *cobra.Command { return newWithRegistry(env, plugins.InTree()) }

func newWithRegistry(env verb.Env, registry framework.Registry) *cobra.Command {
	o := &options{Env: env, registry: registry}
	cmd := Verb.Command(cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) })
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "files, directories, or - for standard input")
	cmd.Flags().StringVar(&o.to, "to", "", "kube-scheduler: convert profiles to a configuration of kube-scheduler")
	cmd.Flags().StringVar(&o.name, "scheduler-name", "", "the name of a profile for which the file has none (default: default-scheduler)")
	cmd.Flags().StringVar(&o.key, "key", "", "the key of the ConfigMap to read, if several keys have a configuration")
	cmd.Flags().BoolVar(&o.inline, "inline", false, "write all arguments inline, also those that several profiles share")
	cmd.ValidArgsFunction = profileOrFile(env)
	complete.RegisterFlag(cmd, "to", complete.Values(kubeScheduler))
	return cmd
}

// profileOrFile completes profile/NAME and names of files.
func profileOrFile(env verb.Env) complete.Func {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if strings.HasPrefix(prefix, "profile/") {
			return complete.Profiles(env, "profile/")(cmd, args, prefix)
		}
		return complete.Files(cmd, args, prefix)
	}
}

func (o *options) run(ctx context.Context, args []string) error {
	profile, files := splitArguments(args)
	o.files = append(o.files, files...)
	switch {
	case o.to != "" && o.to != kubeScheduler:
		return fmt.Errorf("--to: Unsupported value: %q: supported values: %q", o.to, kubeScheduler)
	case o.to == "" && profile != "":
		return fmt.Errorf("profile/%s: is a SchedulingProfile already: convert it with --to kube-scheduler", profile)
	case profile != "" && len(o.files) > 0:
		return errors.New("-f: cannot be combined with profile/NAME")
	case profile == "" && len(o.files) == 0:
		return errors.New("-f: must specify a file, a directory, or - for standard input")
	case o.to != "" && (o.inline || o.name != "" || o.key != ""):
		return errors.New("--inline, --scheduler-name and --key cannot be combined with --to")
	case o.to != "":
		return o.toKubeScheduler(ctx, profile)
	}
	return o.fromKubeScheduler()
}

// splitArguments separates profile/NAME from the other arguments, which are files.
func splitArguments(args []string) (profile string, files []string) {
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "profile/"); ok && profile == "" {
			profile = name
			continue
		}
		files = append(files, arg)
	}
	return profile, files
}

// fromKubeScheduler writes the profiles of one configuration.
func (o *options) fromKubeScheduler() error {
	d, err := o.findConfiguration()
	if err != nil {
		return err
	}
	text, err := d.Object.MarshalJSON()
	if err != nil {
		return err
	}
	from := upstreamconfig.Options{Registry: o.registry, Inline: o.inline, Name: o.name}
	var read *upstreamconfig.Result
	switch kind := d.Object.GetKind(); kind {
	case upstreamconfig.Kind:
		read, err = upstreamconfig.FromConfiguration(text, from)
	case upstreamconfig.PolicyKind:
		read, err = upstreamconfig.FromPolicy(text, from)
	case "SchedulingProfile", "PluginConfig":
		err = errors.New("is an object of Berth already: convert it with --to kube-scheduler")
	default:
		err = fmt.Errorf("kind: Unsupported value: %q: supported values: %q, %q", kind, upstreamconfig.Kind, upstreamconfig.PolicyKind)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.Source, err)
	}
	if err := o.printResult(read); err != nil {
		return err
	}
	return o.printRemarks(read.Remarks)
}

// printRemarks prints the remarks, what is lost first.
func (o *options) printRemarks(all []upstreamconfig.Remark) error {
	lost := upstreamconfig.LostRemarks(all)
	for _, r := range lost {
		fmt.Fprintln(o.ErrOut, show.Wrap("lost: "+r.String(), "", "  "))
	}
	for _, r := range all {
		if !r.Lost {
			fmt.Fprintln(o.ErrOut, show.Wrap(r.String(), "", "  "))
		}
	}
	if len(lost) > 0 {
		return verb.ErrFindings
	}
	return nil
}

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "convert", Arguments: "-f FILE [--key KEY] [--inline] [--scheduler-name NAME] | (-f FILE | profile/NAME) --to kube-scheduler",
	Short: "Convert kube-scheduler's configuration to profiles, or profiles to it",
	Long: `FILE contains a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, or v1beta3,
which kube-scheduler read until Kubernetes 1.28), a Policy (apiVersion v1), which it read
until 1.22, or a ConfigMap with one of them. If a ConfigMap has several, --key selects
one; documents of other kinds are ignored. SchedulingProfiles and PluginConfigs are
printed to standard output; arguments that several profiles share become a PluginConfig.
Remarks on fields that were lost, or moved elsewhere, are printed to standard error; the
former begin with "lost".

With --to kube-scheduler, FILE contains SchedulingProfiles and the PluginConfigs that they
reference, or profile/NAME is a profile of the cluster. The resulting configuration makes
the same decisions as Berth. clientConnection and leaderElection are left out: set them
for your kube-scheduler.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for profile/NAME"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for profile/NAME"},
	},
	Examples: []verb.Example{
		{Description: "Convert a configuration file and apply the profiles", Command: "kubectl berth convert -f scheduler.yaml | kubectl apply -f -"},
		{Description: "Convert the ConfigMap of a running kube-scheduler", Command: "kubectl get configmap my-scheduler -n kube-system -o yaml | kubectl berth convert -f -"},
		{Description: "Convert a Policy to a profile named batch", Command: "kubectl berth convert -f policy.json --scheduler-name batch"},
		{Description: "Convert a profile of the cluster to a configuration of kube-scheduler", Command: "kubectl berth convert profile/batch --to kube-scheduler"},
	},
	OnSuccess: "everything is converted", OnFindings: "something is lost; the rest is printed",
}

// printResult prints the PluginConfigs, and then the profiles that reference them.
func (o *options) printResult(read *upstreamconfig.Result) error {
	for _, c := range read.Configs {
		if err := o.printObject(c); err != nil {
			return err
		}
	}
	for _, p := range read.Profiles {
		if err := o.printObject(p); err != nil {
			return err
		}
	}
	return nil
}

// printObject prints an object without status and without empty fields.
func (o *options) printObject(object any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	spec, ok := fields["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
	}
	for name, value := range spec {
		if empty, ok := value.(map[string]any); ok && len(empty) == 0 {
			delete(spec, name)
		}
	}
	fields["spec"] = spec
	text, err := yaml.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s", text)
	return err
}
