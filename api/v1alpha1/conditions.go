package v1alpha1

// ConditionType names one condition of a SchedulingProfile or a PluginConfig.
type ConditionType string

// The conditions. All but Stalled and Exported are written on every visit, each with the
// generation it speaks about.
const (
	// ConditionAccepted is True when this generation is understood.
	ConditionAccepted ConditionType = "Accepted"
	// ConditionResolvedRefs is True when each configRef is there, accepted, and
	// for the plugin that names it. Profiles only.
	ConditionResolvedRefs ConditionType = "ResolvedRefs"
	// ConditionProgrammed is True when exactly this generation runs: of a
	// profile, with these PluginConfigs; of a PluginConfig, in every profile
	// that names it.
	ConditionProgrammed ConditionType = "Programmed"
	// ConditionReady is True when Accepted, ResolvedRefs and Programmed are and
	// the profile is not paused. Profiles only.
	ConditionReady ConditionType = "Ready"
	// ConditionExported is True when what runs is in the ConfigMap that
	// spec.exports names, all of it, and absent where none is named. Profiles only;
	// Ready does not depend on it.
	ConditionExported ConditionType = "Exported"
	// ConditionStalled is True when nothing moves until the user acts, and
	// absent otherwise, as kstatus asks. Profiles only.
	ConditionStalled ConditionType = "Stalled"
)

// ConditionReason says why a condition has its status.
type ConditionReason string

// The reasons of Accepted.
const (
	// ReasonAccepted: the generation is understood.
	ReasonAccepted ConditionReason = "Accepted"
	// ReasonUnknownPlugin: a plugin is named that this build does not have.
	ReasonUnknownPlugin ConditionReason = "UnknownPlugin"
	// ReasonInvalidArguments: a plugin's arguments, or another setting of the
	// profile, cannot be what they are.
	ReasonInvalidArguments ConditionReason = "InvalidArguments"
	// ReasonInvalidPlugins: the chains cannot run: a plugin twice, a weight that
	// is too small or where nothing scores, a plugin where it has nothing to
	// do, no or two queueSort plugins, no bind plugin, a score that overflows.
	ReasonInvalidPlugins ConditionReason = "InvalidPlugins"
	// ReasonInvalidExtender: an extender cannot be asked as it is described.
	ReasonInvalidExtender ConditionReason = "InvalidExtender"
	// ReasonNameServedElsewhere: another scheduler serves pods of this name.
	ReasonNameServedElsewhere ConditionReason = "NameServedElsewhere"
)

// The reasons of ResolvedRefs.
const (
	// ReasonResolvedRefs: every configRef is resolved, or there is none.
	ReasonResolvedRefs ConditionReason = "ResolvedRefs"
	// ReasonPluginConfigNotFound: there is no PluginConfig of the name; its
	// arrival heals the profile.
	ReasonPluginConfigNotFound ConditionReason = "PluginConfigNotFound"
	// ReasonPluginConfigRefused: the PluginConfig is there and not accepted.
	ReasonPluginConfigRefused ConditionReason = "PluginConfigRefused"
	// ReasonPluginMismatch: the PluginConfig is for another plugin.
	ReasonPluginMismatch ConditionReason = "PluginMismatch"
)

// The reasons of Programmed.
const (
	// ReasonProgrammed: exactly this generation runs.
	ReasonProgrammed ConditionReason = "Programmed"
	// ReasonPreviousRuns: an earlier generation keeps running.
	ReasonPreviousRuns ConditionReason = "PreviousRuns"
	// ReasonNothingRuns: no generation of it runs; its pods wait.
	ReasonNothingRuns ConditionReason = "NothingRuns"
	// ReasonBuildFailed: the spec is understood and a plugin could not be built.
	ReasonBuildFailed ConditionReason = "BuildFailed"
	// ReasonTrialFailed: the new generation failed its trial on live state.
	ReasonTrialFailed ConditionReason = "TrialFailed"
	// ReasonAwaitingApproval: the new generation waits to be approved by hash.
	ReasonAwaitingApproval ConditionReason = "AwaitingApproval"
	// ReasonCrashedOnProbation: there is evidence that the new generation makes
	// processes crash, so the one that served last runs.
	ReasonCrashedOnProbation ConditionReason = "CrashedOnProbation"
)

// The reasons of Ready, beside that of the first condition that is False.
const (
	// ReasonReady: the profile serves its pods as written.
	ReasonReady ConditionReason = "Ready"
	// ReasonPaused: spec.state is Paused; pods wait and are told so.
	ReasonPaused ConditionReason = "Paused"
)

// The reasons of Exported, beside NothingRuns.
const (
	// ReasonExported: the ConfigMap holds what runs.
	ReasonExported ConditionReason = "Exported"
	// ReasonNotExpressible: it holds what can be said of what runs; the message
	// names the rest.
	ReasonNotExpressible ConditionReason = "NotExpressible"
	// ReasonConfigMapConflict: a ConfigMap of that name is somebody else's, or
	// another profile's; it is left alone.
	ReasonConfigMapConflict ConditionReason = "ConfigMapConflict"
	// ReasonExportFailed: the API server would not take it; it is tried again.
	ReasonExportFailed ConditionReason = "ExportFailed"
)
