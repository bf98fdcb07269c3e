package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
)

// maxMessage bounds a condition's message in bytes. The API server would take
// twice as much; twenty faults of the length that compile allows fit.
const maxMessage = 16 * 1024

// standing says what runs, which is what every message says first.
func (v observation) runningMessage() string {
	switch {
	case v.running == nil:
		return "nothing runs"
	case v.programmed():
		return v.specName() + " runs since " + v.sinceText() + v.degradedMessage()
	}
	running := v.running.Blueprint
	named := fmt.Sprintf("generation %d", running.Generation)
	if running.Generation == v.profile.Generation {
		// The profile itself did not change, so its number tells nothing.
		named += configsSuffix(running.Configs)
	}
	return named + " keeps running since " + v.sinceText() + v.degradedMessage()
}

// ailments says how what runs fares, where that is not well.
func (v observation) degradedMessage() string {
	if len(v.running.Degradations) == 0 {
		return ""
	}
	return ", ailing (" + strings.Join(v.running.Degradations, "; ") + ")"
}

// trouble says what runs, and then why the spec does not.
func (v observation) notReadyMessage() string {
	switch {
	case v.rejection != nil:
		return v.rejectedMessage(v.rejection)
	case v.failure != nil:
		return truncate(v.runningMessage()+"; "+v.pendingSpecName()+" failed: "+v.failure.Error(), maxMessage)
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
	return v.runningMessage() + "; " + v.pendingSpecName() + " has not taken over yet"
}

func (v observation) rejectedMessage(rejection *compile.Rejection) string {
	return truncate(v.runningMessage()+"; "+v.pendingSpecName()+refusedFor+rejection.Message(), maxMessage)
}

// title names the spec that this visit is about.
func (v observation) specName() string { return fmt.Sprintf("generation %d", v.profile.Generation) }

// challenger names the spec that does not run, so that it is not taken for
// the one that does.
func (v observation) pendingSpecName() string {
	if v.running == nil || v.running.Blueprint.Generation != v.profile.Generation {
		return v.specName()
	}
	return v.specName() + configsSuffix(v.resolvedConfigs())
}

// references says what became of the PluginConfigs that the spec names.
func (v observation) configRefsMessage() string {
	configs := v.resolvedConfigs()
	if len(configs) == 0 {
		return v.specName() + " names no PluginConfig"
	}
	return "found" + strings.TrimPrefix(configsSuffix(configs), " with")
}

// resolved are the PluginConfigs that this visit speaks about, by name.
func (v observation) resolvedConfigs() []compile.ConfigGeneration {
	var found []compile.ConfigGeneration
	for name, cfg := range v.configs {
		found = append(found, compile.ConfigGeneration{Name: name, Generation: cfg.Generation})
	}
	slices.SortFunc(found, func(a, b compile.ConfigGeneration) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func configsSuffix(configs []compile.ConfigGeneration) string {
	if len(configs) == 0 {
		return ""
	}
	named := make([]string, len(configs))
	for i, c := range configs {
		named[i] = fmt.Sprintf("%s at generation %d", c.Name, c.Generation)
	}
	return " with PluginConfig " + strings.Join(named, ", ")
}

// since is in UTC: the time of day on the day itself, else the date too.
func (v observation) sinceText() string {
	since, now := v.running.Since.UTC(), v.now.UTC()
	if since.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return since.Format("15:04")
	}
	return since.Format("2006-01-02 15:04")
}

// clip cuts text to at most limit bytes, never inside a character.
func truncate(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// crashed says why the spec is left alone, and how it is tried again. The command
// comes last, so that it can be taken as it is.
func (v observation) crashedMessage() string {
	text := fmt.Sprintf("%s with hash %s is blamed for crashes: %s; ", v.pendingSpecName(), v.blueprint.Hash, v.evidenceMessage())
	if v.rebuildAfter > 0 {
		text += "nothing can replace it, so it is built again after the other profiles, at the earliest at " + v.now.Add(v.rebuildAfter).UTC().Format(time.TimeOnly) + "; "
	}
	return truncate(text, maxMessage/2) + fmt.Sprintf("change the spec, or try it again with: kubectl berth retry %s", v.profile.Name)
}

// evidence says upon what evidence the spec is blamed.
func (v observation) evidenceMessage() string {
	var e history.Evidence
	if at := slices.IndexFunc(v.history.Revisions, func(r history.Revision) bool { return r.Hash == v.blueprint.Hash }); at >= 0 {
		e = v.history.Revisions[at].Evidence
	}
	switch v.blame {
	case history.CrashStack:
		return e.CrashStack
	case history.BuildDeaths:
		return fmt.Sprintf("%d processes in a row ended while they built it", e.BuildDeaths)
	}
	return fmt.Sprintf("it has plugins that are not built in, and %d leading processes ended within %v while they ran it", e.Deaths, history.Probation)
}

// awaiting says what has to be approved, what is known of it, and how: the
// command comes last, so that it can be taken as it is.
func (v observation) awaitingApprovalMessage() string {
	return fmt.Sprintf("%s with hash %s %swaits for approval: kubectl annotate sprof %s --overwrite %s=%s",
		v.pendingSpecName(), v.blueprint.Hash, v.trialMessage(), v.profile.Name, v1alpha1.AnnotationApprovedHash, v.blueprint.Hash)
}

// namespace is where the history is kept.
func (v observation) namespace() string {
	if v.history == nil || v.history.Namespace == "" {
		return "berth-system"
	}
	return v.history.Namespace
}

// unkept says that what runs is remembered nowhere but in this process.
func (v observation) historyNotStoredMessage() string {
	if v.history == nil || v.history.NotStoredReason == "" {
		return ""
	}
	return truncate("; history is kept in memory only, so that a restart finds nothing but the spec: "+v.history.NotStoredReason, maxMessage/2)
}
