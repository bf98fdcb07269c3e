// Package rollback is `kubectl berth rollback`: it writes the spec of an earlier revision,
// from the ControllerRevisions that Berth stores.
package rollback

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "rollback", Arguments: "PROFILE [--to REVISION] [--dry-run] | PROFILE --list [-o json|yaml]",
	Short: "Roll back to the last revision that served, or to another one",
	Long: `Writes the spec of a revision to the profile. Without --to, it is the last revision that
served: it ran for at least a minute and is blamed for no crash. If none served, it is the
last one that ran. The running revision is chosen only if the current spec is not running.

The output is a diff of the spec and the revisions that are undone. spec.state and
spec.activation do not change. A revision has all arguments inline. If the PluginConfig
that they came from still has the same arguments, the profile references it again.
Otherwise the arguments stay inline, since an edit of the PluginConfig would change other
profiles as well, and the difference is printed. A deleted profile is created again; its
revisions are kept for a day.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"get", "patch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "except with --list"},
		{Verbs: []string{"create"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for a deleted profile"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "to reference them again"},
	},
	Examples: []verb.Example{
		{Description: "Show what a rollback would change", Command: "kubectl berth rollback batch --dry-run"},
		{Description: "List the revisions, and roll back to revision 3", Command: "kubectl berth rollback batch --list && kubectl berth rollback batch --to 3"},
	},
	OnSuccess: "the revision is written, or is the spec already",
}

type options struct {
	verb.Env
	to     string
	list   bool
	dryRun bool
	output *show.Format
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env, output: show.NewFormat()}
	cmd := Verb.Command(cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) })
	cmd.Flags().StringVar(&o.to, "to", "", "the revision: its number, hash or name")
	cmd.Flags().BoolVar(&o.list, "list", false, "only list the revisions")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would change, with a dry run by the API server")
	o.output.AddFlag(cmd, "--list")
	complete.RegisterFlag(cmd, "output", complete.Values(o.output.All()...))
	cmd.MarkFlagsMutuallyExclusive("list", "to")
	cmd.MarkFlagsMutuallyExclusive("list", "dry-run")
	cmd.ValidArgsFunction = complete.FirstArgument(complete.Profiles(env, ""))
	complete.RegisterFlag(cmd, "to", complete.Revisions(env))
	return cmd
}

func (o *options) run(ctx context.Context, name string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	if o.output.Set() && !o.list {
		return errors.New("-o: requires --list")
	}
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	profiles, err := c.Profiles(ctx)
	if err != nil {
		return err
	}
	there := cluster.FindProfile(profiles, name)
	revisions, err := c.Revisions(ctx, name)
	switch {
	case err != nil:
		return err
	case len(revisions) == 0 && there == nil:
		return fmt.Errorf("%s; no revision is stored either", cluster.ProfileNotFound(name, cluster.ProfileNames(profiles)))
	case len(revisions) == 0:
		return fmt.Errorf("no revision of SchedulingProfile %s is stored in namespace %s; set --berth-namespace if Berth runs in another one", name, c.BerthNamespace)
	case o.list:
		return o.printRevisions(revisions, there)
	}
	target, err := choose(o.to, revisions, there)
	if err != nil {
		return err
	}
	return o.write(ctx, c, target)
}
