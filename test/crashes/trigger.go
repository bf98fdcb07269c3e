package crashes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/test/support/faultproxy"
)

// Moment is when a process is killed, relative to one of its writes.
type Moment string

// The moments.
const (
	// Before: the API server does not get the write.
	Before Moment = "before"
	// Late: the API server gets the write when another process leads.
	Late Moment = "late"
	// Unanswered: the write took effect, and its response was not sent.
	Unanswered Moment = "unanswered"
	// After: the response was sent.
	After Moment = "after"
	// Held: a plugin holds the process at an extension point.
	Held Moment = "held"
)

// moments are those of a write.
var moments = []Moment{Before, Late, Unanswered, After}

// Cell is one crash.
type Cell struct {
	Scenario string `json:"scenario"`
	// Write names a kind of writes, or a step; Nth is which of them, from 1.
	Write  string `json:"write"`
	Nth    int    `json:"nth"`
	Moment Moment `json:"moment"`
	// Standby says that another process is ready to lead. Otherwise one is started after the
	// crash.
	Standby bool `json:"standby"`
}

func (c Cell) String() string {
	next := "restarted"
	if c.Standby {
		next = "standby"
	}
	return fmt.Sprintf("%s: %s %s #%d, %s", c.Scenario, c.Moment, c.Write, c.Nth, next)
}

// trigger sees the writes of one scenario, and kills a process at one of them.
type trigger struct {
	scenario *scenario
	// id is in the names of all objects of the scenario.
	id   string
	rows []Row
	// target is nil in a reference run.
	target *Cell
	// fired is closed when the process was killed; late lets a late write arrive.
	fired, late chan struct{}
	release     sync.Once

	mu     sync.Mutex
	killed *replica
	counts map[string]int
	labels []string // in the order of the first write of each
	// refused is how many writes were refused.
	refused int
}

func newTrigger(s *scenario, id string, target *Cell) *trigger {
	return &trigger{
		scenario: s, id: id, rows: rowsOf(s.name), target: target,
		fired: make(chan struct{}), late: make(chan struct{}), counts: map[string]int{},
	}
}

// label names a write; "" for one that is none of the scenario's.
func (t *trigger) label(is request) string {
	concerns := func(text string) bool { return is.names(text) }
	if is.isReview() || !concerns(t.id) && !slices.ContainsFunc(t.scenario.also, concerns) {
		return ""
	}
	for _, row := range t.rows {
		if row.matches(is) {
			return row.label()
		}
	}
	return is.method + " " + is.resource
}

// decide returns the fault of a write of a process.
func (t *trigger) decide(from *replica, is request) *faultproxy.Fault {
	label := t.label(is)
	if label == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[label]++; t.counts[label] == 1 {
		t.labels = append(t.labels, label)
	}
	if t.target != nil && t.killed == nil && label == t.target.Write && t.counts[label] == t.target.Nth {
		t.killed = from
		return t.kill(from)
	}
	if refuses := t.scenario.refuses; refuses != nil && t.refused < t.scenario.refusal.times && refuses(is) {
		t.refused++
		return &faultproxy.Fault{Answer: faultproxy.Status(t.scenario.refusal.code, t.scenario.refusal.reason, 0)}
	}
	return nil
}

// kill returns the fault that kills a process at the moment of the cell.
func (t *trigger) kill(process *replica) *faultproxy.Fault {
	kill := func() {
		process.expected.Store(true)
		process.manager.Load().Kill()
		close(t.fired)
	}
	switch t.target.Moment {
	case Late:
		kill()
		return &faultproxy.Fault{Late: t.late}
	case Unanswered:
		return faultproxy.CutAround(true, kill)
	case After:
		return &faultproxy.Fault{Commits: true, Answered: kill}
	}
	return faultproxy.CutAround(false, kill)
}

// letGo lets a late write arrive.
func (t *trigger) letGo() { t.release.Do(func() { close(t.late) }) }

// victim returns the process that was killed; nil while none was.
func (t *trigger) victim() *replica {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.killed
}

// mostVictims returns how many pods the manager may evict.
func (t *trigger) mostVictims() int {
	if t.victim() == nil {
		return t.scenario.victims
	}
	return t.scenario.victims + t.scenario.moreVictims
}

// events returns how many writes of Events there were.
func (t *trigger) events() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts["POST events"] + t.counts["PATCH events"]
}

// total returns how many writes there were, without those of the Lease, which never end.
func (t *trigger) total() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for label, count := range t.counts {
		if !strings.HasSuffix(label, " leases") {
			n += count
		}
	}
	return n
}

// unseen returns the rows of which no write was seen.
func (t *trigger) unseen() (rows []Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range t.rows {
		if t.counts[row.label()] == 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// writes returns the writes so far: their labels in order, and how many there were of each.
func (t *trigger) writes() (labels []string, counts map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.labels), maps.Clone(t.counts)
}
