package compare

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// Coverage says what a comparison was about: equality of what never happened
// proves nothing.
type Coverage struct {
	// Attempts is how many decisions were equal, Refused how many of them
	// found no node.
	Attempts, Refused int
	// Remembered is how many of them Berth made from what it remembered.
	Remembered int
	// Room says how preemptions went.
	Room    Room
	plugins map[string]*share
	// features are in the order of the list of that name.
	features []use
	churn    churn
}

// share is what one plugin had to do with the decisions.
type share struct {
	// nodes were refused, in so many attempts; lost are those of them that
	// found no node.
	nodes, attempts, lost int
	// scored are the attempts in which it scored, changed those that another
	// node had won without its score.
	scored, changed int
}

// NewCoverage returns an empty one.
func NewCoverage() *Coverage {
	return &Coverage{plugins: map[string]*share{}, features: make([]use, len(features)), churn: churn{}}
}

func (c *Coverage) of(plugin string) *share {
	if c.plugins[plugin] == nil {
		c.plugins[plugin] = &share{}
	}
	return c.plugins[plugin]
}

// add counts the schedulers' last attempt in.
func (c *Coverage) add(outcome *run.Outcome, berth *run.Berth, scheduler *upstream.Scheduler) {
	if c == nil {
		return
	}
	c.Attempts++
	if outcome.Node == "" {
		c.Refused++
	}
	c.Room.add(outcome, scheduler.Tied())
	c.addFeatures(newSight(outcome.Pod, berth, scheduler), c.addPlugins(outcome, scheduler))
}

// happened counts something in that was no attempt.
func (c *Coverage) happened(op log.Op) {
	if c != nil {
		c.churn.add(op)
	}
}

// addPlugins counts what each plugin did in the last attempt, and returns those
// that refused a node or changed the winner.
func (c *Coverage) addPlugins(outcome *run.Outcome, scheduler *upstream.Scheduler) (decided map[string]bool) {
	decided = map[string]bool{}
	for plugin, nodes := range scheduler.Refused() {
		s := c.of(plugin)
		decided[plugin] = true
		s.attempts++
		s.nodes += nodes
		if outcome.Node == "" {
			s.lost++
		}
	}
	scores := scheduler.Scored()
	if len(scores) == 0 {
		return decided
	}
	winner := upstream.Winner(scores)
	for i, plugin := range scores[0].Scores {
		s := c.of(plugin.Name)
		s.scored++
		if upstream.Winner(without(scores, i)) != winner {
			decided[plugin.Name] = true
			s.changed++
		}
	}
	return decided
}

// remembered counts in what a history's Memo has done.
func (c *Coverage) remembered(stats cycle.Stats) {
	if c != nil {
		c.Remembered += int(stats.Cached)
	}
}

// without returns scores whose totals lack the i-th plugin's part.
func without(scores []fwk.NodePluginScores, i int) []fwk.NodePluginScores {
	less := slices.Clone(scores)
	for n := range less {
		less[n].TotalScore -= less[n].Scores[i].Score
	}
	return less
}

// Add adds other's counts.
func (c *Coverage) Add(other *Coverage) {
	c.Attempts += other.Attempts
	c.Refused += other.Refused
	c.Remembered += other.Remembered
	c.Room.sum(other.Room)
	for plugin, o := range other.plugins {
		s := c.of(plugin)
		s.nodes += o.nodes
		s.attempts += o.attempts
		s.lost += o.lost
		s.scored += o.scored
		s.changed += o.changed
	}
	c.churn.sum(other.churn)
	for i, o := range other.features {
		c.features[i].attempts += o.attempts
		c.features[i].decided += o.decided
	}
}

// String is a table, a plugin a line, and one with a feature a line.
func (c *Coverage) String() string {
	var text strings.Builder
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, c.Attempts)) }
	fmt.Fprintf(&text, "%d decisions, %d of them refusals (%.1f %%), %d from memory (%.1f %%)\n",
		c.Attempts, c.Refused, share(c.Refused), c.Remembered, share(c.Remembered))
	if c.Room.Tried > 0 {
		fmt.Fprintf(&text, "%v\n", c.Room)
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "plugin\tnodes refused\tin attempts\tof them lost\tattempts scored\twinners changed\t")
	for _, name := range plugins.InTree().Names() {
		s := c.of(name)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, s.nodes, s.attempts, s.lost, s.scored, s.changed)
	}
	table.Flush()
	c.writeFeatures(&text)
	fmt.Fprintf(&text, "between them: %v", c.churn)
	return text.String()
}

// Short names what happened less often than least times: that a plugin which
// filters refused a node in an attempt, that one which scores changed the
// winner. Plugins that kube-scheduler has no more are compared with nobody.
func (c *Coverage) Short(least int) []string {
	var short []string
	for name, registration := range plugins.InTree() {
		if !upstreamconfig.IsUpstreamPlugin(name) {
			continue
		}
		s := c.of(name)
		if registration.Implements(framework.Filter) && s.attempts < least {
			short = append(short, fmt.Sprintf("%s refused nodes in %d attempts, want %d", name, s.attempts, least))
		}
		if registration.Implements(framework.Score) && s.changed < least {
			short = append(short, fmt.Sprintf("%s changed the winner of %d attempts, want %d", name, s.changed, least))
		}
	}
	slices.Sort(short)
	return short
}
