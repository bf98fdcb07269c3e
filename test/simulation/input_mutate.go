package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// longestPlan bounds the plans of changed inputs.
const longestPlan = 150

// mutator changes inputs. It draws from its own random source.
type mutator struct {
	random *rand.Rand
	// drawn are the settings and plans of seeds, each drawn once.
	drawn map[drawnKey]*simulation
}

type drawnKey struct {
	kind string
	seed uint64
}

func newMutator(random *rand.Rand) *mutator {
	return &mutator{random: random, drawn: map[drawnKey]*simulation{}}
}

// draw returns the settings and the plan that a seed draws, before any input changes them.
func (m *mutator) draw(kind string, seed uint64) *simulation {
	key := drawnKey{kind, seed}
	if m.drawn[key] == nil {
		if len(m.drawn) > 1000 {
			clear(m.drawn)
		}
		m.drawn[key] = input{Kind: kind, Seed: seed}.run(runOptions{drawOnly: true})
	}
	return m.drawn[key]
}

// planOf returns a copy of the plan of an input, drawn or its own.
func (m *mutator) planOf(in input) []plannedAction {
	if in.Plan != nil {
		return slices.Clone(in.Plan)
	}
	var plan []plannedAction
	for _, a := range m.draw(in.Kind, in.Seed).plan {
		plan = append(plan, plannedAction{a.name, a.seed})
	}
	return plan
}

// parent is an input to be changed: the history that it had took so many steps while there
// were faults.
type parent struct {
	input
	stepsOfFaults int
}

// change returns a changed copy of an input. Some changes take a part of other, an input of
// the same kind.
func (m *mutator) change(p parent, other input) input {
	in := p.input
	in.Settings, in.Outcomes, in.At = maps.Clone(in.Settings), maps.Clone(in.Outcomes), slices.Clone(in.At)
	for range 1 + m.random.IntN(4) {
		m.changeOnce(&in, p.stepsOfFaults, other)
	}
	return in
}

// changeOnce makes one change, drawn by its weight.
func (m *mutator) changeOnce(in *input, steps int, other input) {
	changes := []struct {
		weight int
		make   func()
	}{
		{4, func() { m.changeSetting(in) }},
		{2, func() { m.changeOutcome(in) }},
		{4, func() { in.Plan = m.splice(m.planOf(*in), m.planOf(other)) }},
		{10, func() { in.Plan = m.changePlan(*in) }},
		{6, func() { m.intervene(in, intervention{Step: m.step(steps), Seed: m.random.Uint64() >> 40}) }},
		{4, func() { m.intervene(in, m.fault(*in, steps)) }},
		{4, func() { m.intervene(in, m.actionAt(*in, steps)) }},
		{3, func() { m.dropIntervention(in) }},
		{2, func() { m.reseed(in) }},
	}
	total := 0
	for _, c := range changes {
		total += c.weight
	}
	at := m.random.IntN(total)
	for _, c := range changes {
		if at -= c.weight; at < 0 {
			c.make()
			return
		}
	}
}

// changeSetting replaces one number by what another seed draws.
func (m *mutator) changeSetting(in *input) {
	values := m.draw(in.Kind, m.random.Uint64()>>40).settings.values()
	names := slices.Sorted(maps.Keys(values))
	name := names[m.random.IntN(len(names))]
	if in.Settings == nil {
		in.Settings = map[string]float64{}
	}
	in.Settings[name] = values[name]
}

// changeOutcome replaces the frequent outcome of one verb.
func (m *mutator) changeOutcome(in *input) {
	if in.Outcomes == nil {
		in.Outcomes = map[string]string{}
	}
	in.Outcomes[m.verb(*in)] = outcomes[m.random.IntN(len(outcomes))].name
}

// verb draws one whose requests can fail.
func (m *mutator) verb(in input) string {
	verbs := slices.Sorted(maps.Keys(m.draw(in.Kind, in.Seed).settings.requestFaults))
	return verbs[m.random.IntN(len(verbs))]
}

// splice returns the beginning of one plan and the end of another.
func (m *mutator) splice(a, b []plannedAction) []plannedAction {
	joined := slices.Concat(a[:m.random.IntN(len(a)+1)], b[m.random.IntN(len(b)+1):])
	if len(joined) == 0 {
		return a
	}
	return joined[:min(len(joined), longestPlan)]
}

// changePlan inserts, repeats, deletes or moves actions, or changes the seed of one.
func (m *mutator) changePlan(in input) []plannedAction {
	plan := m.planOf(in)
	from := m.random.IntN(len(plan))
	to := min(len(plan), from+1+m.random.IntN(1+m.random.IntN(8)))
	part, rest := slices.Clone(plan[from:to]), slices.Concat(plan[:from], plan[to:])
	switch m.random.IntN(7) {
	case 0: // repeat
		plan = slices.Insert(plan, m.random.IntN(len(plan)+1), part...)
	case 1, 4: // delete
		if len(rest) > 0 {
			plan = rest
		}
	case 2: // move
		plan = slices.Insert(rest, m.random.IntN(len(rest)+1), part...)
	case 3: // another seed
		plan[from].seed = m.random.Uint64() >> 40
	default:
		plan = slices.Insert(plan, from, m.newAction(in))
	}
	return plan[:min(len(plan), longestPlan)]
}

// newAction draws an action of any kind that the history can have.
func (m *mutator) newAction(in input) plannedAction {
	available := m.draw(in.Kind, in.Seed).availableActions()
	names := slices.Sorted(maps.Keys(available))
	return plannedAction{names[m.random.IntN(len(names))], m.random.Uint64() >> 40}
}

// step draws a step while there are faults.
func (m *mutator) step(steps int) int { return 1 + m.random.IntN(max(steps, 1)) }

// fault draws a request or a plugin's call that fails.
func (m *mutator) fault(in input, steps int) intervention {
	if m.random.IntN(3) == 0 {
		return intervention{Step: m.step(steps), Fails: pluginPoints[m.random.IntN(len(pluginPoints))]}
	}
	return intervention{Step: m.step(steps), Fails: m.verb(in), Outcome: outcomes[m.random.IntN(len(outcomes))].name}
}

// actionAt draws an action at a step.
func (m *mutator) actionAt(in input, steps int) intervention {
	a := m.newAction(in)
	return intervention{Step: m.step(steps), Action: a.kind, Seed: a.seed}
}

// intervene adds an intervention.
func (m *mutator) intervene(in *input, at intervention) {
	const most = 20
	if len(in.At) < most {
		in.At = append(in.At, at)
	}
}

// dropIntervention removes one, or moves it by a few steps.
func (m *mutator) dropIntervention(in *input) {
	if len(in.At) == 0 {
		return
	}
	i := m.random.IntN(len(in.At))
	if m.random.IntN(2) == 0 {
		in.At = slices.Delete(in.At, i, i+1)
		return
	}
	in.At[i].Step = max(1, in.At[i].Step+m.random.IntN(21)-10)
}

// reseed replaces the seed, and keeps the plan.
func (m *mutator) reseed(in *input) {
	in.Plan = m.planOf(*in)
	in.Seed = m.random.Uint64() >> 40
}
