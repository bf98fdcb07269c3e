package history

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Revision is one spec of a profile that was built: an entry of the profile's history.
type Revision struct {
	// Name is the name of the ControllerRevision: the profile's, a dash, and Hash.
	Name string
	// Hash is the hash of the Blueprint that the spec resolved to.
	Hash string
	// Number orders a profile's revisions; the highest is the newest.
	Number int64
	// UID is the UID of the profile that the revision belongs to.
	UID types.UID
	// Profile is the whole spec, with its generation.
	Profile *v1alpha1.SchedulingProfile
	// Probation says that neither this revision nor one with the same hash, of any
	// profile, ran for ten minutes in one process.
	Probation bool
	// Served says that the revision ran for a minute in one process.
	Served bool
	// TrialOnly says that it was built for a trial only, and never ran.
	TrialOnly bool
	// Configs names the PluginConfigs whose arguments are inline in Profile, by plugin.
	Configs map[string]string
	// Evidence is the evidence against a revision on probation.
	Evidence Evidence
}

// Evidence is what the history knows of crashes with a revision.
type Evidence struct {
	// CrashStack says which plugin was on the stack of a process that crashed; empty
	// when none was.
	CrashStack string
	// BuildDeaths is how many processes in a row died while they built the revision.
	BuildDeaths int
	// Deaths is how many leading processes died while they ran the revision, within ten
	// minutes of each other.
	Deaths int
	// NotBefore is when the revision may be built again although it is blamed.
	NotBefore time.Time
}

// How many deaths of processes are evidence.
const (
	// maxBuildDeathsOutOfTree and maxBuildDeathsBuiltIn are the numbers of deaths
	// during the build: of a revision with an out-of-tree plugin, and of any other.
	maxBuildDeathsOutOfTree, maxBuildDeathsBuiltIn = 2, 3
	// maxLeaderDeaths is the number of deaths of leading processes, by whatever cause.
	// Such deaths count only against revisions with an out-of-tree plugin.
	maxLeaderDeaths = 3
)

// Blame is the kind of evidence for which a revision is blamed: it is not built before
// others.
type Blame string

const (
	// NoBlame: there is no evidence against the revision.
	NoBlame Blame = ""
	// CrashStack: a plugin of the revision was on the stack of a process that crashed.
	CrashStack Blame = "CrashStack"
	// BuildDeaths: processes died while they built the revision.
	BuildDeaths Blame = "BuildDeaths"
	// LeaderDeaths: leading processes died while they ran the revision.
	LeaderDeaths Blame = "LeaderDeaths"
)

// compareReplacements orders revisions as replacements for one that crashed: one that
// served for a minute comes before one that did not, then the newer before the older.
func compareReplacements(a, b *Revision) int {
	if served, other := a.servedLongEnough(), b.servedLongEnough(); served != other {
		if served {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.Number, a.Number)
}

// servedLongEnough reports whether r ran long enough to be preferred as a replacement.
func (r *Revision) servedLongEnough() bool { return !r.Probation || r.Served }
