package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

func newBlueprint(generation int64, hash string, configs ...compile.ConfigGeneration) *compile.Blueprint {
	return &compile.Blueprint{Name: "batch", Generation: generation, Hash: hash, Configs: configs}
}

func runningSince(b *compile.Blueprint, since time.Time) *profile.Running {
	return &profile.Running{Blueprint: b, Since: since}
}

func rejectionOf(fieldErrors ...compile.FieldError) *compile.Rejection {
	return &compile.Rejection{Errors: fieldErrors}
}

var (
	noSuchPlugin = compile.FieldError{
		Condition: string(v1alpha1.ConditionAccepted), Reason: string(v1alpha1.ReasonUnknownPlugin),
		Path: "spec.plugins.score.enabled[0].name", Detail: `no plugin "NoSuch"`,
	}
	noSuchConfig = compile.FieldError{
		Condition: string(v1alpha1.ConditionResolvedRefs), Reason: string(v1alpha1.ReasonPluginConfigNotFound),
		Path: "spec.pluginConfig[0].configRef.name", Detail: `no PluginConfig "binpack"`,
	}
)

func TestProfileConditions(t *testing.T) {
	morning := startTime.Add(-108 * time.Minute) // 10:12
	binpack4 := compile.ConfigGeneration{Name: "binpack", Generation: 4, UID: "binpack-1"}
	deleted5 := compile.ConfigGeneration{Name: "binpack", Generation: 5, UID: "binpack-0"}
	tests := map[string]struct {
		observation observation
		want        []string
		// ready is the message of Ready.
		ready string
	}{
		"a spec that runs is ready": {
			observation: observation{profile: newProfile(7), blueprint: newBlueprint(7, "new"), running: runningSince(newBlueprint(7, "new"), morning)},
			want:        []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"},
			ready:       "generation 7 runs since 10:12",
		},
		"an edit that resolves to what runs is programmed, although nothing was built": {
			observation: observation{profile: newProfile(8), blueprint: newBlueprint(8, "same"), running: runningSince(newBlueprint(7, "same"), morning)},
			want:        []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"},
			ready:       "generation 8 runs since 10:12",
		},
		"an invalid edit leaves the earlier generation running, and stalls": {
			observation: observation{profile: newProfile(7), rejection: rejectionOf(noSuchPlugin), running: runningSince(newBlueprint(6, "old"), morning)},
			want:        []string{"Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs", "Programmed False PreviousRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"},
			ready:       `generation 6 keeps running since 10:12; generation 7 refused: spec.plugins.score.enabled[0].name: no plugin "NoSuch"`,
		},
		"an invalid spec of a new profile does not run": {
			observation: observation{profile: newProfile(1), rejection: rejectionOf(noSuchPlugin)},
			want:        []string{"Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs", "Programmed False NothingRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"},
			ready:       `nothing runs; generation 1 refused: spec.plugins.score.enabled[0].name: no plugin "NoSuch"`,
		},
		"a missing PluginConfig makes ResolvedRefs False, and not Accepted": {
			observation: observation{profile: newProfile(2, withConfigRef("NodeResourcesFit", "binpack")), rejection: rejectionOf(noSuchConfig)},
			want:        []string{"Accepted True Accepted", "ResolvedRefs False PluginConfigNotFound", "Programmed False NothingRuns", "Ready False PluginConfigNotFound", "Stalled True PluginConfigNotFound"},
			ready:       `nothing runs; generation 2 refused: spec.pluginConfig[0].configRef.name: no PluginConfig "binpack"`,
		},
		"the message distinguishes generations of a PluginConfig": {
			observation: observation{
				profile: newProfile(7, withConfigRef("NodeResourcesFit", "binpack")), configs: map[string]*v1alpha1.PluginConfig{"binpack": newConfig("binpack", 5)},
				rejection: rejectionOf(noSuchConfig), running: runningSince(newBlueprint(7, "old", binpack4), morning),
			},
			want: []string{"Accepted True Accepted", "ResolvedRefs False PluginConfigNotFound", "Programmed False PreviousRuns", "Ready False PluginConfigNotFound", "Stalled True PluginConfigNotFound"},
			ready: `generation 7 with PluginConfig binpack at generation 4 keeps running since 10:12; ` +
				`generation 7 with PluginConfig binpack at generation 5 refused: spec.pluginConfig[0].configRef.name: no PluginConfig "binpack"`,
		},
		"the message distinguishes a PluginConfig from a deleted one of its name": {
			observation: observation{
				profile: newProfile(7, withConfigRef("NodeResourcesFit", "binpack")), configs: map[string]*v1alpha1.PluginConfig{"binpack": newConfig("binpack", 5)},
				rejection: rejectionOf(noSuchConfig), running: runningSince(newBlueprint(7, "old", deleted5), morning),
			},
			want: []string{"Accepted True Accepted", "ResolvedRefs False PluginConfigNotFound", "Programmed False PreviousRuns", "Ready False PluginConfigNotFound", "Stalled True PluginConfigNotFound"},
			ready: `generation 7 with PluginConfig binpack (deleted) at generation 5 keeps running since 10:12; ` +
				`generation 7 with PluginConfig binpack at generation 5 refused: spec.pluginConfig[0].configRef.name: no PluginConfig "binpack"`,
		},
		"a plugin that cannot be built leaves the earlier generation running, and stalls": {
			observation: observation{
				profile: newProfile(7), blueprint: newBlueprint(7, "new"), failure: errNoLicence,
				running: runningSince(newBlueprint(6, "old"), morning),
			},
			want:  []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed False BuildFailed", "Ready False BuildFailed", "Stalled True BuildFailed"},
			ready: "generation 6 keeps running since 10:12; generation 7 failed: plugin Own could not be built: no licence",
		},
		"an error that is not a plugin's is retried, and does not stall": {
			observation: observation{profile: newProfile(1), blueprint: newBlueprint(1, "new"), failure: errors.New("informers did not sync")},
			want:        []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed False BuildFailed", "Ready False BuildFailed"},
			ready:       "nothing runs; generation 1 failed: informers did not sync",
		},
		"a superseded swap is neither ready nor stalled": {
			observation: observation{profile: newProfile(7), blueprint: newBlueprint(7, "new"), running: runningSince(newBlueprint(6, "old"), morning)},
			want:        []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed False PreviousRuns", "Ready False PreviousRuns"},
			ready:       "generation 6 keeps running since 10:12; generation 7 is not applied yet",
		},
		"a paused profile is programmed and not ready": {
			observation: observation{profile: newProfile(3, withPausedState), blueprint: newBlueprint(3, "new"), running: runningSince(newBlueprint(3, "new"), morning)},
			want:        []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready False Paused"},
			ready:       "generation 3 runs since 10:12; paused by spec.state: its pods wait",
		},
		"a paused profile with an invalid spec reports the error first": {
			observation: observation{profile: newProfile(3, withPausedState), rejection: rejectionOf(noSuchPlugin)},
			want:        []string{"Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs", "Programmed False NothingRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"},
			ready:       `nothing runs; generation 3 refused: spec.plugins.score.enabled[0].name: no plugin "NoSuch"`,
		},
		"the message has the date of another day": {
			observation: observation{profile: newProfile(7), blueprint: newBlueprint(7, "new"), running: runningSince(newBlueprint(7, "new"), morning.AddDate(0, 0, -1))},
			want:        []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"},
			ready:       "generation 7 runs since 2026-02-28 10:12",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.observation.now = startTime
			var got []string
			for _, r := range tt.observation.conditions() {
				got = append(got, strings.Join([]string{string(r.conditionType), string(r.status), string(r.reason)}, " "))
				if r.conditionType == v1alpha1.ConditionReady && r.message != tt.ready {
					t.Errorf("the message of Ready is\n%s\nwant\n%s", r.message, tt.ready)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachConditionReportsItsOwnErrors(t *testing.T) {
	v := observation{profile: newProfile(2, withConfigRef("NodeResourcesFit", "binpack")), rejection: rejectionOf(noSuchConfig, noSuchPlugin), now: startTime}
	for _, r := range v.conditions() {
		wantPlugin := r.conditionType != v1alpha1.ConditionResolvedRefs
		wantConfig := r.conditionType != v1alpha1.ConditionAccepted
		if got := strings.Contains(r.message, noSuchPlugin.Detail); got != wantPlugin {
			t.Errorf("%s reports the unknown plugin: %t, want %t: %s", r.conditionType, got, wantPlugin, r.message)
		}
		if got := strings.Contains(r.message, noSuchConfig.Detail); got != wantConfig {
			t.Errorf("%s reports the missing PluginConfig: %t, want %t: %s", r.conditionType, got, wantConfig, r.message)
		}
	}
}

func TestTruncateKeepsWholeCharacters(t *testing.T) {
	got := truncate(strings.Repeat("é", maxMessage), maxMessage)
	if len(got) > maxMessage || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-8:])
	}
}

// longName returns one of the longest names that an object may have.
func longName(i int) string { return fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 249)) }

