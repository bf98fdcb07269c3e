package decisions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// printer returns the function that prints decisions in the chosen format.
func (o *options) printer() func(...entry) error {
	switch o.output {
	case "json":
		return func(entries ...entry) error {
			return o.printList(entries, func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "    ") })
		}
	case "yaml":
		return func(entries ...entry) error { return o.printList(entries, yaml.Marshal) }
	}
	table := show.NewTable(o.Out, o.output == "wide",
		[]show.Column{{Name: "Time"}, {Name: "Profile"}, {Name: "Gen", Wide: true}, {Name: "Hash", Wide: true}, {Name: "Pod"}, {Name: "Result"}, {Name: "Node or message"}})
	return func(entries ...entry) error {
		var rows [][]any
		for _, e := range entries {
			if e.missed > 0 {
				rows = append(rows, o.row("…", e.Profile, "", "", "", "", show.Count(int(e.missed), "decision")+" in between not recorded"))
			}
			where := e.Node
			if e.Message != "" {
				where = strings.TrimSpace(where + " " + e.Message)
			}
			rows = append(rows, o.row(formatTime(e.Time.Time, o.Now()), e.Profile, e.Generation, e.Hash, e.Namespace+"/"+e.Pod, e.Result, where))
		}
		return table.Print(rows...)
	}
}

// row returns all cells, or those that are shown without -o wide.
func (o *options) row(cells ...any) []any {
	if o.output == "wide" {
		return cells
	}
	return slices.Delete(cells, 2, 4)
}

// printList prints decisions as one list; with --watch, each as a document of its own.
func (o *options) printList(entries []entry, marshal func(any) ([]byte, error)) error {
	var values []any
	if o.watch {
		for _, e := range entries {
			values = append(values, e)
		}
	} else {
		values = []any{append([]entry{}, entries...)} // [] for none
	}
	for _, value := range values {
		text, err := marshal(value)
		if err != nil {
			return err
		}
		if o.watch && o.output == "yaml" {
			fmt.Fprintln(o.Out, "---")
		}
		fmt.Fprintln(o.Out, strings.TrimSpace(string(text)))
	}
	return nil
}

// seenDecisions is what was known of the decisions of a profile when its status was last
// read.
type seenDecisions struct {
	keys  map[string]bool
	total int64
}

func totalDecisions(p *v1alpha1.SchedulingProfile) int64 {
	return p.Status.OmittedDecisions + int64(len(p.Status.RecentDecisions))
}

func decisionKey(e v1alpha1.RecentDecision) string {
	return fmt.Sprint(e.Time.Unix(), e.Namespace, e.Pod, e.Result, e.Node, e.Hash, e.Message)
}

// watchDecisions prints the known decisions, and then new ones until ctx ends.
func (o *options) watchDecisions(ctx context.Context, printEntries func(...entry) error) error {
	known := map[string]seenDecisions{}
	begin := func(profiles []v1alpha1.SchedulingProfile) error {
		var all []entry
		for i := range profiles {
			all = append(all, o.entries(&profiles[i])...)
			known[profiles[i].Name] = newSeenDecisions(&profiles[i])
		}
		// The decisions of a profile are newest first. The sort is stable.
		slices.Reverse(all)
		slices.SortStableFunc(all, func(a, b entry) int { return a.Time.Compare(b.Time.Time) })
		return printEntries(all...)
	}
	return o.cluster.WatchProfiles(ctx, o.profiles, o.ErrOut, begin, func(p *v1alpha1.SchedulingProfile, deleted bool) error {
		if deleted {
			delete(known, p.Name)
			return nil
		}
		before, fresh := known[p.Name], int64(0)
		known[p.Name] = newSeenDecisions(p)
		var added []entry
		for _, d := range p.Status.RecentDecisions {
			if !before.keys[decisionKey(d)] {
				fresh++
			}
		}
		for _, e := range o.entries(p) {
			if !before.keys[decisionKey(e.RecentDecision)] {
				added = append(added, e)
			}
		}
		slices.Reverse(added)
		if missed := totalDecisions(p) - before.total - fresh; len(added) > 0 && before.keys != nil && missed > 0 {
			added[0].missed = missed
		}
		return printEntries(added...)
	})
}

func newSeenDecisions(p *v1alpha1.SchedulingProfile) seenDecisions {
	s := seenDecisions{keys: map[string]bool{}, total: totalDecisions(p)}
	for _, d := range p.Status.RecentDecisions {
		s.keys[decisionKey(d)] = true
	}
	return s
}
