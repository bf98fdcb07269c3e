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
func (v visit) standing() string {
	switch {
	case v.running == nil:
		return "nothing runs"
	case v.programmed():
		return v.title() + " runs since " + v.since() + v.ailments()
	}
	running := v.running.Blueprint
	named := fmt.Sprintf("generation %d", running.Generation)
	if running.Generation == v.profile.Generation {
		// The profile itself did not change, so its number tells nothing.
		named += withConfigs(running.Configs)
	}
	return named + " keeps running since " + v.since() + v.ailments()
}

// ailments says how what runs fares, where that is not well.
func (v visit) ailments() string {
	if len(v.running.Ailments) == 0 {
		return ""
	}
	return ", ailing (" + strings.Join(v.running.Ailments, "; ") + ")"
}

// trouble says what runs, and then why the spec does not.
func (v visit) trouble() string {
	switch {
	case v.rejection != nil:
		return v.refusal(v.rejection)
	case v.failure != nil:
		return clip(v.standing()+"; "+v.challenger()+" failed: "+v.failure.Error(), maxMessage)
	case v.programmed():
		return v.standing()
	case v.verdict == history.Crashed:
		return v.standing() + "; " + v.crashed()
	case v.verdict == history.Awaiting:
		return v.standing() + "; " + v.awaiting()
	}
	if v.waits != nil {
		return v.standing() + "; " + v.challenger() + " waits: " + v.waits.Error()
	}
	return v.standing() + "; " + v.challenger() + " has not taken over yet"
}

func (v visit) refusal(rejection *compile.Rejection) string {
	return clip(v.standing()+"; "+v.challenger()+refusedFor+rejection.Message(), maxMessage)
}

// title names the spec that this visit is about.
func (v visit) title() string { return fmt.Sprintf("generation %d", v.profile.Generation) }

// challenger names the spec that does not run, so that it is not taken for
// the one that does.
func (v visit) challenger() string {
	if v.running == nil || v.running.Blueprint.Generation != v.profile.Generation {
		return v.title()
	}
	return v.title() + withConfigs(v.resolved())
}

// references says what became of the PluginConfigs that the spec names.
func (v visit) references() string {
	configs := v.resolved()
	if len(configs) == 0 {
		return v.title() + " names no PluginConfig"
	}
	return "found" + strings.TrimPrefix(withConfigs(configs), " with")
}

// resolved are the PluginConfigs that this visit speaks about, by name.
func (v visit) resolved() []compile.ConfigGeneration {
	var found []compile.ConfigGeneration
	for name, cfg := range v.configs {
		found = append(found, compile.ConfigGeneration{Name: name, Generation: cfg.Generation})
	}
	slices.SortFunc(found, func(a, b compile.ConfigGeneration) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func withConfigs(configs []compile.ConfigGeneration) string {
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
func (v visit) since() string {
	since, now := v.running.Since.UTC(), v.now.UTC()
	if since.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return since.Format("15:04")
	}
	return since.Format("2006-01-02 15:04")
}

// clip cuts text to at most limit bytes, never inside a character.
func clip(text string, limit int) string {
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
func (v visit) crashed() string {
	text := fmt.Sprintf("%s with hash %s is blamed for crashes: %s; ", v.challenger(), v.blueprint.Hash, v.evidence())
	if v.rebuild > 0 {
		text += "nothing can replace it, so it is built again after the other profiles, at the earliest at " + v.now.Add(v.rebuild).UTC().Format(time.TimeOnly) + "; "
	}
	return clip(text, maxMessage/2) + fmt.Sprintf("change the spec, or try it again with: kubectl berth retry %s", v.profile.Name)
}

// evidence says upon what evidence the spec is blamed.
func (v visit) evidence() string {
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
func (v visit) awaiting() string {
	return fmt.Sprintf("%s with hash %s %swaits for approval: kubectl annotate sprof %s --overwrite %s=%s",
		v.challenger(), v.blueprint.Hash, v.rehearsed(), v.profile.Name, v1alpha1.AnnotationApprovedHash, v.blueprint.Hash)
}

// namespace is where the history is kept.
func (v visit) namespace() string {
	if v.history == nil || v.history.Namespace == "" {
		return "berth-system"
	}
	return v.history.Namespace
}

// unkept says that what runs is remembered nowhere but in this process.
func (v visit) unkept() string {
	if v.history == nil || v.history.Trouble == "" {
		return ""
	}
	return clip("; history is kept in memory only, so that a restart finds nothing but the spec: "+v.history.Trouble, maxMessage/2)
}
