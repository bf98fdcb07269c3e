package controllers

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestWhichUpdatesOfAProfileRequeueWhichObjects(t *testing.T) {
	ref := withConfigRef("NodeResourcesFit", "binpack")
	tests := map[string]struct {
		before, after         *v1alpha1.SchedulingProfile
		profile, pluginConfig bool
	}{
		"a new spec requeues the profile and the PluginConfigs it references": {
			before: newProfile(1), after: newProfile(2, ref), profile: true, pluginConfig: true,
		},
		"another object with the same name and generation requeues both": {
			before: newProfile(1), after: newProfile(1, func(p *v1alpha1.SchedulingProfile) { p.UID = "batch-2" }), profile: true, pluginConfig: true,
		},
		"a swap of PluginConfigs requeues these only": {
			before: newProfile(1, ref, withRunningConfig("binpack", 1)), after: newProfile(1, ref, withRunningConfig("binpack", 2)), pluginConfig: true,
		},
		"so does a swap to a PluginConfig that was created again, with the same generation": {
			before: newProfile(1, ref, withRunningConfigOf("binpack-0", "binpack", 1)), after: newProfile(1, ref, withRunningConfig("binpack", 1)), pluginConfig: true,
		},
		"counters requeue nothing": {
			before: newProfile(1), after: newProfile(1, func(p *v1alpha1.SchedulingProfile) {
				p.ResourceVersion, p.Status.Totals = "11", &v1alpha1.DecisionTotals{Bound: 1}
			}),
		},
		"a message requeues nothing": {
			before: newProfile(1, withCondition("True", "generation 1 runs")), after: newProfile(1, withCondition("True", "generation 1 runs since today")),
		},
		"a condition requeues the profile, since an earlier leader may have written it late": {
			before: newProfile(1, withCondition("True", "")), after: newProfile(1, withCondition("False", "")), profile: true,
		},
		"so does the generation that it is about": {
			before: newProfile(2), after: newProfile(2, func(p *v1alpha1.SchedulingProfile) { p.Status.ObservedGeneration = 1 }), profile: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}
			if got := ProfileChanged.Update(update); got != tt.profile {
				t.Errorf("the profile is requeued: %t, want %t", got, tt.profile)
			}
			if got := specChanged.Update(update) || runningConfigsChanged.Update(update); got != tt.pluginConfig {
				t.Errorf("PluginConfigs are requeued: %t, want %t", got, tt.pluginConfig)
			}
		})
	}
}

func TestWhichUpdatesOfAPluginConfigRequeueIt(t *testing.T) {
	withStatus := func(edit func(*v1alpha1.PluginConfigStatus)) *v1alpha1.PluginConfig {
		c := newConfig("binpack", 1)
		c.Status = v1alpha1.PluginConfigStatus{
			ObservedGeneration: 1, Hash: "a", ReferenceCount: 1, ReferencedBy: []v1alpha1.ObjectGeneration{{Name: "batch", Generation: 1}},
			Conditions: []metav1.Condition{{Type: "Programmed", Status: "True", Reason: "Programmed", ObservedGeneration: 1}},
		}
		edit(&c.Status)
		return c
	}
	recreated := newConfig("binpack", 1)
	recreated.UID = "binpack-2"
	for name, tt := range map[string]struct {
		before, after *v1alpha1.PluginConfig
		want          bool
	}{
		"a new spec requeues it": {before: newConfig("binpack", 1), after: newConfig("binpack", 2), want: true},
		"another object with the same name and generation requeues it":              {before: newConfig("binpack", 1), after: recreated, want: true},
		"a condition requeues it, since an earlier leader may have written it late": {after: withStatus(func(s *v1alpha1.PluginConfigStatus) { s.Conditions[0].Status = "False" }), want: true},
		"so does the generation that it is about":                                   {after: withStatus(func(s *v1alpha1.PluginConfigStatus) { s.ObservedGeneration = 0 }), want: true},
		"so does the hash":               {after: withStatus(func(s *v1alpha1.PluginConfigStatus) { s.Hash = "b" }), want: true},
		"so does the number of profiles": {after: withStatus(func(s *v1alpha1.PluginConfigStatus) { s.ReferenceCount = 2 }), want: true},
		"so do the profiles":             {after: withStatus(func(s *v1alpha1.PluginConfigStatus) { s.ReferencedBy[0].Generation = 2 }), want: true},
		"a message requeues nothing":     {after: withStatus(func(s *v1alpha1.PluginConfigStatus) { s.Conditions[0].Message = "since today" })},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.before == nil {
				tt.before = withStatus(func(*v1alpha1.PluginConfigStatus) {})
			}
			if got := configChanged.Update(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("it is requeued: %t, want %t", got, tt.want)
			}
		})
	}
}

func withCondition(status metav1.ConditionStatus, message string) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "Ready", Message: message}}
	}
}

func TestAProfileRequeuesThePluginConfigsItReferencesAndThoseItRuns(t *testing.T) {
	p := newProfile(2, withConfigRef("NodeResourcesFit", "spread"), withConfigRef("InterPodAffinity", "spread"), withRunningConfig("binpack", 1))
	var got []string
	for _, request := range configsReferencedBy(context.Background(), p) {
		got = append(got, request.Name)
	}
	if diff := cmp.Diff([]string{"binpack", "spread"}, got); diff != "" {
		t.Errorf("PluginConfigs (-want +got):\n%s", diff)
	}
}

func TestAPluginConfigRequeuesTheProfilesThatReferenceIt(t *testing.T) {
	r := &profileReconciler{reader: fakeReader{
		newProfile(1, withName("web"), withConfigRef("NodeResourcesFit", "binpack")), newProfile(1), newProfile(1, withName("gpu"), withConfigRef("NodeResourcesFit", "spread")),
	}}
	var got []string
	for _, request := range r.profilesThatReference(context.Background(), newConfig("binpack", 1)) {
		got = append(got, request.Name)
	}
	if diff := cmp.Diff([]string{"web"}, got); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}
