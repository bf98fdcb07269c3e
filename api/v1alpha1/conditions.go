package v1alpha1

// ConditionType names one condition of a SchedulingProfile or a PluginConfig.
type ConditionType string

// The condition types. Berth writes all but Exported, Degraded and
// Stalled at every reconcile,
// each with the observedGeneration that it is about.
const (
	// ConditionAccepted is True when this generation of the spec is valid.
	ConditionAccepted ConditionType = "Accepted"
	// ConditionResolvedRefs is True when every configRef names a PluginConfig that
	// exists, is accepted, and is for the same plugin. Profiles only.
	ConditionResolvedRefs ConditionType = "ResolvedRefs"
	// ConditionProgrammed is True when exactly this generation runs: of a profile, with
	// the PluginConfigs that it references as they are now; of a PluginConfig, in every
	// profile that references it.
	ConditionProgrammed ConditionType = "Programmed"
	// ConditionReady is True when Accepted, ResolvedRefs and Programmed are True and
	// the profile is not paused. Profiles only.
	ConditionReady ConditionType = "Ready"
	// ConditionExported is True when the ConfigMap that spec.exports names holds all of
	// what runs. It is absent when spec.exports names none. Profiles only; Ready does
	// not depend on it.
	ConditionExported ConditionType = "Exported"
	// ConditionDegraded is True when plugins of what runs hang, miss events that they
	// registered, or were replaced, and absent otherwise. Its reason is that of the most
	// severe one. Profiles only; Ready does not depend on it.
	ConditionDegraded ConditionType = "Degraded"
	// ConditionStalled is True when Berth makes no progress until the user acts, and
	// absent otherwise, as kstatus defines it. Profiles only.
	ConditionStalled ConditionType = "Stalled"
)

// ConditionReason says why a condition has its status, as one word in CamelCase.
type ConditionReason string

// The reasons of Accepted.
const (
	// ReasonAccepted: the spec is valid.
	ReasonAccepted ConditionReason = "Accepted"
	// ReasonUnknownPlugin: the spec names a plugin that this build of Berth does not
	// have.
	ReasonUnknownPlugin ConditionReason = "UnknownPlugin"
	// ReasonInvalidArguments: a plugin's arguments, or another setting of the profile,
	// are invalid.
	ReasonInvalidArguments ConditionReason = "InvalidArguments"
	// ReasonInvalidPlugins: the plugins cannot run as they are enabled: a plugin is
	// enabled twice, a weight is too small or is set where plugins do not score, a
	// plugin does not implement the extension point, there is not exactly one queueSort
	// plugin, there is no bind plugin, or the sum of scores may overflow.
	ReasonInvalidPlugins ConditionReason = "InvalidPlugins"
	// ReasonInvalidExtender: an extender's settings are invalid, or extenders are not
	// enabled.
	ReasonInvalidExtender ConditionReason = "InvalidExtender"
	// ReasonNameServedElsewhere: another scheduler serves, or may serve, the pods of
	// this name.
	ReasonNameServedElsewhere ConditionReason = "NameServedElsewhere"
)

// The reasons of ResolvedRefs.
const (
	// ReasonResolvedRefs: every configRef is resolved, or the spec has none.
	ReasonResolvedRefs ConditionReason = "ResolvedRefs"
	// ReasonPluginConfigNotFound: a PluginConfig of that name does not exist. Berth
	// resolves the profile again when one is created.
	ReasonPluginConfigNotFound ConditionReason = "PluginConfigNotFound"
	// ReasonPluginConfigRefused: the PluginConfig exists and is not accepted.
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
	// ReasonNothingRuns: no generation runs, and the profile's pods wait.
	ReasonNothingRuns ConditionReason = "NothingRuns"
	// ReasonBuildFailed: the spec is valid, and a plugin could not be built.
	ReasonBuildFailed ConditionReason = "BuildFailed"
	// ReasonTrialFailed: the new generation failed its trial on a copy of the cluster.
	ReasonTrialFailed ConditionReason = "TrialFailed"
	// ReasonAwaitingApproval: the new generation runs once its hash is approved.
	ReasonAwaitingApproval ConditionReason = "AwaitingApproval"
	// ReasonCrashedOnProbation: there is evidence that the new generation makes
	// processes crash, so that the revision which served last runs instead.
	ReasonCrashedOnProbation ConditionReason = "CrashedOnProbation"
)

// The reasons of Ready. When Ready is False for an earlier condition, it has that
// condition's reason.
const (
	// ReasonReady: the profile schedules its pods as the spec says.
	ReasonReady ConditionReason = "Ready"
	// ReasonPaused: spec.state is Paused. The pods wait, and their condition
	// PodScheduled says why.
	ReasonPaused ConditionReason = "Paused"
)

// The reasons of Exported, beside NothingRuns.
const (
	// ReasonExported: the ConfigMap holds all of what runs.
	ReasonExported ConditionReason = "Exported"
	// ReasonNotExpressible: the ConfigMap holds what a KubeSchedulerConfiguration can
	// express of what runs; the message names the rest.
	ReasonNotExpressible ConditionReason = "NotExpressible"
	// ReasonConfigMapConflict: the ConfigMap of that name has another owner or belongs
	// to another profile. Berth does not change it.
	ReasonConfigMapConflict ConditionReason = "ConfigMapConflict"
	// ReasonExportFailed: the write to the API server failed. Berth tries it again.
	ReasonExportFailed ConditionReason = "ExportFailed"
)

// The reasons of Degraded, the most severe first.
const (
	// ReasonTooManyAbandonedCalls: so many calls of plugins have not returned that no pod
	// of the profile is scheduled until one returns.
	ReasonTooManyAbandonedCalls ConditionReason = "TooManyAbandonedCalls"
	// ReasonQueueSortReplaced: the queueSort plugin panicked or hung, and PrioritySort sorts
	// the profile's pods in its place.
	ReasonQueueSortReplaced ConditionReason = "QueueSortReplaced"
	// ReasonPluginHangs: calls of plugins timed out and have not returned.
	ReasonPluginHangs ConditionReason = "PluginHangs"
	// ReasonEventsMissed: plugins registered events of a resource that is not served or that
	// Berth may not watch, so that pods which they rejected may wait longer.
	ReasonEventsMissed ConditionReason = "EventsMissed"
)
