package compare

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/plugins/dynamicresources"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// Coverage counts what was compared.
type Coverage struct {
	// Attempts is the number of equal decisions, Refused of those without a node.
	Attempts, Refused int
	// Cached is the number of decisions from the equivalence cache.
	Cached int
	// Preemptions counts how preemptions ended.
	Preemptions Preemptions
	plugins     map[string]*share
	// features is parallel to the list of that name.
	features []use
	churn    churn
}

// share is the part of one plugin in the decisions.
type share struct {
	// nodes were refused, in this many attempts; lost are the attempts of them that found no
	// node.
	nodes, attempts, lost int
	// scored are the attempts in which it scored, changed those of them with another chosen
	// node without its score.
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

// add counts the last attempt of both schedulers.
func (c *Coverage) add(outcome *run.Outcome, berth *run.Berth, scheduler *upstream.Scheduler) {
	if c == nil {
		return
	}
	c.Attempts++
	if outcome.Node == "" {
		c.Refused++
	}
	c.Preemptions.add(outcome, scheduler.Tied())
	c.addFeatures(newSituation(outcome.Pod, berth, scheduler), c.addPlugins(outcome, scheduler))
}

// addOp counts an op that is not an attempt.
func (c *Coverage) addOp(op log.Op) {
	if c != nil {
		c.churn.add(op)
	}
}

// addPlugins counts what each plugin did in the last attempt, and returns those that refused a
// node or changed the chosen one.
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

// addCached adds the statistics of a history's equivalence cache.
func (c *Coverage) addCached(stats cycle.Stats) {
	if c != nil {
		c.Cached += int(stats.Cached)
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
	c.Cached += other.Cached
	c.Preemptions.sum(other.Preemptions)
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

// String has a table of plugins and one of features.
func (c *Coverage) String() string {
	var text strings.Builder
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, c.Attempts)) }
	fmt.Fprintf(&text, "%d decisions, %d of them refusals (%.1f %%), %d from the equivalence cache (%.1f %%)\n",
		c.Attempts, c.Refused, share(c.Refused), c.Cached, share(c.Cached))
	if c.Preemptions.Tried > 0 {
		fmt.Fprintf(&text, "%v\n", c.Preemptions)
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "plugin\tnodes refused\tin attempts\tof them without a node\tattempts scored\tchoices changed\t")
	for _, name := range plugins.InTree().Names() {
		s := c.of(name)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, s.nodes, s.attempts, s.lost, s.scored, s.changed)
	}
	table.Flush()
	c.writeFeatures(&text)
	fmt.Fprintf(&text, "other ops: %v", c.churn)
	return text.String()
}

// MissingPlugins names the plugins that filtered or changed the chosen node in less than least
// attempts. Plugins that kube-scheduler does not have any more are left out, and so is
// DynamicResources, since these histories have no claims.
func (c *Coverage) MissingPlugins(least int) []string {
	var missing []string
	for name := range plugins.InTree() {
		if upstreamconfig.IsUpstreamPlugin(name) && name != dynamicresources.Name {
			missing = append(missing, c.missing(name, least)...)
		}
	}
	slices.Sort(missing)
	return missing
}

// MissingDevices is MissingPlugins for DynamicResources, in histories with devices, and names
// the kinds of its objects that changed less than least times.
func (c *Coverage) MissingDevices(least int) []string {
	return append(c.missing(dynamicresources.Name, least), c.churn.missing(least, "ResourceClaim", "DeviceTaintRule")...)
}

func (c *Coverage) missing(plugin string, least int) (missing []string) {
	s, registration := c.of(plugin), plugins.InTree()[plugin]
	if registration.Implements(framework.Filter) && s.attempts < least {
		missing = append(missing, fmt.Sprintf("%s refused nodes in %d attempts, want %d", plugin, s.attempts, least))
	}
	if registration.Implements(framework.Score) && s.changed < least {
		missing = append(missing, fmt.Sprintf("%s changed the chosen node of %d attempts, want %d", plugin, s.changed, least))
	}
	return missing
}

// churn counts the ops between attempts by what was done to which kind: "apply Node".
type churn map[string]int

