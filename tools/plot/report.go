package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"gonum.org/v1/plot/plotter"
)

// report has the fields of the JSON of make bench that are drawn.
type report struct {
	Steps []struct {
		Nodes int `json:"nodes"`
		Runs  map[string][]struct {
			Micros float64 `json:"us_per_pod"`
		} `json:"runs"`
	} `json:"steps"`
	Process []struct {
		Shape string  `json:"shape"`
		Load  string  `json:"load"`
		Rate  float64 `json:"podsPerSecond"`
		Runs  []struct {
			Side    string `json:"side"`
			Latency *struct {
				P50 float64 `json:"p50"`
				P99 float64 `json:"p99"`
			} `json:"latencyMillis"`
		} `json:"runs"`
	} `json:"process"`
}

// add adds the results of another run.
func (r *report) add(content []byte) error {
	var other report
	if err := json.Unmarshal(content, &other); err != nil {
		return err
	}
	r.Steps, r.Process = append(r.Steps, other.Steps...), append(r.Process, other.Process...)
	return nil
}

// podsPerSecondByNodes returns how many pods a second each algorithm schedules, by number of
// nodes.
func (r *report) podsPerSecondByNodes() chart {
	curves := map[string]plotter.XYs{}
	for _, step := range r.Steps {
		for side, runs := range step.Runs {
			var micros []float64
			for _, run := range runs {
				micros = append(micros, run.Micros)
			}
			if len(micros) > 0 {
				curves[side] = append(curves[side], plotter.XY{X: float64(step.Nodes), Y: 1e6 / median(micros)})
			}
		}
	}
	return chart{"The algorithm alone, basic: pods a second", "nodes", "pods a second", sortedCurves(curves)}
}

// latencyByLoad returns the time from creation to bind, by pods a second.
func (r *report) latencyByLoad() chart {
	type key struct {
		curve string
		rate  float64
	}
	seen := map[key][]float64{}
	for _, group := range r.Process {
		if group.Load != "open" || group.Shape != "basic" {
			continue
		}
		for _, run := range group.Runs {
			if run.Latency != nil {
				p50, p99 := key{run.Side + ", p50", group.Rate}, key{run.Side + ", p99", group.Rate}
				seen[p50], seen[p99] = append(seen[p50], run.Latency.P50), append(seen[p99], run.Latency.P99)
			}
		}
	}
	curves := map[string]plotter.XYs{}
	for k, values := range seen {
		curves[k.curve] = append(curves[k.curve], plotter.XY{X: k.rate, Y: median(values)})
	}
	return chart{"Whole processes, basic: from creation to bind", "pods created a second", "milliseconds", sortedCurves(curves)}
}

// sortedCurves returns the curves sorted by name, with sorted points.
func sortedCurves(curves map[string]plotter.XYs) (all []curve) {
	for _, name := range slices.Sorted(maps.Keys(curves)) {
		slices.SortFunc(curves[name], func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		all = append(all, curve{name, curves[name]})
	}
	return all
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
