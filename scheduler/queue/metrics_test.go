package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/test/support/fixture"
)

// scrape returns the metrics of the queue that are not zero as "name{values} value",
// sorted.
func (w *testEnv) scrape() (lines []string) {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metricsCollector{w.Queue})
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			if value := metric.Gauge.GetValue(); value != 0 {
				lines = append(lines, fmt.Sprintf("%s{%s} %v", family.GetName(), labelValues(metric), value))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func labelValues(metric *dto.Metric) string {
	var values []string
	for _, label := range metric.Label {
		values = append(values, label.GetValue())
	}
	return strings.Join(values, ",")
}

func TestMetricsCollector(t *testing.T) {
	w := newTestEnv(t)
	pod := func(name string) *fixture.PodBuilder { return fixture.Pod(name).SchedulerName("p") }
	begin := float64(w.clock.Now().Unix())

	w.Add(w.ctx, pod("refused").Obj())
	w.clock.Step(time.Minute)
	w.TryPop().Refused(w.ctx, sets.New("A", "B"), sets.New("B"))
	w.hold = Hold{Reason: ProfilePaused}
	w.Add(w.ctx, pod("held").Obj())
	w.hold = Hold{}
	w.closedGates.Insert("G")
	w.Add(w.ctx, pod("gated").Obj())
	w.closedGates.Clear()
	w.Add(w.ctx, pod("waits").Obj())
	w.Add(w.ctx, pod("waits-too").Obj())

	want := []string{
		fmt.Sprintf("berth_held_pods{p,%s} 1", ProfilePaused),
		fmt.Sprintf("berth_oldest_pending_pod_timestamp_seconds{p} %v", begin),
		"scheduler_pending_pods{active} 2", "scheduler_pending_pods{gated} 1", "scheduler_pending_pods{unschedulable} 1",
		"scheduler_queued_entities{active,pod} 2", "scheduler_queued_entities{gated,pod} 1", "scheduler_queued_entities{unschedulable,pod} 1",
		"scheduler_unschedulable_pods{A,p} 1", "scheduler_unschedulable_pods{B,p} 1", "scheduler_unschedulable_pods{G,p} 1",
	}
	if diff := cmp.Diff(want, w.scrape()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	popped := w.TryPop()
	w.Event(w.ctx, nodeAdd, nil, fixture.Node("n").Obj(), nil)
	if got := w.scrape(); !slices.Contains(got, "scheduler_inflight_events{PodPopped} 1") || !slices.Contains(got, "scheduler_inflight_events{NodeAdd} 1") {
		t.Errorf("while %s is in flight: %v", popped.Pod.Name, got)
	}
}

func TestIncomingPodsAreCountedUnderBothNames(t *testing.T) {
	incomingPods.Reset()
	incomingMembers.Reset()
	incomingGroups.Reset()
	incomingPods.WithLabelValues("active", "NodeAdd").Add(3)
	countIncoming(&Entity{podGroup: &podGroup{members: make([]*Entity, 2)}}, "active", "NodeAdd")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(entitiesCollector{})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"NodeAdd,active,pod 3", "NodeAdd,active,podgroup 1"} {
		metric := families[0].Metric[i]
		if got := fmt.Sprint(labelValues(metric), " ", metric.Counter.GetValue()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
