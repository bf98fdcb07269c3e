package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestTheHashAndStartOfTheRunningGenerationAreAMetric(t *testing.T) {
	first, second := newBlueprint(1, "first"), newBlueprint(2, "second")
	collector := &profileCollector{states: map[string]profileState{}}
	for _, step := range []struct {
		name string
		observation
		want map[string]float64
	}{
		{"nothing runs", observation{blueprint: first}, map[string]float64{}},
		{"a generation starts", observation{blueprint: first, running: runningSince(first, time.UnixMilli(1_000_500))}, map[string]float64{"batch first": 1000.5}},
		{"a swap", observation{blueprint: second, running: runningSince(second, time.UnixMilli(2_000_000))}, map[string]float64{"batch second": 2000}},
	} {
		step.profile = newProfile(1)
		collector.record(step.observation)
		if diff := cmp.Diff(step.want, startTimes(t, collector)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// startTimes returns the values of berth_profile_generation_start_time_seconds by profile
// and hash.
func startTimes(t *testing.T, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "berth_profile_generation_start_time_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			found[labels["profile"]+" "+labels["hash"]] = m.GetGauge().GetValue()
		}
	}
	return found
}
