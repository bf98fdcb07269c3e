package compare

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/test/replay/run"
)

// Room counts how attempts ended that fitted nowhere and tried to make room.
type Room struct {
	// Tried is how many did. Hopeless found nobody whose leaving would help,
	// Barred might not preempt, Failed did not get that far.
	Tried, Hopeless, Barred, Failed int
	// Found had a candidate, Several had more, Tied had some that no criterion
	// parted; Promised had room promised before.
	Found, Several, Tied, Promised int
	// Violating had a candidate that violates a budget, Violated had to choose
	// one; Many had more than one victim to tell.
	Violating, Violated, Many int
}

func (r *Room) add(o *run.Outcome, tied int) {
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
	hopeless, barred := strings.Contains(text, "preemption: 0/"), strings.Contains(text, "preemption: not eligible")
	count(&r.Hopeless, hopeless)
	count(&r.Barred, barred)
	count(&r.Failed, len(o.Candidates) == 0 && !hopeless && !barred)
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
	count(&r.Promised, o.Pod.Status.NominatedNodeName != "")
	count(&r.Violating, violating)
	count(&r.Violated, o.Candidates[o.Nominated].Violations > 0)
	count(&r.Many, len(o.Victims) > 1)
}

func (r *Room) sum(other Room) {
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

func (r *Room) fields() []field {
	return []field{
		{"tried to make room", &r.Tried}, {"in vain", &r.Hopeless}, {"barred", &r.Barred}, {"failed", &r.Failed},
		{"with a candidate", &r.Found}, {"with several", &r.Several}, {"tied", &r.Tied}, {"promised room before", &r.Promised},
		{"with a candidate that violates a budget", &r.Violating}, {"that had to take one", &r.Violated}, {"of several victims", &r.Many},
	}
}

// String is one line.
func (r Room) String() string {
	var texts []string
	for _, f := range r.fields() {
		texts = append(texts, fmt.Sprintf("%d %s", *f.n, f.name))
	}
	return strings.Join(texts, ", ")
}

// Short names what happened less often than least times.
func (r Room) Short(least int) []string {
	var short []string
	for _, f := range r.fields() {
		if f.name != "failed" && *f.n < least {
			short = append(short, fmt.Sprintf("%d preemptions %s, want %d", *f.n, f.name, least))
		}
	}
	return short
}
