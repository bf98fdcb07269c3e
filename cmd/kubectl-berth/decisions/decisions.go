// Package decisions is `kubectl berth decisions`: it lists the recent decisions in the
// status of the profiles.
package decisions

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "decisions", Arguments: "[-w] [--profile NAME] [--failed] [-o wide|json|yaml]",
	Short: "List recent decisions, newest first; with -w also new ones, newest last",
	Long: `The status of a profile holds spec.decisions.history of its decisions, and how many it
leaves out, which is printed below the table. Times are in UTC. With -n, only decisions
about pods of that namespace are listed.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"watch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for --watch"},
	},
	Examples: []verb.Example{
		{Description: "Watch decisions that bound no pod", Command: "kubectl berth decisions --failed --watch"},
		{Description: "The decisions of one profile, with full messages", Command: "kubectl berth decisions --profile batch -o wide"},
	},
}

type options struct {
	verb.Env
	watch, failed bool
	profiles      []string
	output        string
	cluster       *cluster.Cluster
}

// New returns the command.
func New(env verb.Env) *cobra.Command {
	o := &options{Env: env}
	cmd := Verb.Command(cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) })
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print new decisions as they are made")
	cmd.Flags().BoolVar(&o.failed, "failed", false, "list only decisions that bound no pod")
	cmd.Flags().StringSliceVar(&o.profiles, "profile", nil, "list only decisions of this profile")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml).")
	complete.RegisterFlag(cmd, "profile", complete.Profiles(env, ""))
	complete.RegisterFlag(cmd, "output", complete.Values("wide", "json", "yaml"))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	if !slices.Contains([]string{"", "wide", "json", "yaml"}, o.output) {
		return fmt.Errorf("-o: unsupported output format %q: must be one of: wide, json, yaml", o.output)
	}
	if o.cluster, err = o.Open(ctx); err != nil {
		return err
	}
	printEntries := o.printer()
	if o.watch {
		return o.watchDecisions(ctx, printEntries)
	}
	profiles, err := o.cluster.Profiles(ctx, o.profiles...)
	if err != nil {
		return err
	}
	var all []entry
	for i := range profiles {
		all = append(all, o.entries(&profiles[i])...)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return b.Time.Compare(a.Time.Time) })
	if err := printEntries(all...); err != nil || o.output == "json" || o.output == "yaml" {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(o.ErrOut, "No decisions found.")
	}
	for i := range profiles {
		if message := omittedMessage(&profiles[i]); message != "" {
			fmt.Fprintln(o.Out, show.Wrap(message, "", "  "))
		}
	}
	return nil
}

// entry is one decision.
type entry struct {
	Profile                 string `json:"profile"`
	v1alpha1.RecentDecision `json:",inline"`
	// missed is how many decisions before this one are not known.
	missed int64
}

// entries returns the decisions of a profile that the flags select, newest first.
func (o *options) entries(p *v1alpha1.SchedulingProfile) []entry {
	var entries []entry
	for _, d := range p.Status.RecentDecisions {
		if o.failed && d.Result == "Bound" || o.cluster.NamespaceGiven && d.Namespace != o.cluster.Namespace {
			continue
		}
		entries = append(entries, entry{Profile: p.Name, RecentDecision: d})
	}
	return entries
}

// omittedMessage says how many decisions of a profile its status leaves out; empty for none.
func omittedMessage(p *v1alpha1.SchedulingProfile) string {
	history := v1alpha1.DefaultHistory
	if p.Spec.Decisions.History != nil {
		history = *p.Spec.Decisions.History
	}
	switch {
	case p.Status.OmittedDecisions == 0:
		return ""
	case history == 0:
		return fmt.Sprintf("%s: %d decisions not shown: the status keeps none (spec.decisions.history is 0)", p.Name, p.Status.OmittedDecisions)
	}
	return fmt.Sprintf("%s: %d more decisions not shown: the status keeps the newest %d (spec.decisions.history)",
		p.Name, p.Status.OmittedDecisions, history)
}

// formatTime returns the time of day in UTC, with the date unless it is today.
func formatTime(at, now time.Time) string {
	at = at.UTC()
	if at.Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
