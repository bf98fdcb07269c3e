package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berthdev/berth/test/support/logs"
)

func TestInvalidFlagsAreNamed(t *testing.T) {
	for sentence, c := range map[string]struct{ flag, want string }{
		"an unknown shape":               {"--shapes=basic,round", `--shapes: must be of basic, deployments, node-affinity, spread, affinity, anti-affinity, `},
		"an unknown side":                {"--sides=volcano", `--sides: must be of berth, kube-scheduler,`},
		"an unknown load":                {"--loads=flood", `--loads: must be of drain, burst, burst+unfit, alternating, alternating+unfit, alternating+drain, open, burst+node-changes, start, is "flood"`},
		"a size without pods":            {"--sizes=100", `--sizes: must be numbers of nodes and of bound pods, such as 1000:5000, is "100"`},
		"a size without nodes":           {"--sizes=0:5", `--sizes: must be numbers of nodes and of bound pods, such as 1000:5000, is "0:5"`},
		"an unknown layer":               {"--layers=all", `--layers: must be of algorithm, process, is "all"`},
		"an unknown set of plugins":      {"--kube-plugins=few", `--kube-plugins: must be of same, default, is "few"`},
		"no nodes":                       {"--nodes=0", "--nodes: must be at least 1, is 0"},
		"one pod alone":                  {"--pods=1", "--pods: must be at least 2, is 1"},
		"a rate of zero":                 {"--rates=0", "--rates: must be at least 0.1, is 0"},
		"shares without a burst":         {"--shares=0.5", "--shares: must be with --loads=burst,open and side berth"},
		"no rounds":                      {"--rounds=0", "--rounds: must be at least 1, is 0"},
		"an argument that is not a flag": {"basic", `unexpected argument "basic": only flags are taken`},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := parse([]string{c.flag})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestALoadThatExceedsTheCapacityIsRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		shape string
		args  []string
		want  string
	}{
		"the defaults fit":                              {shape: "basic"},
		"a shape may override the number of nodes":      {shape: "large"},
		"a shape that preempts needs no free resources": {shape: "preempt"},
		"more pods than nodes may have":                 {"basic", []string{"--nodes=1", "--existing=100", "--pods=50"}, "--nodes: 1 nodes take 110 pods, not 50 and 100 existing ones"},
		"more CPU than the nodes have":                  {"basic", []string{"--nodes=1", "--existing=0", "--pods=40"}, "request 100% of what 1 nodes have of cpu; at most 90%"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := parse(append([]string{"--shapes=" + c.shape, "--loads=drain"}, c.args...))
			if err != nil {
				t.Fatal(err)
			}
			err = (&bench{options: o}).checkCapacity()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The replay reads each shape's log, with all objects of the shape.
func TestEveryShapesLogCanBeReplayed(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		if s.processOnly() {
			continue
		}
		s.nodes, s.existing, s.count = 10, 4, 6 // instead of its thousands
		t.Run(s.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log.jsonl")
			if err := writeLog(path, s, o); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			ops, err := logs.ReadAll(file)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, op := range ops {
				kind := op.Object.GetObjectKind().GroupVersionKind().Kind
				if pod, ok := op.Object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
					kind = "running Pod"
				}
				if claim, ok := op.Object.(*resourceapi.ResourceClaim); ok && claim.Status.Allocation != nil {
					kind = "allocated ResourceClaim"
				}
				got[string(op.Kind)+" "+kind]++
			}
			want := map[string]int{
				"apply Namespace": 1, "apply Node": s.nodes, "apply running Pod": s.existing, "schedule Pod": s.count,
			}
			for _, object := range s.extras() {
				if err := setKind(object); err != nil {
					t.Fatal(err)
				}
				want["apply "+object.GetObjectKind().GroupVersionKind().Kind]++
			}
			if s.devices != nil {
				want["apply DeviceClass"], want["apply ResourceSlice"] = 1, s.nodes
				want["apply ResourceClaim"], want["apply allocated ResourceClaim"] = s.count, s.nodes+s.count
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ops (-want +got):\n%s", diff)
			}
		})
	}
}
