package main

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	replaying "github.com/berthdev/berth/test/replay/run"
)

// costsFile has the allowed cost of a pod, by shape.
const costsFile = "testdata/costs.json"

var update = flag.Bool("update", false, "write "+costsFile+" from new measurements")

// costs are costs in units that do not depend on the machine.
type costs struct {
	// From is the command of the measurement.
	From string `json:"from"`
	// Shapes are by name.
	Shapes map[string]cost `json:"shapes"`
	// Process is what a pod of the first shape costs the whole process, with a real API server.
	Process counters `json:"process"`
}

// cost is the average cost of a pod of a shape.
type cost struct {
	// Allocs is the number of allocations, from the decoded pod to assumed.
	Allocs float64 `json:"allocs"`
	// Evaluated is the number of verdicts that plugins computed; all others came from the
	// equivalence cache.
	Evaluated float64 `json:"evaluated"`
	// Uncached is the number of pods in a thousand without the equivalence cache.
	Uncached float64 `json:"uncachedPerThousand"`
}

// slack is the allowed deviation, since maps and slices grow in steps.
const slack = 0.15

// The allocations and plugin calls of a pod are those in the file, neither more nor less: an
// improvement is recorded there as well, with
//
//	go test ./test/perf -run TestWhatAPodCosts -update
func TestWhatAPodCosts(t *testing.T) {
	const nodes, existing, pods = 1000, 500, 3000
	known := readCosts(t)
	measured := map[string]cost{}
	for _, s := range standardShapes {
		t.Run(s.name, func(t *testing.T) {
			o := options{nodes: nodes, zones: 3, existing: existing, pods: pods}
			s.nodes, s.existing, s.count = nodes, existing, pods
			got := costOf(t, s, o, replaying.DefaultProfile())
			measured[s.name] = got
			if *update {
				return
			}
			want, there := known.Shapes[s.name]
			if !there {
				t.Fatalf("%s has no shape %s", costsFile, s.name)
			}
			for what, pair := range map[string][2]float64{
				"allocations": {want.Allocs, got.Allocs}, "verdicts": {want.Evaluated, got.Evaluated}, "uncached attempts of a thousand": {want.Uncached, got.Uncached},
			} {
				if want, got := pair[0], pair[1]; math.Abs(got-want) > want*slack+0.5 {
					t.Errorf("a pod costs %.1f %s, want %.1f as of %s; if that is intended, update the file", got, what, want, known.From)
				}
			}
		})
	}
	if *update {
		known.Shapes = measured
		known.write(t)
	}
}

// The requests, bytes and allocations of a pod in the whole process, from its creation to its
// Event, are those in the file as well.
func TestWhatAPodCostsTheProcess(t *testing.T) {
	o, err := parse([]string{
		"--layers=process", "--shapes=basic", "--loads=burst", "--sides=berth", "--nodes=100", "--existing=50", "--pods=1000",
		"--rounds=1", "--limit=3m", "--json=" + filepath.Join(t.TempDir(), "bench.json"),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: o, out: io.Discard}
	if b.plugins, err = resolve(); err != nil {
		t.Fatal(err)
	}
	if err := b.processes(t.Context()); err != nil {
		t.Fatal(err)
	}
	known, got := readCosts(t), b.report.Groups[0].Runs[0].Counted
	if *update {
		known.Process = got
		known.write(t)
		return
	}
	want := known.Process
	if got.Writes != want.Writes {
		t.Errorf("a pod costs %v writes, want %v: its Binding and its Event", got.Writes, want.Writes)
	}
	for what, pair := range map[string][2]float64{
		"KB read": {want.ReadKB, got.ReadKB}, "KB written": {want.WrittenKB, got.WrittenKB},
		"allocations": {want.Allocs, got.Allocs}, "KB allocated": {want.AllocatedKB, got.AllocatedKB},
	} {
		if want, got := pair[0], pair[1]; math.Abs(got-want) > want*slack {
			t.Errorf("a pod costs %.2f %s, want %.2f as of %s; if that is intended, update the file", got, what, want, known.From)
		}
	}
}

// Pods without volumes have no cost through the plugins for volumes.
func TestPodsWithoutVolumesHaveNoCostThroughVolumePlugins(t *testing.T) {
	const nodes, existing, pods = 200, 100, 2000
	without := replaying.DefaultProfile()
	var volumes v1alpha1.PluginSet
	for _, name := range []string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"} {
		volumes.Disabled = append(volumes.Disabled, v1alpha1.DisabledPlugin{Name: name})
	}
	without.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: volumes}
	s, o := standardShapes[0], options{nodes: nodes, zones: 3, existing: existing, pods: pods}
	s.nodes, s.existing, s.count = nodes, existing, pods
	with, bare := costOf(t, s, o, replaying.DefaultProfile()), costOf(t, s, o, without)
	if math.Abs(with.Allocs-bare.Allocs) > 0.5 || with.Evaluated != bare.Evaluated || with.Uncached != bare.Uncached {
		t.Errorf("a pod costs %+v with the plugins and %+v without", with, bare)
	}
}

// costOf replays a shape with a profile.
func costOf(t *testing.T, s shape, o options, profile *v1alpha1.SchedulingProfile) cost {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if err := writeLog(path, s, o); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	scheduler, err := replaying.NewBerth(t.Context(), replaying.Config{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	bench, err := replaying.Measure(scheduler, log.NewReader(file).Next)
	if err != nil {
		t.Fatal(err)
	}
	stats, n := scheduler.EquivalenceCache().Stats(), float64(bench.Pods)
	round := func(v float64) float64 { return math.Round(v*10) / 10 }
	return cost{Allocs: round(bench.AllocsPerPod), Evaluated: round(float64(stats.Evaluated) / n), Uncached: round(1000 * float64(stats.Uncached) / n)}
}

// readCosts reads the file.
func readCosts(t *testing.T) (known costs) {
	t.Helper()
	text, err := os.ReadFile(costsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	return known
}

// write writes the file.
func (c costs) write(t *testing.T) {
	t.Helper()
	c.From = "go test ./test/perf -run TestWhatAPodCosts -update, " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(costsFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
