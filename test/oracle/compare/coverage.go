package compare

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// Coverage says what a comparison was about: equality of what never happened
// proves nothing.
type Coverage struct {
	// Attempts is how many decisions were equal, Refused how many of them
	// found no node.
	Attempts, Refused int
	plugins           map[string]*share
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
func NewCoverage() *Coverage { return &Coverage{plugins: map[string]*share{}} }

func (c *Coverage) of(plugin string) *share {
	if c.plugins[plugin] == nil {
		c.plugins[plugin] = &share{}
	}
	return c.plugins[plugin]
}

// add counts the scheduler's last attempt in.
func (c *Coverage) add(outcome *run.Outcome, scheduler *upstream.Scheduler) {
	if c == nil {
		return
	}
	c.Attempts++
	if outcome.Node == "" {
		c.Refused++
	}
	for plugin, nodes := range scheduler.Refused() {
		s := c.of(plugin)
		s.attempts++
		s.nodes += nodes
		if outcome.Node == "" {
			s.lost++
		}
	}
	scores := scheduler.Scored()
	if len(scores) == 0 {
		return
	}
	winner := upstream.Winner(scores)
	for i, plugin := range scores[0].Scores {
		s := c.of(plugin.Name)
		s.scored++
		if upstream.Winner(without(scores, i)) != winner {
			s.changed++
		}
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
	for plugin, o := range other.plugins {
		s := c.of(plugin)
		s.nodes += o.nodes
		s.attempts += o.attempts
		s.lost += o.lost
		s.scored += o.scored
		s.changed += o.changed
	}
}

// String is a table, a plugin a line.
func (c *Coverage) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d decisions, %d of them refusals (%.1f %%)\n", c.Attempts, c.Refused, 100*float64(c.Refused)/float64(max(1, c.Attempts)))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "plugin\tnodes refused\tin attempts\tof them lost\tattempts scored\twinners changed\t")
	for _, name := range plugins.InTree().Names() {
		s := c.of(name)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, s.nodes, s.attempts, s.lost, s.scored, s.changed)
	}
	table.Flush()
	return text.String()
}

// Short names what happened less often than least times: that a plugin which
// filters refused a node in an attempt, that one which scores changed the
// winner.
func (c *Coverage) Short(least int) []string {
	var short []string
	for name, registration := range plugins.InTree() {
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