// The API server refuses a status one of whose conditions has a longer message, so that the
// whole status would stay old.
func TestTheMessageOfAConditionIsBoundedAndKeepsTheReason(t *testing.T) {
	const most = 32768 // of the schema, in characters
	profile, configs := newProfile(7), map[string]*v1alpha1.PluginConfig{}
	var before []compile.ConfigGeneration
	for i := range 64 { // as many as the schema permits
		name := longName(i)
		withConfigRef(fmt.Sprint("Plugin", i), name)(profile)
		configs[name] = newConfig(name, 5)
		before = append(before, compile.ConfigGeneration{Name: name, Generation: 4, UID: "deleted"})
	}
	for name, c := range map[string]struct {
		observation observation
		reason      string
	}{
		"an invalid spec":       {observation{rejection: rejectionOf(noSuchPlugin)}, noSuchPlugin.Detail},
		"a spec that failed":    {observation{blueprint: newBlueprint(7, "new"), failure: errNoLicence}, "no licence"},
		"a long failure":        {observation{blueprint: newBlueprint(7, "new"), failure: errors.New("no licence" + strings.Repeat(" here", most))}, "no licence"},
		"a spec that waits":     {observation{blueprint: newBlueprint(7, "new"), deferred: errors.New("too many" + strings.Repeat(" pods", most))}, "too many"},
		"a spec to be approved": {observation{blueprint: newBlueprint(7, "new"), verdict: history.AwaitingApproval}, "kubectl annotate sprof batch --overwrite berth.dev/approved-hash=new"},
		"a spec that crashes":   {observation{blueprint: newBlueprint(7, "new"), verdict: history.Crashed, history: &history.ProfileHistory{}}, "kubectl berth retry batch"},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.observation
			v.profile, v.configs, v.now = profile, configs, startTime
			v.running = runningSince(newBlueprint(7, "old", before...), startTime)
			conditions := withTransitionTimes(v.conditions(), 7, nil, startTime)
			for _, condition := range conditions {
				if n := utf8.RuneCountInString(condition.Message); n > most {
					t.Errorf("the message of %s has %d characters, at most %d are accepted", condition.Type, n, most)
				}
			}
			if ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady)); !strings.Contains(ready.Message, c.reason) {
				t.Errorf("Ready says %q, which lacks %q", ready.Message, c.reason)
			}
		})
	}
}
