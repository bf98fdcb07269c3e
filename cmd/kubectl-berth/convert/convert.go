package convert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// kubeScheduler is what --to takes.
const kubeScheduler = "kube-scheduler"

type options struct {
	verb.Env
	files  []string
	to     string
	name   string
	key    string
	inline bool
	// registry holds the plugins that profiles may name.
	registry framework.Registry
}

// New returns the command.
func New(env verb.Env) *cobra.Command { return newWithRegistry(env, plugins.InTree()) }

func newWithRegistry(env verb.Env, registry framework.Registry) *cobra.Command {
	o := &options{Env: env, registry: registry}
	cmd := Verb.Command(cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) })
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "files, folders, or - for standard input")
	cmd.Flags().StringVar(&o.to, "to", "", "kube-scheduler: the way back")
	cmd.Flags().StringVar(&o.name, "scheduler-name", "", "the profile's name where the file does not say it: default-scheduler if not given")
	cmd.Flags().StringVar(&o.key, "key", "", "the key of the ConfigMap that holds the configuration, where several do")
	cmd.Flags().BoolVar(&o.inline, "inline", false, "write arguments into each profile, also those that several share")
	cmd.ValidArgsFunction = profileOrFile(env)
	complete.RegisterFlag(cmd, "to", complete.Values(kubeScheduler))
	return cmd
}

// profileOrFile completes profile/NAME, and names of files.
func profileOrFile(env verb.Env) complete.Func {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if strings.HasPrefix(begun, "profile/") {
			return complete.Profiles(env, "profile/")(cmd, args, begun)
		}
		return complete.Files(cmd, args, begun)
	}
}

func (o *options) run(ctx context.Context, args []string) error {
	profile, files := splitArguments(args)
	o.files = append(o.files, files...)
	switch {
	case o.to != "" && o.to != kubeScheduler:
		return fmt.Errorf("--to: must be %s, or left out for Berth's profiles, is %q", kubeScheduler, o.to)
	case o.to == "" && profile != "":
		return fmt.Errorf("profile/%s: is Berth's already: --to kube-scheduler goes the other way", profile)
	case profile != "" && len(o.files) > 0:
		return errors.New("-f: give files or profile/NAME, not both")
	case profile == "" && len(o.files) == 0:
		return errors.New("-f: name a file, a folder, or - for standard input")
	case o.to != "" && (o.inline || o.name != "" || o.key != ""):
		return errors.New("--inline, --scheduler-name and --key are for the way to Berth, not --to kube-scheduler")
	case o.to != "":
		return o.toKubeScheduler(ctx, profile)
	}
	return o.fromKubeScheduler()
}

// named takes profile/NAME out of the arguments; the rest are files.
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

// forth makes profiles of one configuration.
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
		err = errors.New("is Berth's already: --to kube-scheduler goes the other way")
	default:
		err = fmt.Errorf("kind: must be %s or %s, is %q", upstreamconfig.Kind, upstreamconfig.PolicyKind, kind)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.Source, err)
	}
	if err := o.printResult(read); err != nil {
		return err
	}
	return o.printRemarks(read.Remarks)
}

// remarks says what is to be said, what is lost first.
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
