// Package profiles is `kubectl berth profiles`: it lists what is running under each name,
// and why a spec is not running.
package profiles

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/complete"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "profiles", Arguments: "[NAME...] [-w] [-o FORMAT]",
	Short: "List SchedulingProfiles: what is running, and why a spec is not",
	Long: `GEN is metadata.generation and RUNS the generation that is running. HASH identifies
the profile with its arguments: an edit of a PluginConfig changes the hash and not the
generation. Below the table, a sentence says why a profile is not Ready; with --watch,
only the column REASON does.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"watch"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "for --watch"},
	},
	Examples: []verb.Example{
		{Description: "What is running?", Command: "kubectl berth profiles"},
		{Description: "Watch an edit take effect", Command: "kubectl berth profiles batch --watch"},
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
	printObject, err := o.output.Printer()
	if err != nil {
		return err
	}
	c, err := o.Open(ctx)
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
	if printObject == nil {
		return o.printTable(profiles)
	}
	if len(names) == 1 || o.output.Name() {
		for i := range profiles {
			if err := printObject(withKind(&profiles[i]), o.Out); err != nil {
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
	return printObject(list, o.Out)
}

// withKind sets apiVersion and kind, which clients leave empty.
func withKind(p *v1alpha1.SchedulingProfile) *v1alpha1.SchedulingProfile {
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
	return p
}

// watchProfiles prints the profiles, and each again when a printed field of it changes.
func (o *options) watchProfiles(ctx context.Context, c *cluster.Cluster, names []string) error {
	printObject, err := o.output.Printer()
	if err != nil {
		return err
	}
	table := show.NewTable(o.Out, o.output.Wide(), columns)
	last := map[string]string{}
	change := func(p *v1alpha1.SchedulingProfile, deleted bool) error {
		if printObject != nil {
			return printObject(withKind(p), o.Out)
		}
		row := o.row(p)
		if deleted {
			row[1], row[2] = "Deleted", "False"
		}
		shown := fmt.Sprint(row[:len(row)-agingCells])
		if last[p.Name] == shown {
			return nil
		}
		last[p.Name] = shown
		return table.Print(row)
	}
	begin := func(profiles []v1alpha1.SchedulingProfile) error {
		if printObject == nil {
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
	return c.WatchProfiles(ctx, names, o.ErrOut, begin, change)
}

func (o *options) printTable(profiles []v1alpha1.SchedulingProfile) error {
	if len(profiles) == 0 {
		_, err := fmt.Fprintln(o.ErrOut, "No SchedulingProfiles found.")
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
		for _, text := range []string{notReadyMessage(&profiles[i]), degradedMessage(&profiles[i])} {
			if text == "" {
				continue
			}
			if _, err := fmt.Fprintf(o.Out, "\n%s\n", show.Wrap(text, "", "  ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// notReadyMessage says why a profile is not Ready, or that its generation is not observed
// yet; empty otherwise.
func notReadyMessage(p *v1alpha1.SchedulingProfile) string {
	ready := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case ready == nil:
		return p.Name + ": Berth has not observed it yet; `kubectl berth check` tells whether Berth is running"
	case ready.ObservedGeneration < p.Generation:
		return fmt.Sprintf("%s: Berth has not observed generation %d yet", p.Name, p.Generation)
	case ready.Status == metav1.ConditionTrue:
		return ""
	}
	return fmt.Sprintf("%s: not Ready (%s): %s", p.Name, ready.Reason, ready.Message)
}

// degradedMessage says why a profile is Degraded; empty for one that is not.
func degradedMessage(p *v1alpha1.SchedulingProfile) string {
	degraded := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionDegraded))
	if degraded == nil || degraded.Status != metav1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf("%s: Degraded (%s): %s", p.Name, degraded.Reason, degraded.Message)
}

var columns = append(show.Columns("Name", "State", "Ready", "Reason", "Gen", "Runs", "Hash", "Pending", "Bound"),
	show.Column{Name: "Revision", Wide: true}, show.Column{Name: "Configs", Wide: true},
	show.Column{Name: "Last"}, show.Column{Name: "Age"})

// agingCells is the number of cells at the end of a row that change with time.
const agingCells = 2

func (o *options) row(p *v1alpha1.SchedulingProfile) []any {
	status, reason := "Unknown", "NotObserved"
	ready := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	if ready != nil && ready.ObservedGeneration == p.Generation {
		status, reason = string(ready.Status), ready.Reason
	}
	running, revision, configs := any(show.None), "", ""
	programmed := ptr.Deref(p.Status.Programmed, v1alpha1.ProgrammedProfile{})
	if p.Status.Programmed != nil {
		running, revision = programmed.Generation, programmed.Revision
	}
	for i, c := range programmed.Configs {
		if i > 0 {
			configs += ","
		}
		configs += c.Name
	}
	row := []any{
		p.Name, p.Spec.State, status, reason, p.Generation, running, show.OrNone(programmed.Hash),
		ptr.Deref(p.Status.Queue, v1alpha1.QueueStatus{}).Pending, ptr.Deref(p.Status.Totals, v1alpha1.DecisionTotals{}).Bound,
	}
	if o.output.Wide() {
		row = append(row, show.OrNone(revision), show.OrNone(configs))
	}
	return append(row,
		show.Age(ptr.Deref(p.Status.LastDecisionTime, metav1.Time{}), o.Now()), show.Age(p.CreationTimestamp, o.Now()))
}
