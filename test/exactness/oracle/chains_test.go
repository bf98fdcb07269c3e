package main

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var stanzas = flag.Int("stanzas", 10000, "how many generated plugins stanzas are compared")

// Whatever a profile enables and disables, what runs in the end is what
// kube-scheduler would run. Berth may refuse what kube-scheduler takes, such
// as a weight where nothing scores; what Berth takes kube-scheduler takes.
func TestGeneratedStanzasGiveTheSameChains(t *testing.T) {
	var equal, refused, stricter int
	for seed := *firstSeed; equal < *stanzas; seed++ {
		config := run.Config{Profile: run.DefaultProfile()}
		generate.Stanza(rand.New(rand.NewPCG(seed, 0)), &config.Profile.Spec, seed%4 == 0)
		blueprint, rejection := compile.Profile(compile.Input{Profile: config.Profile, Registry: plugins.InTree()})
		theirs, err := upstream.Chains(config)
		switch {
		case rejection != nil && err != nil:
			refused++
		case rejection != nil:
			stricter++
		case err != nil:
			t.Errorf("seed %d: Berth takes what kube-scheduler refuses (%v):\n%s", seed, err, stanza(t, config))
		default:
			equal++
			if diff := cmp.Diff(theirs, blueprint.Chains); diff != "" {
				t.Errorf("seed %d: chains (-kube-scheduler,+Berth):\n%s%s", seed, diff, stanza(t, config))
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d stanzas with equal chains, %d that both refuse, %d that Berth alone refuses", equal, refused, stricter)
}

func stanza(t *testing.T, config run.Config) string {
	text, err := yaml.Marshal(config.Profile.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
