package controllers

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestWhichUpdatesOfAProfileWakeWhom(t *testing.T) {
	names := naming("NodeResourcesFit", "binpack")
	tests := map[string]struct {
		before, after         *v1alpha1.SchedulingProfile
		profile, pluginConfig bool
	}{
		"a new spec wakes the profile and the PluginConfigs it names": {
			before: aProfile(1), after: aProfile(2, names), profile: true, pluginConfig: true,
		},
		"another object of the same name and generation is not taken for the old one": {
			before: aProfile(1), after: aProfile(1, func(p *v1alpha1.SchedulingProfile) { p.UID = "batch-2" }), profile: true, pluginConfig: true,
		},
		"a swap wakes the PluginConfigs alone": {
			before: aProfile(1, names, running("binpack", 1)), after: aProfile(1, names, running("binpack", 2)), pluginConfig: true,
		},
		"counters wake nobody": {
			before: aProfile(1), after: aProfile(1, func(p *v1alpha1.SchedulingProfile) {
				p.ResourceVersion, p.Status.Totals = "11", &v1alpha1.DecisionTotals{Bound: 1}
			}),
		},
		"a condition wakes nobody": {
			before: aProfile(1), after: aProfile(1, func(p *v1alpha1.SchedulingProfile) {
				p.ResourceVersion, p.Status.ObservedGeneration = "11", 1
			}),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}
			if got := specChanged.Update(update); got != tt.profile {
				t.Errorf("the profile is visited: %t, want %t", got, tt.profile)
			}
			if got := specChanged.Update(update) || programmeChanged.Update(update); got != tt.pluginConfig {
				t.Errorf("PluginConfigs are visited: %t, want %t", got, tt.pluginConfig)
			}
		})
	}
}

func TestAProfileConcernsThePluginConfigsItNamesAndThoseItRuns(t *testing.T) {
	p := aProfile(2, naming("NodeResourcesFit", "spread"), naming("InterPodAffinity", "spread"), running("binpack", 1))
	var got []string
	for _, request := range configsNamedBy(context.Background(), p) {
		got = append(got, request.Name)
	}
	if diff := cmp.Diff([]string{"binpack", "spread"}, got); diff != "" {
		t.Errorf("PluginConfigs (-want +got):\n%s", diff)
	}
}

func TestAPluginConfigConcernsTheProfilesThatNameIt(t *testing.T) {
	r := &profileReconciler{reader: objects{
		aProfile(1, named("web"), naming("NodeResourcesFit", "binpack")), aProfile(1), aProfile(1, named("gpu"), naming("NodeResourcesFit", "spread")),
	}}
	var got []string
	for _, request := range r.profilesThatName(context.Background(), aConfig("binpack", 1)) {
		got = append(got, request.Name)
	}
	if diff := cmp.Diff([]string{"web"}, got); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}
