package compile

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// CrashesOnProbation is how often a process may die on a revision that has
// not proved itself before no other runs it.
const CrashesOnProbation = 2

// Revision is what is remembered of one spec that ran: an entry of a
// profile's history.
type Revision struct {
	// Name is the entry's: the profile's, a dash, and the hash that it had.
	Name string
	// Number orders a profile's revisions; the highest ran last.
	Number int64
	// UID is that of the profile it was a revision of.
	UID types.UID
	// Profile is the whole spec, with the generation that it was.
	Profile *v1alpha1.SchedulingProfile
	// Probation says that it has not run long enough to be trusted.
	Probation bool
	// Crashes is how many processes died on it, as far as they were counted.
	Crashes int
	// Interrupted says that a process runs it, or died on it, that is not
	// this one: not counted yet.
	Interrupted bool
	// OnTrial says that it was built for a trial only, and never ran.
	OnTrial bool
}

// Crashed says whether r must not be run any more.
func (r *Revision) Crashed() bool {
	crashes := r.Crashes
	if r.Interrupted {
		crashes++
	}
	return r.Probation && crashes >= CrashesOnProbation
}

// RevisionName names the revision of a Blueprint.
func RevisionName(profile, hash string) string { return profile + "-" + hash }

// Situation is all that the choice of what is to run depends on.
type Situation struct {
	Profile *v1alpha1.SchedulingProfile
	// Want is what the spec resolves to; nil when it was rejected.
	Want *Blueprint
	// Running is the hash that runs in this process; empty for none.
	Running string
	// History are the profile's revisions, in any order.
	History []Revision
	// Durable says that the history outlives the process.
	Durable bool
	// Follows says that another process leads.
	Follows bool
	// Compile resolves a revision under this version; nil when it does not.
	Compile func(*Revision) *Blueprint
}

// Candidate is a Blueprint that may be run. Revision is the entry of the
// history that it was resolved from; nil for the spec itself.
type Candidate struct {
	*Blueprint
	Revision *Revision
	// Known says that it ran before, and so needs no trial: what served its
	// pods until the process ended must not be kept from them by one of them.
	Known bool
}

// Verdict is what becomes of the spec.
type Verdict string

const (
	// Run: the spec is to run.
	Run Verdict = "Run"
	// Rejected: the spec was not understood.
	Rejected Verdict = "Rejected"
	// Crashed: processes died on the spec.
	Crashed Verdict = "Crashed"
	// Awaiting: the spec has not been approved.
	Awaiting Verdict = "Awaiting"
	// Unproven: the spec is the leader's to try.
	Unproven Verdict = "Unproven"
)

// Choose says what becomes of the spec, and what to run, best first: the next
// is for when one cannot be built. It is empty when what runs is to stay.
//
// What ran before is run only in a process that runs nothing yet: until then
// the old runs on. The one that ran last goes first; but once a process died
// on the spec, those that proved themselves go before the others. A follower
// runs nothing that has not proved itself, so that a plugin that takes its
// process down takes one only.
func Choose(s Situation) (Verdict, []Candidate) {
	verdict := s.verdict()
	if verdict == Unproven {
		return verdict, nil
	}
	var candidates []Candidate
	if verdict == Run {
		candidates = append(candidates, Candidate{Blueprint: s.Want, Known: s.reported(s.Want) || s.Running == "" && s.proved()})
	}
	if s.Running == "" {
		candidates = append(candidates, s.fallbacks(verdict == Crashed)...)
	}
	return verdict, candidates
}

func (s Situation) verdict() Verdict {
	if s.Want == nil {
		return Rejected
	}
	if s.Want.Hash == s.Running {
		return Run
	}
	known := s.revision(RevisionName(s.Want.Name, s.Want.Hash))
	switch {
	case known != nil && known.Crashed():
		return Crashed
	case s.Profile.Spec.Activation == v1alpha1.ActivationManual && !s.approved():
		return Awaiting
	case s.Follows && s.Durable && s.Running == "" && !s.proved():
		return Unproven
	}
	return Run
}

// approved says whether the spec's hash was approved, by its annotation or by
// what ran last: a process that starts brings that back, and under another
// version the same spec has another hash.
func (s Situation) approved() bool {
	if s.Profile.Annotations[v1alpha1.AnnotationApprovedHash] == s.Want.Hash {
		return true
	}
	if s.Running != "" {
		return false
	}
	var last *Revision
	for i := range s.History {
		r := &s.History[i]
		if r.OnTrial && !fault.TrialApproves {
			continue
		}
		if r.UID == s.Profile.UID && (last == nil || r.Number > last.Number) {
			last = r
		}
	}
	if last == nil {
		return false
	}
	b := s.Compile(last)
	return b != nil && b.Hash == s.Want.Hash
}

// reported says whether the profile's status names b as what runs: in another
// process, or in one before this, be it under another version, where it has
// another hash.
func (s Situation) reported(b *Blueprint) bool {
	runs := s.Profile.Status.Programmed
	if runs == nil || runs.Hash == b.Hash {
		return runs != nil
	}
	return s.Running == "" && runs.Generation == b.Generation && slices.EqualFunc(runs.Configs, b.Configs,
		func(was v1alpha1.ObjectGeneration, is ConfigGeneration) bool {
			return was.Name == is.Name && was.Generation == is.Generation
		})
}

// proved says whether the spec proved itself, be it under another version,
// where it has another hash.
func (s Situation) proved() bool {
	return slices.ContainsFunc(s.History, func(r Revision) bool {
		if r.Probation {
			return false
		}
		if r.Name == RevisionName(s.Want.Name, s.Want.Hash) {
			return true
		}
		b := s.Compile(&r)
		return b != nil && b.Hash == s.Want.Hash
	})
}

func (s Situation) revision(name string) *Revision {
	at := slices.IndexFunc(s.History, func(r Revision) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &s.History[at]
}

// fallbacks are the revisions of this very profile that resolve under this
// version. One of another profile of that name was never asked for.
func (s Situation) fallbacks(provedFirst bool) []Candidate {
	var known []Revision
	for _, r := range s.History {
		if r.UID == s.Profile.UID && !r.OnTrial && !r.Crashed() && !(s.Follows && s.Durable && r.Probation) {
			known = append(known, r)
		}
	}
	slices.SortStableFunc(known, func(a, b Revision) int {
		if provedFirst && a.Probation != b.Probation {
			return rank(a) - rank(b)
		}
		return cmp.Compare(b.Number, a.Number)
	})
	var candidates []Candidate
	for i := range known {
		if b := s.Compile(&known[i]); b != nil {
			candidates = append(candidates, Candidate{Blueprint: b, Revision: &known[i], Known: !known[i].Probation || s.reported(b)})
		}
	}
	return candidates
}

// rank is 0 for what proved itself.
func rank(r Revision) int {
	if r.Probation {
		return 1
	}
	return 0
}
