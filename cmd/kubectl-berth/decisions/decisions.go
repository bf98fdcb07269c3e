// Package decisions is `kubectl berth decisions`: what was decided last, as the
// status of the profiles tells.
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

// Verb describes it.
var Verb = verb.Verb{
	Name: "decisions", Arguments: "[-w] [--profile NAME] [--failed] [-o wide|json|yaml]",
	Short: "List what was decided last, newest first; with -w, as it comes, newest last",
	Long: `A profile's status holds a sample, spec.decisions.history of them, and says how many
it leaves out, which is told below the table. Times are in UTC. With -n, only pods
of that namespace are shown.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"watch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for --watch"},
	},
	Examples: []verb.Example{
		{Description: "What fits nowhere, as it comes", Command: "kubectl berth decisions --failed --watch"},
		{Description: "Where did this profile put pods? In full", Command: "kubectl berth decisions --profile batch -o wide"},
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
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on with what is decided from now on")
	cmd.Flags().BoolVar(&o.failed, "failed", false, "only those that bound no pod")
	cmd.Flags().StringSliceVar(&o.profiles, "profile", nil, "only those of this profile")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml).")
	complete.RegisterFlag(cmd, "profile", complete.Profiles(env, ""))
	complete.RegisterFlag(cmd, "output", complete.Values("wide", "json", "yaml"))
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	if !slices.Contains([]string{"", "wide", "json", "yaml"}, o.output) {
		return fmt.Errorf("-o: no format %q: it is one of wide, json, yaml", o.output)
	}
	if o.cluster, err = o.Open(); err != nil {
		return err
	}
	print := o.printer()
	if o.watch {
		return o.watchDecisions(ctx, print)
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
	if err := print(all...); err != nil || o.output == "json" || o.output == "yaml" {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(o.ErrOut, "No decision is known.")
	}
	for i := range profiles {
		if left := omittedMessage(&profiles[i]); left != "" {
			fmt.Fprintln(o.Out, show.Wrap(left, "", "  "))
		}
	}
	return nil
}

// entry is one decision.
type entry struct {
	Profile                 string `json:"profile"`
	v1alpha1.RecentDecision `json:",inline"`
	// gap is how many are not known that came before this one.
	missed int64
}

// entries are the decisions of a profile that were asked for, newest first.
func (o *options) entries(p *v1alpha1.SchedulingProfile) []entry {
	var some []entry
	for _, d := range p.Status.RecentDecisions {
		if o.failed && d.Result == "Bound" || o.cluster.NamespaceGiven && d.Namespace != o.cluster.Namespace {
			continue
		}
		some = append(some, entry{Profile: p.Name, RecentDecision: d})
	}
	return some
}

// omitted says how many decisions of a profile its status leaves out.
func omittedMessage(p *v1alpha1.SchedulingProfile) string {
	history := v1alpha1.DefaultHistory
	if p.Spec.Decisions.History != nil {
		history = *p.Spec.Decisions.History
	}
	switch {
	case p.Status.OmittedDecisions == 0:
		return ""
	case history == 0:
		return fmt.Sprintf("%s: %d decisions are not shown: it keeps none (spec.decisions.history is 0)", p.Name, p.Status.OmittedDecisions)
	}
	return fmt.Sprintf("%s: %d more decisions are not shown: its status keeps the newest %d (spec.decisions.history)",
		p.Name, p.Status.OmittedDecisions, history)
}

// clock is the time of day, of another day with its date.
func formatTime(at, now time.Time) string {
	at = at.UTC()
	if at.Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
