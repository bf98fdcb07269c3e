package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
)

const (
	// maxMessage bounds the message of a condition, in bytes: withTransitionTimes cuts it. The
	// API server would accept twice as much; it refuses the whole status for a longer one.
	maxMessage = 16 * 1024
	// maxConfigsMessage bounds the list of PluginConfigs in a message, in bytes: what comes after
	// two of them is why the spec does not run.
	maxConfigsMessage = maxMessage / 4
)

// runningMessage says what runs. Every message begins with it.
func (v observation) runningMessage() string {
	switch {
	case v.running == nil:
		return "nothing runs"
	case v.programmed():
		return v.specName() + " runs since " + v.sinceText()
	}
	running := v.running.Blueprint
	name := fmt.Sprintf("generation %d", running.Generation)
	if running.Generation == v.profile.Generation {
		// The profile did not change: the generations of its PluginConfigs differ.
		name += v.configsSuffix(running.Configs)
	}
	return name + " keeps running since " + v.sinceText()
}

// notReadyMessage says what runs, and then why the spec does not run.
func (v observation) notReadyMessage() string {
	switch {
	case v.rejection != nil:
		return v.rejectedMessage(v.rejection)
	case v.failure != nil:
		return v.runningMessage() + "; " + v.pendingSpecName() + " failed: " + v.failure.Error()
	case v.programmed():
		return v.runningMessage()
	case v.verdict == history.Crashed:
		return v.runningMessage() + "; " + v.crashedMessage()
	case v.verdict == history.AwaitingApproval:
		return v.runningMessage() + "; " + v.awaitingApprovalMessage()
	}
	if v.deferred != nil {
		return v.runningMessage() + "; " + v.pendingSpecName() + " waits: " + v.deferred.Error()
	}
	return v.runningMessage() + "; " + v.pendingSpecName() + " is not applied yet"
}

// notProgrammedMessage is notReadyMessage with why no earlier revision runs in place of the spec.
// That comes right after what runs, since the message may end with a command.
func (v observation) notProgrammedMessage() string {
	message := v.notReadyMessage()
	if v.running != nil || v.fallbackFailure == nil {
		return message
	}
	runs := v.runningMessage()
	return runs + "; " + truncate(v.fallbackFailure.Error(), maxMessage/4) + strings.TrimPrefix(message, runs)
}

func (v observation) rejectedMessage(rejection *compile.Rejection) string {
	return v.runningMessage() + "; " + v.pendingSpecName() + refusedFor + rejection.Message()
}

// specName names the spec that was reconciled.
func (v observation) specName() string { return fmt.Sprintf("generation %d", v.profile.Generation) }

// pendingSpecName names the spec that does not run, with its PluginConfigs where that
// is needed to distinguish it from the one that runs.
func (v observation) pendingSpecName() string {
	if v.running == nil || v.running.Blueprint.Generation != v.profile.Generation {
		return v.specName()
	}
	return v.specName() + v.configsSuffix(v.resolvedConfigs())
}

// configRefsMessage lists the PluginConfigs that the spec references.
func (v observation) configRefsMessage() string {
	configs := v.resolvedConfigs()
	if len(configs) == 0 {
		return v.specName() + " names no PluginConfig"
	}
	return "found" + strings.TrimPrefix(v.configsSuffix(configs), " with")
}

