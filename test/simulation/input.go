package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// kinds are the kinds of histories that an input can name.
var kinds = map[string]kind{"": {}, "gangs": {gangs: 20}, "replicas": {replicas: true}, "gangs of replicas": gangsAndReplicas}

// input decides a history: the seed draws settings, plan and schedule, and the other fields
// replace parts of what it draws. The same input gives the same history.
type input struct {
	// Kind is one of kinds; empty for single pods.
	Kind string `json:"kind,omitempty"`
	Seed uint64 `json:"seed"`
	// Settings are numbers by their names in settings.numbers.
	Settings map[string]float64 `json:"settings,omitempty"`
	// Outcomes are the frequent outcomes of verbs.
	Outcomes map[string]string `json:"outcomes,omitempty"`
	// At is what happens at a step, in the order of steps.
	At []intervention `json:"at,omitempty"`
	// Plan replaces the plan that the seed draws; nil: it does not.
	Plan []plannedAction `json:"plan,omitempty"`
}

// kind returns the kind of the input's history.
func (in input) kind() kind { return kinds[in.Kind] }

// run plays the input.
func (in input) run(o runOptions) *simulation { return in.kind().runInput(in, o) }

// String returns the input as one line of JSON.
func (in input) String() string {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	return string(text)
}

// readInput reads a line that String returned.
func readInput(line string) (input, error) {
	var in input
	reader := json.NewDecoder(strings.NewReader(line))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&in); err != nil {
		return in, fmt.Errorf("reading an input: %w", err)
	}
	if _, ok := kinds[in.Kind]; !ok {
		return in, fmt.Errorf("reading an input: there is no kind of histories %q", in.Kind)
	}
	return in, nil
}

// plannedAction is an action of a plan. One without a kind leaves a gap: nothing happens in
// its turn, and all other actions are what they would be with it.
type plannedAction struct {
	kind string
	seed uint64
}

// MarshalText writes the seed and the kind, and a dash for a gap.
func (a plannedAction) MarshalText() ([]byte, error) {
	if a.kind == "" {
		return []byte("-"), nil
	}
	return []byte(strconv.FormatUint(a.seed, 10) + " " + a.kind), nil
}

// UnmarshalText reads what MarshalText wrote.
func (a *plannedAction) UnmarshalText(text []byte) error {
	*a = plannedAction{}
	if string(text) == "-" {
		return nil
	}
	seed, kind, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil || kind == "" {
		return fmt.Errorf(`the action %q must be a seed and a kind of action, or "-"`, text)
	}
	*a = plannedAction{kind, n}
	return nil
}

// intervention is what happens at a step while there are faults: an action, a fault, or, where
// it is neither, another random source for all that is drawn from there on.
type intervention struct {
	Step int `json:"step"`
	// Seed is that of the action or of the random source.
	Seed uint64 `json:"seed,omitempty"`
	// Action is a kind of action.
	Action string `json:"action,omitempty"`
	// Fails is a verb or an extension point of Probe: the next such request or call fails.
	// Outcome is that of the request.
	Fails   string `json:"fails,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// interventions is the state of an input's interventions in a history.
type interventions struct {
	// dueLater are those that are not due yet, and pendingFaults those that wait for their
	// request or call.
	dueLater, pendingFaults []intervention
	// actionsByName are the kinds of actions that this history can have.
	actionsByName map[string]actionKind
	// stepsOfFaults is the number of steps before faults and actions end.
	stepsOfFaults int
}

// applyInput replaces what the seed drew. What does not fit the history is left out: a setting,
// an outcome or a kind of action that it does not have.
func (sim *simulation) applyInput(in input) {
	numbers := sim.settings.numbers()
	for name, value := range in.Settings {
		if set, ok := numbers[name]; ok {
			set.set(value)
		} else if verb, isFault := strings.CutPrefix(name, faultPrefix); isFault && sim.settings.hasVerb(verb) {
			sim.settings.requestFaults[verb] = value
		}
	}
	for verb, name := range in.Outcomes {
		if f, ok := outcomeNamed(name); ok && sim.settings.hasVerb(verb) {
			sim.settings.frequentOutcomes[verb] = f
		}
	}
	sim.settings.makeConsistent()
	if len(in.Plan)+len(in.At) > 0 {
		sim.actionsByName = sim.availableActions()
	}
	if in.Plan != nil {
		sim.replacePlan(in.Plan)
	}
	sim.dueLater = slices.Clone(in.At)
	slices.SortStableFunc(sim.dueLater, func(a, b intervention) int { return cmp.Compare(a.Step, b.Step) })
	for _, at := range in.At {
		if at.Outcome != "" && sim.settings.hasVerb(at.Fails) {
			// Checks ask whether a verb ever fails.
			sim.settings.requestFaults[at.Fails] = max(sim.settings.requestFaults[at.Fails], 1e-9)
		}
	}
}

// availableActions are the kinds of actions that the history draws from, and those in its plan.
func (sim *simulation) availableActions() map[string]actionKind {
	found := map[string]actionKind{}
	for _, k := range sim.settings.kinds {
		found[k.name] = k
	}
	for _, a := range sim.plan {
		found[a.name] = a.actionKind
	}
	return found
}

// replacePlan replaces the plan. The gaps in it are actions that are skipped.
func (sim *simulation) replacePlan(plan []plannedAction) {
	sim.plan = make([]action, len(plan))
	for i, a := range plan {
		kind, ok := sim.actionsByName[a.kind]
		sim.plan[i], sim.skipped[i] = action{kind, a.seed}, !ok
	}
}

// intervene does what is due at this step.
func (sim *simulation) intervene() {
	for !sim.healed && len(sim.dueLater) > 0 && sim.dueLater[0].Step <= sim.steps {
		at := sim.dueLater[0]
		sim.dueLater = sim.dueLater[1:]
		switch kind, ok := sim.actionsByName[at.Action]; {
		case at.Fails != "":
			sim.pendingFaults = append(sim.pendingFaults, at)
		case ok:
			sim.logf("at this step: %s", at.Action)
			if kind.do(sim, rand.New(rand.NewPCG(at.Seed, 2))) {
				sim.count(at.Action)
			}
		case at.Action == "":
			sim.random = rand.New(rand.NewPCG(at.Seed, 3))
		}
	}
}

// plannedOutcome returns the outcome that an intervention gives to a request of a verb. A
// request that may not fail now does not.
func (sim *simulation) plannedOutcome(verb string) (outcome, bool) {
	if len(sim.pendingFaults) == 0 || sim.healed || sim.faultChance(verb) == 0 {
		return outcome{}, false
	}
	at, ok := sim.takeFault(verb)
	if !ok {
		return outcome{}, false
	}
	return outcomeNamed(at.Outcome)
}

// plannedPluginFault says whether an intervention lets a call of an extension point fail.
func (sim *simulation) plannedPluginFault(point string) bool {
	_, ok := sim.takeFault(point)
	return ok
}

// takeFault removes the first pending fault of a verb or an extension point.
func (sim *simulation) takeFault(of string) (intervention, bool) {
	i := slices.IndexFunc(sim.pendingFaults, func(at intervention) bool { return at.Fails == of })
	if i < 0 {
		return intervention{}, false
	}
	at := sim.pendingFaults[i]
	sim.pendingFaults = slices.Delete(sim.pendingFaults, i, i+1)
	return at, true
}

func outcomeNamed(name string) (outcome, bool) {
	i := slices.IndexFunc(outcomes, func(f outcome) bool { return f.name == name })
	if i < 0 {
		return outcome{}, false
	}
	return outcomes[i], true
}
