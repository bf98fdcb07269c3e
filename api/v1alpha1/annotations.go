package v1alpha1

// AnnotationDecision is the annotation that every Binding carries and that the API
// server merges into the pod. Its value is JSON: the node, the profile, its hash and
// the best scores. The bind overwrites a value that the pod's author wrote. Users with
// the right to patch the pod may change it later, so it is information and not
// evidence.
const AnnotationDecision = "berth.dev/decision"

// AnnotationApprovedHash is an annotation of a SchedulingProfile. Where spec.activation
// is Manual, Berth runs the spec only when this annotation holds the spec's hash.
const AnnotationApprovedHash = "berth.dev/approved-hash"

// AnnotationTakeOver is an annotation of a SchedulingProfile. With the value "true",
// Berth serves the profile's name although another scheduler may serve it, such as
// default-scheduler while kube-scheduler renews its Lease.
const AnnotationTakeOver = "berth.dev/take-over"

// AnnotationRetry is an annotation of a SchedulingProfile. Each new value makes Berth
// try the spec again although processes crashed on it: Berth clears the evidence
// against the spec's revision. `kubectl berth retry` writes it.
const AnnotationRetry = "berth.dev/retry"

// The annotations of pods that are scheduled together, for clusters without PodGroups. A
// profile that enables the plugin GangScheduling reads them.
const (
	// AnnotationPodGroup is the name of the pod's group. The group has the pods of one
	// namespace that name it.
	AnnotationPodGroup = "berth.dev/pod-group"
	// AnnotationPodGroupMinCount is how many pods of the group must be scheduled together,
	// a whole number of at least 1. All pods of a group have the same.
	AnnotationPodGroupMinCount = "berth.dev/pod-group-min-count"
)

// The labels of a profile's ControllerRevisions.
const (
	// LabelProfile is the name of the profile.
	LabelProfile = "berth.dev/profile"
	// LabelHash is the hash of the Blueprint that the revision resolved to. Revisions
	// of several profiles may have the same hash.
	LabelHash = "berth.dev/hash"
)

// The annotations of a profile's ControllerRevisions.
const (
	// AnnotationGeneration is the profile's metadata.generation that the revision
	// holds.
	AnnotationGeneration = "berth.dev/generation"
	// AnnotationProfileUID is the UID of the profile that the revision belongs to.
	AnnotationProfileUID = "berth.dev/profile-uid"
	// AnnotationPluginConfigs lists the plugins whose arguments, which are inline in
	// the revision, came from a PluginConfig: PLUGIN=PLUGINCONFIG, separated by commas.
	AnnotationPluginConfigs = "berth.dev/plugin-configs"
	// AnnotationProbation marks a revision on probation: it has not run for ten minutes
	// in one process. The value is the time of its first build.
	AnnotationProbation = "berth.dev/on-probation"
	// AnnotationServed is the time at which a revision on probation had run for one
	// minute in one process. As a replacement for a revision that crashed, Berth
	// prefers revisions that have it.
	AnnotationServed = "berth.dev/served"
	// AnnotationProcess names the leading process that runs a revision on probation. A
	// process that shuts down gracefully removes it.
	AnnotationProcess = "berth.dev/process"
	// AnnotationBuildBegun is the time at which the process began to build a revision
	// on probation. The process removes it after the swap.
	AnnotationBuildBegun = "berth.dev/build-begun"
	// AnnotationBuildDeaths is how many processes in a row ended between the begin of
	// the build and the swap.
	AnnotationBuildDeaths = "berth.dev/build-deaths"
	// AnnotationDeaths lists the times at which leading processes ended, without a
	// graceful shutdown, while they ran a revision on probation: at most the last
	// three, within ten minutes of each other, separated by commas.
	AnnotationDeaths = "berth.dev/deaths"
	// AnnotationCrashStack says which plugin of a revision on probation was on the
	// stack of a process that crashed, and the reason of the crash.
	AnnotationCrashStack = "berth.dev/crash-stack"
	// AnnotationRebuilds is how often a blamed revision was built again because no
	// other could replace it, and the time of the last build: "2 2026-03-01T12:00:00Z".
	AnnotationRebuilds = "berth.dev/rebuilds"
	// AnnotationRetried is the last value of the profile's annotation berth.dev/retry
	// that Berth acted on.
	AnnotationRetried = "berth.dev/retried"
	// AnnotationOnTrial marks a revision that was built for a trial only and never ran.
	AnnotationOnTrial = "berth.dev/on-trial"
	// AnnotationProfileGone is the time since which the revision's profile does not
	// exist any more.
	AnnotationProfileGone = "berth.dev/profile-gone"
)
