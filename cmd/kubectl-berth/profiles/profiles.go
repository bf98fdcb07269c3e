// Package profiles is `kubectl berth profiles`: what runs under each name, and
// why what is written does not.
package profiles

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes it.
var Verb = verb.Verb{
	Name: "profiles", Arguments: "[NAME...] [-w] [-o FORMAT]",
	Short: "List the SchedulingProfiles: what runs, and why what is written does not",
	Long: `GEN is the generation as written, RUNS the generation that runs, and HASH names
all that decides: a PluginConfig that is edited changes the hash alone. A profile
that is not ready is told in a sentence below the table; while watching, in the
column REASON.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"watch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for --watch"},
	},
	Examples: []verb.Example{
		{Description: "What runs, and what does not?", Command: "kubectl berth profiles"},
		{Description: "What became of an edit?", Command: "kubectl berth profiles batch --watch"},
	},
}

type options struct {
	verb.Env
	output *show.Output
	watch  bool
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env, output: show.NewOutput()}
	cmd := Verb.Command(cobra.ArbitraryArgs, func(cmd *cobra.Command, names []string) error { return o.run(cmd.Context(), names) })
	o.output.AddFlags(cmd)
	cmd.ValidArgsFunction = complete.Profiles(env, "")
	complete.RegisterFlag(cmd, "output", complete.Values(o.output.Formats()...))
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print each profile again when it changes")
	return cmd
}

func (o *options) run(ctx context.Context, names []string) error {
	object, err := o.output.Printer()
	if err != nil {
		return err
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	if o.watch {
		return o.watchProfiles(ctx, c, names)
	}
	profiles, err := c.Profiles(ctx, names...)
	if err != nil {
		return err
	}
	if object == nil {
		return o.printTable(profiles)
	}
	if len(names) == 1 || o.output.Name() {
		for i := range profiles {
			if err := object(withKind(&profiles[i]), o.Out); err != nil {
				return err
			}
		}
		return nil
	}
	list := &v1alpha1.SchedulingProfileList{Items: profiles}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfileList"))
	for i := range list.Items {
		withKind(&list.Items[i])
	}
	return object(list, o.Out)
}

// typed is the profile with the kind that clients leave out.
func withKind(p *v1alpha1.SchedulingProfile) *v1alpha1.SchedulingProfile {
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
	return p
}

// follow prints the profiles, and each again that changes in what is shown.
func (o *options) watchProfiles(ctx context.Context, c *cluster.Cluster, names []string) error {
	object, err := o.output.Printer()
	if err != nil {
		return err
	}
	table := show.NewTable(o.Out, o.output.Wide(), columns)
	last := map[string]string{}
	change := func(p *v1alpha1.SchedulingProfile, gone bool) error {
		if object != nil {
			return object(withKind(p), o.Out)
		}
		row := o.row(p)
		if gone {
			row[1], row[2] = "Deleted", "False"
		}
		seen := fmt.Sprint(row[:len(row)-agingCells])
		if last[p.Name] == seen {
			return nil
		}
		last[p.Name] = seen
		return table.Print(row)
	}
	begin := func(profiles []v1alpha1.SchedulingProfile) error {
		if object == nil {
			var rows [][]any
			for i := range profiles {
				row := o.row(&profiles[i])
				last[profiles[i].Name] = fmt.Sprint(row[:len(row)-agingCells])
				rows = append(rows, row)
			}
			return table.Print(rows...)
		}
		for i := range profiles {
			if err := change(&profiles[i], false); err != nil {
				return err
			}
		}
		return nil
	}
	return c.WatchProfiles(ctx, names, begin, change)
}

func (o *options) printTable(profiles []v1alpha1.SchedulingProfile) error {
	if len(profiles) == 0 {
		_, err := fmt.Fprintln(o.ErrOut, "There is no SchedulingProfile.")
		return err
	}
	var rows [][]any
	for i := range profiles {
		rows = append(rows, o.row(&profiles[i]))
	}
	if err := show.NewTable(o.Out, o.output.Wide(), columns).Print(rows...); err != nil {
		return err
	}
	for i := range profiles {
		if text := notReadyMessage(&profiles[i]); text != "" {
			if _, err := fmt.Fprintf(o.Out, "\n%s\n", show.Wrap(text, "", "  ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// trouble is a sentence on a profile that is not ready, or not judged yet.
func notReadyMessage(p *v1alpha1.SchedulingProfile) string {
	ready := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case ready == nil:
		return p.Name + ": nobody has looked at it yet; is Berth running? `kubectl berth check` says so"
	case ready.ObservedGeneration < p.Generation:
		return fmt.Sprintf("%s: generation %d has not been looked at yet", p.Name, p.Generation)
	case ready.Status == metav1.ConditionTrue:
		return ""
	}
	return fmt.Sprintf("%s is not ready, %s: %s", p.Name, ready.Reason, ready.Message)
}
