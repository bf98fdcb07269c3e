package history

import (
	"slices"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// ChooseInput is all that Choose depends on.
type ChooseInput struct {
	Profile *v1alpha1.SchedulingProfile
	// Desired is what the spec resolves to; nil when it was rejected.
	Desired *compile.Blueprint
	// RunningHash is the hash that runs in this process; empty for none.
	RunningHash string
	// Revisions are the profile's revisions, in any order.
	Revisions []Revision
	// Proved says that the hash of Desired was proved, by whichever profile.
	Proved bool
	// Durable says that the history outlives the process.
	Durable bool
	// Follower says that another process leads.
	Follower bool
	// Compile compiles a revision under this version; it returns nil when the revision
	// is rejected.
	Compile func(*Revision) *compile.Blueprint
	// BuiltIn reports whether all plugins of a Blueprint are built in.
	BuiltIn func(*compile.Blueprint) bool
}

// Candidate is a Blueprint that may be applied. Revision is the entry of the history
// that it was compiled from; nil for the spec itself.
type Candidate struct {
	*compile.Blueprint
	Revision *Revision
	// SkipTrial says that the Blueprint ran before, so that it needs no trial: pods
	// that it served until the process ended must not be kept waiting by a trial that
	// one of them fails.
	SkipTrial bool
	// BlamedFor is set when the revision is blamed for crashes. Such a candidate is
	// applied when no other candidate could be, after all other profiles, and not
	// before BlamedFor.NotBefore.
	BlamedFor *Evidence
}

// Verdict says whether the spec is to run, and why not.
type Verdict string

const (
	// Run: the spec is to run.
	Run Verdict = "Run"
	// Rejected: the spec is invalid.
	Rejected Verdict = "Rejected"
	// Crashed: the spec's revision is blamed for crashes.
	Crashed Verdict = "Crashed"
	// AwaitingApproval: the spec's hash is not approved.
	AwaitingApproval Verdict = "Awaiting"
	// Unproven: this process is a follower, and the leader has to run the spec first.
	Unproven Verdict = "Unproven"
)

// Choose returns the verdict on the spec and the candidates to apply, best first: the
// next one is for when one cannot be built. No candidates means that what runs stays.
//
// Choose returns revisions only when nothing runs in this process yet. The revision
// that served last comes first; revisions that ran for less than a minute come after
// those that ran longer; blamed ones come last. A follower gets only what was proved,
// so that a plugin that crashes its process crashes one only.
func Choose(in ChooseInput) (Verdict, []Candidate) {
	verdict := in.verdict()
	if verdict == Unproven {
		return verdict, nil
	}
	var candidates []Candidate
	if verdict == Run {
		candidates = append(candidates, Candidate{Blueprint: in.Desired, SkipTrial: in.statusReports(in.Desired) || in.RunningHash == "" && in.provedByProfile()})
	}
	if in.RunningHash != "" {
		return verdict, candidates
	}
	candidates = append(candidates, in.fallbacks()...)
	if !in.Follower {
		candidates = append(candidates, in.blamedCandidates(verdict)...)
	}
	return verdict, candidates
}

func (in ChooseInput) verdict() Verdict {
	if in.Desired == nil {
		return Rejected
	}
	if in.Desired.Hash == in.RunningHash {
		return Run
	}
	switch {
	case in.Blame() != NoBlame:
		return Crashed
	case in.Profile.Spec.Activation == v1alpha1.ActivationManual && !in.approved():
		return AwaitingApproval
	case in.Follower && in.Durable && in.RunningHash == "" && !in.proved():
		return Unproven
	}
	return Run
}

// Blame returns the kind of evidence against the spec.
func (in ChooseInput) Blame() Blame {
	if in.Desired == nil || in.Proved {
		return NoBlame
	}
	return in.blame(in.Desired, in.revision(compile.RevisionName(in.Desired.Name, in.Desired.Hash)))
}

// blame returns the kind of evidence against a revision that resolves to b.
func (in ChooseInput) blame(b *compile.Blueprint, r *Revision) Blame {
	if r == nil || !r.Probation {
		return NoBlame
	}
	limit, builtIn := maxBuildDeathsOutOfTree, in.BuiltIn(b)
	if builtIn {
		limit = maxBuildDeathsBuiltIn
	}
	switch {
	case r.Evidence.CrashStack != "":
		return CrashStack
	case r.Evidence.BuildDeaths >= limit:
		return BuildDeaths
	case !builtIn && r.Evidence.Deaths >= maxLeaderDeaths && in.replaceable(b.Hash):
		return LeaderDeaths
	}
	return NoBlame
}

// replaceable reports whether a proved revision of the profile can run in place of the
// one with the given hash.
func (in ChooseInput) replaceable(hash string) bool {
	return slices.ContainsFunc(in.Revisions, func(r Revision) bool {
		if r.Probation || r.UID != in.Profile.UID {
			return false
		}
		b := in.Compile(&r)
		return b != nil && b.Hash != hash
	})
}

// approved reports whether the spec's hash is approved: by the annotation, or because
// the spec resolves to what the newest revision resolves to. A process that starts runs
// that revision again, and under another version of Berth the same spec has another
// hash.
func (in ChooseInput) approved() bool {
	if in.Profile.Annotations[v1alpha1.AnnotationApprovedHash] == in.Desired.Hash {
		return true
	}
	if in.RunningHash != "" {
		return false
	}
	var last *Revision
	for i := range in.Revisions {
		r := &in.Revisions[i]
		if r.TrialOnly {
			continue
		}
		if r.UID == in.Profile.UID && (last == nil || r.Number > last.Number) {
			last = r
		}
	}
	if last == nil {
		return false
	}
	b := in.Compile(last)
	return b != nil && b.Hash == in.Desired.Hash
}

// statusReports reports whether the profile's status names b as what runs, in another
// or an earlier process. The hash may differ under another version of Berth; the
// generations then decide, and the UIDs where the status has them.
func (in ChooseInput) statusReports(b *compile.Blueprint) bool {
	programmed := in.Profile.Status.Programmed
	if programmed == nil || programmed.Hash == b.Hash {
		return programmed != nil
	}
	return in.RunningHash == "" && programmed.Generation == b.Generation && slices.EqualFunc(programmed.Configs, b.Configs,
		func(reported v1alpha1.ObjectGeneration, compiled compile.ConfigGeneration) bool {
			return reported.Name == compiled.Name && reported.Generation == compiled.Generation && reported.SameObject(compiled.UID)
		})
}

// proved reports whether the spec was proved, also under another version of Berth,
// where it has another hash.
func (in ChooseInput) proved() bool {
	return in.Proved || in.provedByProfile()
}

// provedByProfile reports whether this profile proved the spec. A spec that another
// profile proved is not blamed for crashes, and still gets a trial, since it has not
// run with this profile's pods.
func (in ChooseInput) provedByProfile() bool {
	return slices.ContainsFunc(in.Revisions, func(r Revision) bool {
		if r.Probation {
			return false
		}
		if r.Name == compile.RevisionName(in.Desired.Name, in.Desired.Hash) {
			return true
		}
		b := in.Compile(&r)
		return b != nil && b.Hash == in.Desired.Hash
	})
}

func (in ChooseInput) revision(name string) *Revision {
	i := slices.IndexFunc(in.Revisions, func(r Revision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &in.Revisions[i]
}

// compilableRevisions returns the revisions of the profile that this version compiles,
// best first. Revisions of an earlier profile of the same name are left out, since the
// user deleted it.
func (in ChooseInput) compilableRevisions() []Candidate {
	var revisions []*Revision
	for i := range in.Revisions {
		r := &in.Revisions[i]
		if r.UID == in.Profile.UID && !r.TrialOnly && !(in.Follower && in.Durable && r.Probation) {
			revisions = append(revisions, r)
		}
	}
	slices.SortStableFunc(revisions, compareReplacements)
	var candidates []Candidate
	for _, r := range revisions {
		if b := in.Compile(r); b != nil {
			candidates = append(candidates, Candidate{Blueprint: b, Revision: r, SkipTrial: !r.Probation || in.statusReports(b)})
		}
	}
	return candidates
}

// fallbacks returns the revisions that may run in place of the spec.
func (in ChooseInput) fallbacks() []Candidate {
	return slices.DeleteFunc(in.compilableRevisions(), func(c Candidate) bool { return in.isBlamed(c) })
}

// blamedCandidates returns the spec, if it is blamed, and the blamed revisions.
func (in ChooseInput) blamedCandidates(verdict Verdict) []Candidate {
	var candidates []Candidate
	if verdict == Crashed && (in.Profile.Spec.Activation != v1alpha1.ActivationManual || in.approved()) {
		own := in.revision(compile.RevisionName(in.Desired.Name, in.Desired.Hash))
		candidates = append(candidates, Candidate{Blueprint: in.Desired, BlamedFor: &own.Evidence})
	}
	for _, c := range in.compilableRevisions() {
		if !in.isBlamed(c) || verdict == Crashed && c.Hash == in.Desired.Hash {
			continue
		}
		c.BlamedFor = &c.Revision.Evidence
		candidates = append(candidates, c)
	}
	return candidates
}

// isBlamed reports whether a candidate's revision is blamed, or the revision with the
// hash that it has under this version.
func (in ChooseInput) isBlamed(c Candidate) bool {
	if in.blame(c.Blueprint, c.Revision) != NoBlame {
		return true
	}
	return in.blame(c.Blueprint, in.revision(compile.RevisionName(in.Profile.Name, c.Hash))) != NoBlame
}
