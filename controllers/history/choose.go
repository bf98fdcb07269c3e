package history

import (
	"slices"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
)

// Situation is all that the choice of what is to run depends on.
type ChooseInput struct {
	Profile *v1alpha1.SchedulingProfile
	// Want is what the spec resolves to; nil when it was rejected.
	Desired *compile.Blueprint
	// Running is the hash that runs in this process; empty for none.
	RunningHash string
	// History are the profile's revisions, in any order.
	Revisions []Revision
	// Proved says that Want's hash was proved, under whatever name.
	Proved bool
	// Durable says that the history outlives the process.
	Durable bool
	// Follows says that another process leads.
	Follower bool
	// Compile resolves a revision under this version; nil when it does not.
	Compile func(*Revision) *compile.Blueprint
	// BuiltIn says whether all plugins of a Blueprint are built in.
	BuiltIn func(*compile.Blueprint) bool
}

// Candidate is a Blueprint that may be run. Revision is the entry of the
// history that it was resolved from; nil for the spec itself.
type Candidate struct {
	*compile.Blueprint
	Revision *Revision
	// Known says that it ran before, and so needs no trial: what served its
	// pods until the process ended must not be kept from them by one of them.
	SkipTrial bool
	// Last is set where the revision is blamed: it is built when no other candidate
	// could be, when all other profiles were built, and not before Last.NotBefore.
	BlamedFor *Evidence
}

// Verdict is what becomes of the spec.
type Verdict string

const (
	// Run: the spec is to run.
	Run Verdict = "Run"
	// Rejected: the spec was not understood.
	Rejected Verdict = "Rejected"
	// Crashed: the spec's revision is blamed for crashes.
	Crashed Verdict = "Crashed"
	// Awaiting: the spec has not been approved.
	AwaitingApproval Verdict = "Awaiting"
	// Unproven: the spec is the leader's to try.
	Unproven Verdict = "Unproven"
)

// Choose says what becomes of the spec, and what to run, best first: the next
// is for when one cannot be built. It is empty when what runs is to stay.
//
// Revisions are run only in a process that runs nothing yet: until then what runs
// stays. The one that served last goes first; one that ran for less than a minute
// goes after those that ran for longer; one that is blamed goes last. A follower
// runs nothing that has not been proved, so that a plugin that takes its process
// down takes one only.
func Choose(s ChooseInput) (Verdict, []Candidate) {
	verdict := s.verdict()
	if verdict == Unproven {
		return verdict, nil
	}
	var candidates []Candidate
	if verdict == Run {
		candidates = append(candidates, Candidate{Blueprint: s.Desired, SkipTrial: s.statusReports(s.Desired) || s.RunningHash == "" && s.provedByProfile()})
	}
	if s.RunningHash != "" {
		return verdict, candidates
	}
	candidates = append(candidates, s.fallbacks()...)
	if !s.Follower {
		candidates = append(candidates, s.blamedCandidates(verdict)...)
	}
	return verdict, candidates
}

func (s ChooseInput) verdict() Verdict {
	if s.Desired == nil {
		return Rejected
	}
	if s.Desired.Hash == s.RunningHash {
		return Run
	}
	switch {
	case s.Blame() != NoBlame:
		return Crashed
	case s.Profile.Spec.Activation == v1alpha1.ActivationManual && !s.approved():
		return AwaitingApproval
	case s.Follower && s.Durable && s.RunningHash == "" && !s.proved():
		return Unproven
	}
	return Run
}

// Blame says upon what evidence the spec is blamed.
func (s ChooseInput) Blame() Blame {
	if s.Desired == nil || s.Proved {
		return NoBlame
	}
	return s.blame(s.Desired, s.revision(compile.RevisionName(s.Desired.Name, s.Desired.Hash)))
}

// blame says upon what evidence a revision is blamed that resolves to b.
func (s ChooseInput) blame(b *compile.Blueprint, r *Revision) Blame {
	if r == nil || !r.Probation {
		return NoBlame
	}
	limit, builtIn := maxBuildDeathsOutOfTree, s.BuiltIn(b)
	if builtIn {
		limit = maxBuildDeathsBuiltIn
	}
	switch {
	case fault.AnyDeathBlames && r.Evidence.Deaths >= 2:
		return LeaderDeaths
	case r.Evidence.CrashStack != "":
		return CrashStack
	case r.Evidence.BuildDeaths >= limit && !fault.BuildDeathsIgnored:
		return BuildDeaths
	case !builtIn && r.Evidence.Deaths >= maxLeaderDeaths && s.replaceable(b.Hash):
		return LeaderDeaths
	}
	return NoBlame
}

