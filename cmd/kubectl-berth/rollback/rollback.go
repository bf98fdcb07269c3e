// Package rollback is `kubectl berth rollback`: it writes the spec of a revision that
// served before, from the ControllerRevisions that Berth keeps.
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

// Verb describes it.
var Verb = verb.Verb{
	Name: "rollback", Arguments: "PROFILE [--to REVISION] [--dry-run] | PROFILE --list [-o json|yaml]",
	Short: "Go back to the last revision that served, or to another one",
	Long: `Writes the spec of a revision. Without --to that is the last revision that served: it
ran for a minute or longer and is blamed for nothing. Where none did, it is the last
one that ran. What runs is chosen only where the profile as it is written does not.

The diff shows all that is changed. Which other revisions that undoes is said below
it. spec.state and spec.activation stay as they are: they do not say how pods are
scheduled. A revision holds all arguments inline; a PluginConfig that gave them is
named again where it still holds the same ones. Where it does not, they stay inline
in the profile, since an edit of the PluginConfig would change other profiles, too:
this is said, with what differs. A profile that was deleted is created again; its
revisions are kept for a day.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"get", "patch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "but for --list"},
		{Verbs: []string{"create"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for one that was deleted"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "to name them again"},
	},
	Examples: []verb.Example{
		{Description: "What would going back change?", Command: "kubectl berth rollback batch --dry-run"},
		{Description: "Which revisions are there? Back to the third", Command: "kubectl berth rollback batch --list && kubectl berth rollback batch --to 3"},
	},
	OnSuccess: "it is written, or was so already",
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
	cmd.Flags().StringVar(&o.to, "to", "", "the revision: its number, its hash or its name")
	cmd.Flags().BoolVar(&o.list, "list", false, "list the revisions, and change nothing")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be changed; the API server judges it, and stores nothing")
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
		return errors.New("-o: goes with --list")
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	profiles, err := c.Profiles(ctx)
	if err != nil {
		return err
	}
	var there *v1alpha1.SchedulingProfile
	for i := range profiles {
		if profiles[i].Name == name {
			there = &profiles[i]
		}
	}
	revisions, err := c.Revisions(ctx, name)
	switch {
	case err != nil:
		return err
	case len(revisions) == 0 && there == nil:
		return fmt.Errorf("%s; no revision of one is stored either", cluster.ProfileNotFound(name, cluster.ProfileNames(profiles)))
	case len(revisions) == 0:
		return fmt.Errorf("no revision of SchedulingProfile %s is stored in namespace %s: --berth-namespace says where Berth runs", name, c.BerthNamespace)
	case o.list:
		return o.printRevisions(revisions, there)
	}
	target, err := choose(o.to, revisions, there)
	if err != nil {
		return err
	}
	return o.write(ctx, c, target)
}
