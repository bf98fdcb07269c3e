package v1alpha1

// AnnotationDecision is the annotation that every Binding carries and the API
// server merges into the pod: why the pod went where it went, in JSON. The bind
// overwrites what the pod's author wrote under this name, but whoever may patch
// the pod may change it later: it is information, not evidence.
const AnnotationDecision = "berth.dev/decision"

// AnnotationApprovedHash is the annotation on a SchedulingProfile whose
// activation is Manual that lets the spec with this hash run.
const AnnotationApprovedHash = "berth.dev/approved-hash"

// AnnotationTakeOver is the annotation that, with the value true, lets the
// SchedulingProfile default-scheduler serve its pods although kube-scheduler
// renews its Lease.
const AnnotationTakeOver = "berth.dev/take-over"

// AnnotationRetry is the annotation on a SchedulingProfile that has its spec tried
// again although processes crashed on it: each new value clears what the spec's
// revision is blamed for. `kubectl berth retry` writes it.
const AnnotationRetry = "berth.dev/retry"

// The labels of a profile's ControllerRevisions.
const (
	// LabelProfile is the name of the profile.
	LabelProfile = "berth.dev/profile"
	// LabelHash is the hash of what the revision resolved to. Revisions of several
	// profiles may have the same.
	LabelHash = "berth.dev/hash"
)

// The annotations of a profile's ControllerRevisions.
const (
	// AnnotationGeneration is the metadata.generation that the revision was.
	AnnotationGeneration = "berth.dev/generation"
	// AnnotationProfileUID is the UID of the profile that it was a revision of.
	AnnotationProfileUID = "berth.dev/profile-uid"
	// AnnotationPluginConfigs says which arguments of the revision, all of which are
	// inline, a PluginConfig gave: PLUGIN=PLUGINCONFIG, comma separated.
	AnnotationPluginConfigs = "berth.dev/plugin-configs"
	// AnnotationProbation is the mark of a revision that has not been proved: it has
	// not run for ten minutes in one process. The value is when it was built first.
	AnnotationProbation = "berth.dev/on-probation"
	// AnnotationServed is when a revision on probation had served for a minute in one
	// process. Before that it replaces no other revision.
	AnnotationServed = "berth.dev/served"
	// AnnotationProcess names the leading process that runs a revision on probation.
	// A process that is asked to end removes it.
	AnnotationProcess = "berth.dev/process"
	// AnnotationBuildBegun is when the process began to build a revision on probation.
	// The process removes it at the swap.
	AnnotationBuildBegun = "berth.dev/build-begun"
	// AnnotationBuildDeaths is how many processes in a row ended between the beginning
	// of the build and the swap.
	AnnotationBuildDeaths = "berth.dev/build-deaths"
	// AnnotationDeaths is when leading processes ended without being asked to while
	// they ran a revision on probation: at most the last three times, within ten
	// minutes of each other, separated by commas.
	AnnotationDeaths = "berth.dev/deaths"
	// AnnotationCrashStack says which plugin of a revision on probation was on the
	// stack of a process that crashed, and what the process died of.
	AnnotationCrashStack = "berth.dev/crash-stack"
	// AnnotationRebuilds is how often a blamed revision was built although it is
	// blamed, and when last: "2 2026-03-01T12:00:00Z".
	AnnotationRebuilds = "berth.dev/rebuilds"
	// AnnotationRetried is the value of the profile's annotation berth.dev/retry that
	// was acted upon last.
	AnnotationRetried = "berth.dev/retried"
	// AnnotationOnTrial is the mark of a revision that was built for a trial only,
	// and never ran.
	AnnotationOnTrial = "berth.dev/on-trial"
	// AnnotationProfileGone is since when the revision's profile is gone.
	AnnotationProfileGone = "berth.dev/profile-gone"
)
