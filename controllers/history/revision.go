package history

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// Revision is one spec of a profile that was built or tried: an entry of the
// profile's history.
type Revision struct {
	// Name is the entry's: the profile's, a dash, and Hash.
	Name string
	// Hash is that of the Blueprint which the spec resolved to.
	Hash string
	// Number orders a profile's revisions; the highest was built last.
	Number int64
	// UID is that of the profile it was a revision of.
	UID types.UID
	// Profile is the whole spec, with the generation that it was.
	Profile *v1alpha1.SchedulingProfile
	// Probation says that neither this revision nor another one with its hash, of
	// any profile, ran for ten minutes in one process.
	Probation bool
	// Served says that it ran for a minute in one process.
	Served bool
	// OnTrial says that it was built for a trial only, and never ran.
	TrialOnly bool
	// Configs names by plugin the PluginConfigs whose arguments are inline in Profile.
	Configs map[string]string
	// Evidence is what speaks against a revision on probation.
	Evidence Evidence
}

// Evidence is what the history holds against a revision.
type Evidence struct {
	// CrashStack says which plugin was on the stack of a process that crashed;
	// empty: none was.
	CrashStack string
	// BuildDeaths is how many processes in a row ended while they built it.
	BuildDeaths int
	// Deaths is how many leading processes ended without being asked to while they
	// ran it, within ten minutes of each other.
	Deaths int
	// NotBefore is when it may be built again although it is blamed.
	NotBefore time.Time
}

// How many ends of processes are evidence.
const (
	// buildDeathsForeign and buildDeathsBuiltIn are for ends during the build: of a
	// revision with a plugin that is not built in, and of any other.
	maxBuildDeathsOutOfTree, maxBuildDeathsBuiltIn = 2, 3
	// leaderDeaths is for ends of leading processes, by whatever cause. It counts
	// against revisions with a plugin that is not built in only.
	maxLeaderDeaths = 3
)

// Blame says upon what evidence a revision is not built before others.
type Blame string

const (
	// NoBlame: nothing is held against the revision.
	NoBlame Blame = ""
	// CrashStack: a plugin of the revision was on the stack of a process that crashed.
	CrashStack Blame = "CrashStack"
	// BuildDeaths: processes ended while they built the revision.
	BuildDeaths Blame = "BuildDeaths"
	// LeaderDeaths: leading processes ended while they ran the revision.
	LeaderDeaths Blame = "LeaderDeaths"
)

// byService orders revisions as they replace what crashed: one that served for a
// minute goes before one that did not, and the newer before the older.
func compareReplacements(a, b *Revision) int {
	if served, other := a.servedLongEnough(), b.servedLongEnough(); served != other && !fault.SecondsReplaceMinutes {
		if served {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.Number, a.Number)
}

// served says whether r ran for long enough to go before others.
func (r *Revision) servedLongEnough() bool { return !r.Probation || r.Served }
