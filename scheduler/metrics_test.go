package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/probe"
)

// metrics returns the scheduler's metrics by name{values}: counts, or gauge values.
func (env *testEnv) metrics() map[string]float64 {
	env.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(env.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		env.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			var values []string
			for _, label := range metric.Label {
				values = append(values, label.GetValue())
			}
			all[fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(values, ","))] = amount(metric)
		}
	}
	return all
}

func amount(m *dto.Metric) float64 {
	switch {
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Counter != nil:
		return m.Counter.GetValue()
	}
	return m.Gauge.GetValue()
}

func TestMetricsOfAttempts(t *testing.T) {
	const pods = 2 * framework.SampleEvery
	runTest(t, func(env *testEnv) {
		env.apply("one")
		defer env.startLeading()()
		before := env.metrics()
		for i := range pods {
			env.create(webPod(fmt.Sprint("a", i)))
		}
		after, want := env.metrics(), map[string]float64{
			"scheduler_schedule_attempts_total{p,scheduled}":                        pods,
			"scheduler_scheduling_algorithm_duration_seconds{}":                     pods,
			"scheduler_pod_scheduling_sli_duration_seconds{1}":                      pods,
			"scheduler_plugin_execution_duration_seconds{Reserve,A,Success}":        pods / framework.SampleEvery,
			"scheduler_plugin_evaluation_total{PreFilter,A,p}":                      pods,
			"scheduler_queue_incoming_pods_total{UnscheduledPodAdd,active}":         pods,
			"scheduler_queue_incoming_entities_total{UnscheduledPodAdd,active,pod}": pods,
			"scheduler_event_handling_duration_seconds{UnscheduledPodAdd}":          pods,
			"scheduler_cache_size{pods}":                                            pods,
		}
		got := map[string]float64{}
		for name := range want {
			got[name] = after[name] - before[name]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("more than before (-want +got):\n%s", diff)
		}
		for name, want := range map[string]float64{"scheduler_cache_size{nodes}": 2, "scheduler_cache_size{assumed_pods}": 0, "scheduler_goroutines{binding}": 0} {
			if got, found := after[name]; got != want || !found {
				t.Errorf("%s is %v (%v), want %v", name, got, found, want)
			}
		}
	}, node("n1"), node("n2"))
}

func TestAProfileThatIsGoneLeavesNoSeries(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("too small"))
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		of := func() (names []string) {
			for name := range env.metrics() {
				if slices.Contains(strings.Split(strings.TrimSuffix(name[strings.Index(name, "{")+1:], "}"), ","), "p") {
					names = append(names, name)
				}
			}
			return names
		}
		if len(of()) == 0 {
			t.Fatal("nothing is measured of the profile")
		}
		env.cluster.DeletePod(webPod("a"))
		env.Profiles().Delete("p")
		synctest.Wait()
		if left := of(); len(left) > 0 {
			t.Errorf("series left: %q", left)
		}
	}, node("n1"))
}
