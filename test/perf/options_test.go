package main

import (
	"strings"
	"testing"
)

func TestWrongFlagsAreNamed(t *testing.T) {
	for sentence, c := range map[string]struct{ flag, want string }{
		"a shape that there is not":        {"--shapes=basic,round", `--shapes: must be of basic, deployments, node-affinity, spread, affinity, anti-affinity, `},
		"a side that there is not":         {"--sides=volcano", `--sides: must be of berth, kube-scheduler,`},
		"a load that there is not":         {"--loads=flood", `--loads: must be of drain, burst, crowd, turns, turns+crowd, open, is "flood"`},
		"a layer that there is not":        {"--layers=all", `--layers: must be of algorithm, process, is "all"`},
		"plugins that there are not":       {"--kube-plugins=few", `--kube-plugins: must be of same, default, is "few"`},
		"no nodes":                         {"--nodes=0", "--nodes: must be at least 1, is 0"},
		"one pod alone":                    {"--pods=1", "--pods: must be at least 2, is 1"},
		"a rate of nothing":                {"--rates=0", "--rates: must be at least 0.1, is 0"},
		"no rounds":                        {"--rounds=0", "--rounds: must be at least 1, is 0"},
		"an argument that belongs nowhere": {"basic", `unexpected argument "basic": only flags are taken`},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := parse([]string{c.flag})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestALoadThatCannotAllBeBoundIsRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		shape string
		args  []string
		want  string
	}{
		"the defaults fit":             {shape: "basic"},
		"a shape may bring its nodes":  {shape: "large"},
		"or be about the want of room": {shape: "preempt"},
		"more pods than places":        {"basic", []string{"--nodes=1", "--existing=100", "--pods=50"}, "--nodes: 1 nodes take 110 pods, not 50 and 100 existing ones"},
		"more CPU than there is":       {"basic", []string{"--nodes=1", "--existing=0", "--pods=40"}, "want 100% of what 1 nodes have of cpu; at most 90%"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := parse(append([]string{"--shapes=" + c.shape, "--loads=drain"}, c.args...))
			if err != nil {
				t.Fatal(err)
			}
			err = (&bench{options: o}).checkRoom()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