// replaceable says whether a proved revision can run instead of the one with the
// given hash.
func (s ChooseInput) replaceable(hash string) bool {
	return slices.ContainsFunc(s.Revisions, func(r Revision) bool {
		if r.Probation || r.UID != s.Profile.UID {
			return false
		}
		b := s.Compile(&r)
		return b != nil && b.Hash != hash
	})
}

// approved says whether the spec's hash was approved, by its annotation or by
// what ran last: a process that starts brings that back, and under another
// version the same spec has another hash.
func (s ChooseInput) approved() bool {
	if s.Profile.Annotations[v1alpha1.AnnotationApprovedHash] == s.Desired.Hash {
		return true
	}
	if s.RunningHash != "" {
		return false
	}
	var last *Revision
	for i := range s.Revisions {
		r := &s.Revisions[i]
		if r.TrialOnly && !fault.TrialApproves {
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
	return b != nil && b.Hash == s.Desired.Hash
}

// reported says whether the profile's status names b as what runs: in another
// process, or in one before this, be it under another version, where it has
// another hash.
func (s ChooseInput) statusReports(b *compile.Blueprint) bool {
	runs := s.Profile.Status.Programmed
	if runs == nil || runs.Hash == b.Hash {
		return runs != nil
	}
	return s.RunningHash == "" && runs.Generation == b.Generation && slices.EqualFunc(runs.Configs, b.Configs,
		func(was v1alpha1.ObjectGeneration, is compile.ConfigGeneration) bool {
			return was.Name == is.Name && was.Generation == is.Generation
		})
}

// proved says whether the spec was proved, be it under another version, where it
// has another hash.
func (s ChooseInput) proved() bool {
	return s.Proved || s.provedByProfile()
}

// provedHere says whether it was proved by this profile. What another one proved has
// not met this one's pods: it takes no blame, and is tried on them all the same.
func (s ChooseInput) provedByProfile() bool {
	return slices.ContainsFunc(s.Revisions, func(r Revision) bool {
		if r.Probation {
			return false
		}
		if r.Name == compile.RevisionName(s.Desired.Name, s.Desired.Hash) {
			return true
		}
		b := s.Compile(&r)
		return b != nil && b.Hash == s.Desired.Hash
	})
}

func (s ChooseInput) revision(name string) *Revision {
	at := slices.IndexFunc(s.Revisions, func(r Revision) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &s.Revisions[at]
}

// resolved are the revisions of this very profile that resolve under this
// version, the best first. One of another profile of that name was never asked
// for.
func (s ChooseInput) compilableRevisions() []Candidate {
	var known []*Revision
	for i := range s.Revisions {
		r := &s.Revisions[i]
		if r.UID == s.Profile.UID && !r.TrialOnly && !(s.Follower && s.Durable && r.Probation) {
			known = append(known, r)
		}
	}
	slices.SortStableFunc(known, compareReplacements)
	var candidates []Candidate
	for _, r := range known {
		if b := s.Compile(r); b != nil {
			candidates = append(candidates, Candidate{Blueprint: b, Revision: r, SkipTrial: !r.Probation || s.statusReports(b)})
		}
	}
	return candidates
}

// fallbacks are the revisions that may run instead of the spec.
func (s ChooseInput) fallbacks() []Candidate {
	return slices.DeleteFunc(s.compilableRevisions(), func(c Candidate) bool { return s.isBlamed(c) })
}

// blamed are the spec, where it is blamed, and the revisions that are.
func (s ChooseInput) blamedCandidates(verdict Verdict) []Candidate {
	var candidates []Candidate
	if verdict == Crashed && (s.Profile.Spec.Activation != v1alpha1.ActivationManual || s.approved()) {
		own := s.revision(compile.RevisionName(s.Desired.Name, s.Desired.Hash))
		candidates = append(candidates, Candidate{Blueprint: s.Desired, BlamedFor: &own.Evidence})
	}
	for _, c := range s.compilableRevisions() {
		if !s.isBlamed(c) || verdict == Crashed && c.Hash == s.Desired.Hash {
			continue
		}
		c.BlamedFor = &c.Revision.Evidence
		candidates = append(candidates, c)
	}
	return candidates
}

// isBlamed says whether a candidate, or what it resolves to under this version, is
// blamed.
func (s ChooseInput) isBlamed(c Candidate) bool {
	if s.blame(c.Blueprint, c.Revision) != NoBlame {
		return true
	}
	return s.blame(c.Blueprint, s.revision(compile.RevisionName(s.Profile.Name, c.Hash))) != NoBlame
}