// resolvedConfigs returns the PluginConfigs that were found for the spec, sorted by
// name.
func (v observation) resolvedConfigs() []compile.ConfigGeneration {
	var found []compile.ConfigGeneration
	for name, cfg := range v.configs {
		found = append(found, compile.ConfigGeneration{Name: name, Generation: cfg.Generation, UID: cfg.UID})
	}
	slices.SortFunc(found, func(a, b compile.ConfigGeneration) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// configsSuffix lists PluginConfigs for a message. It marks those that were deleted and
// created again under their names, since the generations do not tell the two apart.
func (v observation) configsSuffix(configs []compile.ConfigGeneration) string {
	if len(configs) == 0 {
		return ""
	}
	names := make([]string, len(configs))
	for i, c := range configs {
		names[i] = c.Name
		if found := v.configs[c.Name]; found != nil && c.UID != "" && found.UID != c.UID {
			names[i] += " (deleted)"
		}
		names[i] += fmt.Sprintf(" at generation %d", c.Generation)
	}
	return truncate(" with PluginConfig "+strings.Join(names, ", "), maxConfigsMessage)
}

// sinceText returns the time since which it runs, in UTC: the time of day, with the
// date unless it is today's.
func (v observation) sinceText() string {
	since, now := v.running.Since.UTC(), v.now.UTC()
	if since.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return since.Format("15:04")
	}
	return since.Format("2006-01-02 15:04")
}

// truncate cuts text to at most limit bytes, between characters.
func truncate(text string, limit int) string { return decision.TruncateBytes(text, limit, "…") }

// crashedMessage says why the spec is not built, and how to try it again. The command
// comes last, so that it can be copied as it is.
func (v observation) crashedMessage() string {
	text := fmt.Sprintf("%s with hash %s is blamed for crashes: %s; ", v.pendingSpecName(), v.blueprint.Hash, v.evidenceMessage())
	if v.rebuildAfter > 0 {
		text += "nothing can replace it, so it is built again after the other profiles, at the earliest at " + v.now.Add(v.rebuildAfter).UTC().Format(time.TimeOnly) + "; "
	}
	return truncate(text, maxMessage/2) + fmt.Sprintf("change the spec, or try it again with: kubectl berth retry %s", v.profile.Name)
}

// evidenceMessage says which evidence there is against the spec.
func (v observation) evidenceMessage() string {
	var e history.Evidence
	if i := slices.IndexFunc(v.history.Revisions, func(r history.Revision) bool { return r.Hash == v.blueprint.Hash }); i >= 0 {
		e = v.history.Revisions[i].Evidence
	}
	switch v.blame {
	case history.CrashStack:
		return e.CrashStack
	case history.BuildDeaths:
		return fmt.Sprintf("%d processes in a row ended while they built it", e.BuildDeaths)
	}
	return fmt.Sprintf("it has plugins that are not built in, and %d leading processes ended within %v while they ran it", e.Deaths, history.Probation)
}

// awaitingApprovalMessage says what has to be approved, how its trial went, and how to
// approve it. The command comes last, so that it can be copied as it is.
func (v observation) awaitingApprovalMessage() string {
	return fmt.Sprintf("%s with hash %s %swaits for approval: kubectl annotate sprof %s --overwrite %s=%s",
		v.pendingSpecName(), v.blueprint.Hash, v.trialMessage(), v.profile.Name, v1alpha1.AnnotationApprovedHash, v.blueprint.Hash)
}

// historyNotStoredMessage says that what runs is not stored, and why; empty when it is
// stored.
func (v observation) historyNotStoredMessage() string {
	if v.history == nil || v.history.Durable() {
		return ""
	}
	return truncate("; history is kept in memory only, so that a restart finds nothing but the spec: "+v.history.NotStored.Reason, maxMessage/2)
}

// maxHoldMessage is how long the message in the condition of a held pod may be, in
// bytes.
const maxHoldMessage = 1024

// statusSaysWhy is in the message of a pod that does not say why itself.
const statusSaysWhy = "; the status of the profile says why"

// holdMessage says why nothing runs under the profile's name. It is empty when
// something runs, is about to run, or is not to run because another scheduler may serve
// the name.
func (v observation) holdMessage() string {
	if v.running != nil || v.servedElsewhere || v.deferred != nil || v.verdict == history.Unproven {
		return ""
	}
	return truncate(fmt.Sprintf("SchedulingProfile %s does not run: %s", v.profile.Name, v.notRunningReason()), maxHoldMessage)
}

// notRunningReason says why the spec does not run. It must not contain what changes by
// itself, such as times: each change is written to every pod of the profile. Nor must it
// contain the text of a failure: that comes from plugins, may name pods and claims of one
// namespace, and is written into pods of others.
func (v observation) notRunningReason() string {
	switch {
	case v.rejection != nil:
		return v.specName() + " was refused: " + v.rejection.Message()
	case v.trialFailed():
		return v.specName() + " failed its trial" + statusSaysWhy
	case v.failure != nil:
		return v.specName() + " could not be applied" + statusSaysWhy
	case v.verdict == history.Crashed:
		return v.specName() + " is blamed for crashes of the scheduler, and no other revision can replace it"
	case v.verdict == history.AwaitingApproval:
		return v.specName() + " waits for approval"
	}
	return v.specName() + " could not be built"
}

// holdPods holds the pods of a profile under whose name nothing runs, and gives them
// the reason. Pods that were held before another scheduler came back are left to that one.
func (r *profileReconciler) holdPods(v observation) {
	if message := v.holdMessage(); message != "" && r.isLeader() {
		r.options.Applier.Hold(v.profile.Name, message)
	}
	if v.servedElsewhere && v.running == nil {
		r.options.Applier.Release(v.profile.Name)
	}
}