// requiredKinds are the kinds that must be added, changed and deleted.
var requiredKinds = []string{"Node", "Pod", "Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet"}

func (c churn) add(op log.Op) {
	if op.Kind != log.Schedule {
		c[string(op.Kind)+" "+reflect.TypeOf(op.Object).Elem().Name()]++
	}
}

func (c churn) sum(other churn) {
	for what, times := range other {
		c[what] += times
	}
}

func (c churn) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, c[what]))
	}
	return strings.Join(parts, ", ")
}

// MissingChanges names the ops that happened less than least times.
func (c *Coverage) MissingChanges(least int) []string {
	return c.churn.missing(least, requiredKinds...)
}

func (c churn) missing(least int, kinds ...string) []string {
	var missing []string
	for _, kind := range kinds {
		for _, done := range []log.Kind{log.Apply, log.Delete} {
			if what := string(done) + " " + kind; c[what] < least {
				missing = append(missing, fmt.Sprintf("%s happened %d times, want %d", what, c[what], least))
			}
		}
	}
	return missing
}

// Preemptions counts how the preemptions of attempts without a feasible node ended.
type Preemptions struct {
	// Tried is the number of preemptions. NoVictims found none that would
	// help, NotEligible were not eligible, Failed ended with an error.
	Tried, NoVictims, NotEligible, Failed int
	// Found had a candidate, Several had more, Tied had some that are equal in all criteria;
	// Nominated preemptors had been nominated before.
	Found, Several, Tied, Nominated int
	// Violating had a candidate that violates a PodDisruptionBudget, ChoseViolating chose one;
	// SeveralVictims had more than one victim.
	Violating, ChoseViolating, SeveralVictims int
}

func (r *Preemptions) add(o *run.Outcome, tied int) {
	text := message(o)
	if !strings.Contains(text, "preemption: ") {
		return
	}
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	r.Tried++
	noVictims, notEligible := strings.Contains(text, "preemption: 0/"), strings.Contains(text, "preemption: not eligible")
	count(&r.NoVictims, noVictims)
	count(&r.NotEligible, notEligible)
	count(&r.Failed, len(o.Candidates) == 0 && !noVictims && !notEligible)
	if len(o.Candidates) == 0 {
		return
	}
	violating := false
	for _, candidate := range o.Candidates {
		violating = violating || candidate.Violations > 0
	}
	r.Found++
	count(&r.Several, len(o.Candidates) > 1)
	count(&r.Tied, tied > 1)
	count(&r.Nominated, o.Pod.Status.NominatedNodeName != "")
	count(&r.Violating, violating)
	count(&r.ChoseViolating, o.Candidates[o.Nominated].Violations > 0)
	count(&r.SeveralVictims, len(o.Victims) > 1)
}

func (r *Preemptions) sum(other Preemptions) {
	mine, theirs := r.fields(), other.fields()
	for i := range mine {
		*mine[i].n += *theirs[i].n
	}
}

// field is one of the counts and its name.
type field struct {
	name string
	n    *int
}

func (r *Preemptions) fields() []field {
	return []field{
		{"preemptions", &r.Tried}, {"without victims that would help", &r.NoVictims}, {"not eligible", &r.NotEligible}, {"failed", &r.Failed},
		{"with a candidate", &r.Found}, {"with several", &r.Several}, {"tied", &r.Tied}, {"nominated before", &r.Nominated},
		{"with a candidate that violates a budget", &r.Violating}, {"that chose one", &r.ChoseViolating}, {"of several victims", &r.SeveralVictims},
	}
}

// String is one line.
func (r Preemptions) String() string {
	var texts []string
	for _, f := range r.fields() {
		texts = append(texts, fmt.Sprintf("%d %s", *f.n, f.name))
	}
	return strings.Join(texts, ", ")
}

// Short names what happened less than least times.
func (r Preemptions) Short(least int) []string {
	var missing []string
	for _, f := range r.fields() {
		if f.name != "failed" && *f.n < least {
			missing = append(missing, fmt.Sprintf("%d times: %s, want %d", *f.n, f.name, least))
		}
	}
	return missing
}
