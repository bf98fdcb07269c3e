package v1alpha1

// AnnotationDecision is the annotation that every Binding carries and the API
// server merges into the pod: why the pod went where it went, in JSON. The bind
// overwrites what the pod's author wrote under this name, so it can be trusted
// on bound pods only.
const AnnotationDecision = "berth.dev/decision"

// AnnotationApprovedHash is the annotation on a SchedulingProfile whose
// activation is Manual that lets the spec with this hash run.
const AnnotationApprovedHash = "berth.dev/approved-hash"

// AnnotationTakeOver is the annotation that, with the value true, lets the
// SchedulingProfile default-scheduler serve its pods although kube-scheduler
// renews its Lease.
const AnnotationTakeOver = "berth.dev/take-over"

// LabelProfile is on every ControllerRevision of a profile: its name.
const LabelProfile = "berth.dev/profile"

// The annotations of a profile's ControllerRevisions.
const (
	// AnnotationGeneration is the metadata.generation that the revision was.
	AnnotationGeneration = "berth.dev/generation"
	// AnnotationProfileUID is the UID of the profile that it was a revision of.
	AnnotationProfileUID = "berth.dev/profile-uid"
	// AnnotationProbation is the mark of a revision that has not run long
	// enough to be trusted: since when it runs.
	AnnotationProbation = "berth.dev/on-probation"
	// AnnotationProcess names the process that runs a revision on probation.
	// A process that ends well takes it away.
	AnnotationProcess = "berth.dev/process"
	// AnnotationCrashes is how many processes died on a revision on probation.
	AnnotationCrashes = "berth.dev/crashes"
	// AnnotationOnTrial is the mark of a revision that was built for a trial only,
	// and never ran.
	AnnotationOnTrial = "berth.dev/on-trial"
	// AnnotationProfileGone is since when the revision's profile is gone.
	AnnotationProfileGone = "berth.dev/profile-gone"
)
