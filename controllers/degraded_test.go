package controllers

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/profile"
)

// degrade sets the degradations of what runs.
func (d *testEnv) degrade(degradations ...profile.Degradation) {
	running := d.applier.running["batch"]
	running.Degradations = degradations
	d.applier.running["batch"] = running
}

func TestDegradedPluginsAreACondition(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	ready := []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"}
	wantConditions := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, d.statuses.last(t).conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
	wantConditions(ready...)

	hangs := profile.Degradation{
		Reason: profile.PluginHangs, Message: `2 of at most 16 calls of its plugins have not returned, the last of plugin "Own" from Filter`,
	}
	missed := profile.Degradation{Reason: profile.EventsMissed, Message: "events of foos.v1.example.com are not received"}
	d.events.events, d.events.notes = nil, nil
	d.degrade(hangs)
	d.mustReconcile()
	wantConditions(append(slices.Clone(ready), "Degraded True PluginHangs")...)
	d.wantMessage(v1alpha1.ConditionDegraded, hangs.Message)
	d.wantMessage(v1alpha1.ConditionReady, "generation 1 runs since 12:00")
	d.wantEvent("Warning PluginHangs Degraded", "Degraded is True: "+hangs.Message)
	if got := d.conditionMetric("Degraded"); got != "PluginHangs 1" {
		t.Errorf("berth_profile_condition of Degraded is %q", got)
	}

	// A degradation that differs in a number only is not reported again; a new one is.
	more := hangs
	more.Message = "3" + hangs.Message[1:]
	d.degrade(more, missed)
	d.mustReconcile()
	wantConditions(append(slices.Clone(ready), "Degraded True PluginHangs")...)
	d.wantMessage(v1alpha1.ConditionDegraded, more.Message+"; "+missed.Message)
	d.wantEvent("Warning EventsMissed Degraded", "Degraded is True: "+missed.Message)

	d.degrade()
	d.mustReconcile()
	wantConditions(ready...)
	d.wantEvent("Normal PluginHangs Degraded", "Degraded is over")
	if got := d.conditionMetric("Degraded"); got != "" {
		t.Errorf("berth_profile_condition of Degraded is %q, want none", got)
	}
}

func TestARejectedEditLeavesTheRunningProfileDegraded(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.degrade(profile.Degradation{Reason: profile.QueueSortReplaced, Message: "broken"})
	d.reject = rejectionOf(noSuchPlugin)
	d.edit(2)
	want := []string{"Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs", "Programmed False PreviousRuns", "Ready False UnknownPlugin",
		"Degraded True QueueSortReplaced", "Stalled True UnknownPlugin"}
	if diff := cmp.Diff(want, d.statuses.last(t).conditions()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestReasonsOfDegradationsAreReasonsOfTheAPI(t *testing.T) {
	for reason, want := range map[profile.DegradationReason]v1alpha1.ConditionReason{
		profile.TooManyAbandonedCalls: v1alpha1.ReasonTooManyAbandonedCalls,
		profile.QueueSortReplaced:     v1alpha1.ReasonQueueSortReplaced,
		profile.PluginHangs:           v1alpha1.ReasonPluginHangs,
		profile.EventsMissed:          v1alpha1.ReasonEventsMissed,
	} {
		if string(reason) != string(want) {
			t.Errorf("%s, want %s", reason, want)
		}
	}
}

// wantEvent compares the one Event since the last call.
func (d *testEnv) wantEvent(event, note string) {
	d.t.Helper()
	if diff := cmp.Diff([][]string{{event}, {note}}, [][]string{d.events.events, d.events.notes}); diff != "" {
		d.t.Errorf("events and their notes (-want +got):\n%s", diff)
	}
	d.events.events, d.events.notes = nil, nil
}

// conditionMetric returns the reason and the value of berth_profile_condition for a
// condition of the profile batch; empty when there is none.
func (d *testEnv) conditionMetric(condition string) string {
	d.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName() == "berth_profile_condition" && labels["profile"] == "batch" && labels["condition"] == condition {
				return labels["reason"] + " " + map[float64]string{0: "0", 1: "1"}[m.GetGauge().GetValue()]
			}
		}
	}
	return ""
}
