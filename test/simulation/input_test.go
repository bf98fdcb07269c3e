package simulation

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChangedInputsAreReadAsTheyAreWritten(t *testing.T) {
	m := newMutator(rand.New(rand.NewPCG(1, 4)))
	in := input{Seed: 5}
	for range 300 {
		in = m.change(parent{in, 500}, input{Seed: 8})
		read, err := readInput(in.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, read, cmp.AllowUnexported(plannedAction{})); diff != "" {
			t.Fatalf("(-written,+read):\n%s", diff)
		}
	}
	if in.Plan == nil || len(in.At) == 0 || len(in.Settings) == 0 || len(in.Outcomes) == 0 {
		t.Errorf("300 changes leave something as the seed draws it: %s", in)
	}
}

func TestInputsThatCannotBeRead(t *testing.T) {
	for line, want := range map[string]string{
		`{"seed":`:                       "unexpected EOF",
		`{"seed":1,"sed":2}`:             "unknown field",
		`{"seed":1,"kind":"towns"}`:      `no kind of histories "towns"`,
		`{"seed":1,"plan":["a b"]}`:      "must be a seed and a kind of action",
		`{"seed":1,"plan":["17"]}`:       "must be a seed and a kind of action",
		`{"seed":1,"plan":[{"seed":1}]}`: "cannot unmarshal",
	} {
		if _, err := readInput(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want one with %q", line, err, want)
		}
	}
}

// What an input replaces is replaced, and nothing else.
func TestWhatAnInputReplaces(t *testing.T) {
	// A seed without leaders, whose history binds pods, and has Probe out-of-tree.
	seed := uint64(3)
	for seed%4 == 1 || pods.run(seed, false).counts["bind done"] < 5 {
		seed += 3
	}
	drawn := pods.run(seed, true)
	plan := newMutator(nil).planOf(input{Seed: seed})
	for sentence, c := range map[string]struct {
		in    input
		check func(sim *simulation) bool
	}{
		"nothing": {
			input{Seed: seed}, func(sim *simulation) bool { return sim.logHash.Sum64() == drawn.logHash.Sum64() },
		},
		"the drawn plan, by itself": {
			input{Seed: seed, Plan: plan}, func(sim *simulation) bool { return sim.logHash.Sum64() == drawn.logHash.Sum64() },
		},
		"the plan, by one action": {
			input{Seed: seed, Plan: []plannedAction{{createsPods, 7}}}, func(sim *simulation) bool { return len(sim.plan) == 1 && sim.counts[createsPods] == 1 },
		},
		"the plan, by a gap and a kind of action that it cannot have": {
			input{Seed: seed, Plan: []plannedAction{{}, {leaderReplaced, 1}}}, func(sim *simulation) bool { return sim.counts[createsPods] == 0 && sim.counts[leaderReplaced] == 0 },
		},
		"a setting": {
			input{Seed: seed, Settings: map[string]float64{"nodes": 7, "recreate": 1, "outOfTree": 0}},
			func(sim *simulation) bool {
				return sim.settings.nodes == 7 && sim.settings.recreate && !sim.settings.outOfTree && sim.settings.slowCalls == 0
			},
		},
		"a probability of faults, and their outcome": {
			input{Seed: seed, Settings: map[string]float64{"requestFaults.bind": 1}, Outcomes: map[string]string{"bind": "is forbidden"}},
			func(sim *simulation) bool { return sim.counts["bind is forbidden"] > sim.counts["bind is lost"] },
		},
		"what happens at a step": {
			input{Seed: seed, At: []intervention{{Step: 20, Action: "the process is killed"}}},
			func(sim *simulation) bool { return hasLine(sim, "  20 ", "at this step: the process is killed") },
		},
		"the schedule from a step on": {
			input{Seed: seed, At: []intervention{{Step: 50, Seed: 1}}},
			func(sim *simulation) bool {
				before := slices.IndexFunc(drawn.log, func(line string) bool { return strings.HasPrefix(line, "  5") })
				return slices.Equal(sim.log[:before], drawn.log[:before]) && sim.logHash.Sum64() != drawn.logHash.Sum64()
			},
		},
		"a request": {
			input{
				Seed: seed, Settings: map[string]float64{"requestFaults.bind": 0},
				At: []intervention{{Step: 1, Fails: "bind", Outcome: "is forbidden"}},
			},
			func(sim *simulation) bool { return sim.counts["bind is forbidden"] == 1 },
		},
		"a plugin's call": {
			input{Seed: seed, Settings: map[string]float64{"pluginFaults": 0}, At: []intervention{{Step: 1, Fails: "Filter"}}},
			func(sim *simulation) bool {
				return sim.counts["a panic in Filter"]+sim.counts["an error in Filter"] == 1
			},
		},
	} {
		sim := c.in.run(runOptions{keepLog: true})
		if sim.failure != nil {
			t.Errorf("%s: %v", sentence, sim.failure)
		}
		if !c.check(sim) {
			t.Errorf("an input does not replace %s:\n%s", sentence, strings.Join(sim.log, "\n"))
		}
	}
}

// hasLine says whether the log has a line with a beginning and an end.
func hasLine(sim *simulation, beginning, end string) bool {
	for _, line := range sim.log {
		if strings.HasPrefix(line, beginning) && strings.HasSuffix(line, end) {
			return true
		}
	}
	return false
}

// A failure of which two actions, one fault and one setting are the cause shrinks to these.
func TestShrinkLeavesWhatAFailureNeeds(t *testing.T) {
	in := input{
		Seed: 3, Settings: map[string]float64{"recreate": 1, "weights.task": 9, "pluginFaults": 0},
		At: []intervention{{Step: 15, Seed: 4}, {Step: 30, Action: "the process is killed"}, {Step: 40, Fails: "Filter"}},
	}
	play := func(in input, o runOptions) *simulation {
		sim := in.run(o)
		if sim.settings.recreate && sim.counts["a crash"] > 0 && sim.counts["a node is added"] > 0 && sim.counts[createsPods] > 0 {
			sim.failure = errors.New("as planted")
		}
		return sim
	}
	smallest, story := shrink(in, play)
	gaps := slices.DeleteFunc(slices.Clone(smallest.Plan), func(a plannedAction) bool { return a.kind != "" })
	if len(smallest.At) != 1 || len(smallest.Settings) != 1 || len(smallest.Plan)-len(gaps) != 2 {
		t.Errorf("what is left is not smallest: %s", smallest)
	}
	if !strings.HasPrefix(story, "as planted\n2 of ") || !strings.Contains(story, "at this step: the process is killed") {
		t.Errorf("the story does not say what happened: %s", story)
	}
}
