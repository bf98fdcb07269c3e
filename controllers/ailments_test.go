package controllers

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestDegradedPluginsAreReported(t *testing.T) {
	p := newProfile(1)
	d := newTestEnv(t, p)
	d.mustReconcile()
	const late = `2 of at most 16 calls of its plugins have not returned, the last of plugin "Own" from Filter`
	running := d.applier.running["batch"]
	running.Degradations = []string{late}
	d.applier.running["batch"] = running
	d.mustReconcile()
	for _, condition := range []v1alpha1.ConditionType{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		d.wantMessage(condition, "generation 1 runs since 12:00, ailing ("+late+")")
	}
	if !slices.Contains(d.events.events, "Warning PluginAiling Run") || d.events.notes[len(d.events.notes)-1] != "generation 1: "+late {
		t.Errorf("events %q: %q", d.events.events, d.events.notes)
	}

	// A degradation that differs in a number only is not reported again.
	reported := len(d.events.events)
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: string(v1alpha1.ConditionReady), Status: metav1.ConditionTrue, Message: d.message(v1alpha1.ConditionReady)})
	running.Degradations = []string{`3` + late[1:]}
	d.applier.running["batch"] = running
	d.mustReconcile()
	if slices.Contains(d.events.events[reported:], "Warning PluginAiling Run") {
		t.Errorf("events %q", d.events.events[reported:])
	}

	running.Degradations = nil
	d.applier.running["batch"] = running
	d.mustReconcile()
	d.wantMessage(v1alpha1.ConditionReady, "generation 1 runs since 12:00")
}
