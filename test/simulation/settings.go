package simulation

import (
	"math/rand/v2"
	"strings"
)

// settings are drawn for each seed: which faults and features its history has, and how likely
// they are, so that rare ones meet.
type settings struct {
	nodes, actions int
	// recreate says that evicted pods are created again.
	recreate bool
	// extraCreates is added to the weight of pod creation.
	extraCreates int
	// profileNames are the values of schedulerName that pods have.
	profileNames []string
	// requestFaults is the probability that a request of that verb fails.
	requestFaults map[string]float64
	// frequentOutcomes are the outcomes that most of the failed requests of that verb have;
	// without an entry, the outcome is drawn each time.
	frequentOutcomes map[string]outcome
	// pluginFaults is the probability that a plugin's call fails; yields, that other tasks run
	// inside it.
	pluginFaults, yields float64
	// outOfTree says that Probe is not in-tree: attempts with it run outside the loop.
	// slowCalls is the probability that one of its calls is slow.
	outOfTree bool
	slowCalls float64
	// weights decide which step comes next.
	weights weights
	// kinds are the kinds of actions, and actionWeights are parallel to them.
	kinds         []actionKind
	actionWeights []int
	// outcomes are how requests may end that do not succeed.
	outcomes []outcome
	// gangs is the number of gangs. nodeCPUs and nodePods are the size of their nodes.
	gangs, nodeCPUs, nodePods int
}

// weights holds the relative probability of each kind of step.
type weights struct {
	task, handler, arrival, answer, watch, clock, action, lateWrite, termination int
}

func newSettings(random *rand.Rand) settings {
	sometimes := func(p float64) float64 {
		if random.Float64() < 0.5 {
			return 0
		}
		return random.Float64() * p
	}
	s := settings{
		nodes:        1 + random.IntN(4),
		actions:      10 + random.IntN(50),
		profileNames: []string{"a", "b", "c"}[:1+random.IntN(3)],
		requestFaults: map[string]float64{
			"bind": sometimes(0.8), "patch": sometimes(0.6), "get": sometimes(0.6), "delete": sometimes(0.6),
		},
		frequentOutcomes: map[string]outcome{},
		outcomes:         outcomes,
		kinds:            actionKinds,
		pluginFaults:     sometimes(0.1),
		yields:           sometimes(0.6),
		weights: weights{
			task: 2 + random.IntN(20), handler: 1 + random.IntN(20), arrival: 1 + random.IntN(8), answer: 1 + random.IntN(8), watch: 1 + random.IntN(12),
			clock: 1 + random.IntN(3), action: 1 + random.IntN(8), lateWrite: 1 + random.IntN(3), termination: 1 + random.IntN(3),
		},
	}
	for _, verb := range []string{"bind", "patch", "get", "delete"} {
		if random.IntN(3) == 0 {
			s.frequentOutcomes[verb] = outcomes[random.IntN(len(outcomes))]
		}
	}
	s.recreate = random.IntN(2) == 0
	if random.IntN(4) == 0 { // many pods, few nodes
		s.nodes, s.actions, s.extraCreates = 1+random.IntN(2), 30+random.IntN(50), 40
	}
	if random.IntN(20) == 0 {
		s.nodes, s.actions = 5+random.IntN(15), 100+random.IntN(100)
	}
	for _, kind := range s.kinds {
		weight := kind.weight
		if !kind.always && random.IntN(3) == 0 {
			weight = 0
		}
		if kind.name == createsPods {
			weight += s.extraCreates
		}
		s.actionWeights = append(s.actionWeights, weight)
	}
	return s
}

// makeProbeOutOfTree lets Probe be an out-of-tree plugin.
func (s *settings) makeProbeOutOfTree(random *rand.Rand) {
	s.outOfTree = true
	if random.IntN(2) == 0 {
		s.slowCalls = random.Float64() * 0.2
	}
}

// loseBindings makes nearly every Binding fail for its caller, and arrive later: only then is
// one given up, after six.
func (s *settings) loseBindings() {
	s.requestFaults["bind"] = 0.95
	s.frequentOutcomes["bind"] = committedLater
}

// action is one thing that a user, a kubelet or another component does. It draws from a random
// source of its own, so that leaving an action out does not change the others.
type action struct {
	actionKind
	seed uint64
}

// actionKind is a kind of action. do returns false where there was no object to act on.
type actionKind struct {
	name   string
	weight int
	always bool
	do     func(sim *simulation, random *rand.Rand) bool
}

func (s settings) plan(random *rand.Rand) []action {
	total := 0
	for _, weight := range s.actionWeights {
		total += weight
	}
	plan := make([]action, s.actions)
	for i := range plan {
		at := random.IntN(total)
		for k, weight := range s.actionWeights {
			if at -= weight; at < 0 {
				plan[i] = action{s.kinds[k], random.Uint64()}
				break
			}
		}
	}
	return plan
}

// createInitialState creates the nodes and profiles that the first process finds.
func (sim *simulation) createInitialState() {
	for i := range sim.settings.nodes {
		if sim.hasGangs() {
			sim.putNode(sim.newGangNode("n" + itoa(i)))
		} else {
			addNode(sim, sim.random)
		}
	}
	if sim.hasVolumes() {
		sim.createVolumes()
	}
	if sim.hasDevices() {
		sim.createDevices()
	}
	for _, name := range sim.settings.profileNames {
		sim.profiles = append(sim.profiles, &profile{sim: sim, name: name})
	}
	for _, p := range sim.profiles {
		if !sim.chance(0.2) {
			sim.specCount++
			p.setSpec(&profileSpec{number: sim.specCount, gangs: sim.hasGangs()})
		}
	}
}

// step does one thing: a task runs on, a request or a watch makes progress, time advances, or
// an action happens.
func (sim *simulation) step() {
	sim.steps++
	sim.maybeFreeze()
	sim.maybeEndLeader()
	sim.maybeEndReporter()
	sim.intervene()
	sim.cover.observeWrites(sim)
	h := sim.settings.weights
	var choices []choice
	offer := func(weight int, do func()) { choices = append(choices, choice{weight, do}) }
	if sim.hasReplicas() {
		sim.offerFaults(offer)
	}
	for _, t := range sim.tasks.runnable() {
		weight := h.task
		if strings.HasPrefix(t.name, handlerTaskPrefix) {
			weight = h.handler
		}
		offer(weight, func() { sim.stepTask(t) })
	}
	for i, r := range sim.requests {
		if r.blocked() {
			continue
		}
		if r.arrived {
			offer(h.answer, func() { sim.answer(i) })
		} else {
			offer(h.arrival, func() { sim.cover.about(r, func() { sim.arrive(r) }) })
		}
	}
	for i := range sim.terminating {
		offer(h.termination, func() { sim.finishTermination(i) })
	}
	for _, do := range sim.controllerSteps() {
		offer(sim.controllerWeight, do)
	}
	for i, r := range sim.lateWrites {
		if r.held && sim.delaysLateWrites(r) || r.replica.cutOff {
			continue
		}
		offer(h.lateWrite, func() { sim.cover.about(r, func() { sim.commitLate(i) }) })
	}
	for _, r := range sim.replicas {
		for _, watch := range r.informers {
			if watch.mayRead() {
				offer(h.watch, watch.readNext)
			}
		}
	}
	if sim.hasReplicas() {
		h.clock, h.action = sim.pace(len(choices) == 0)
	}
	if !sim.healed && sim.actionsDone < len(sim.plan) && h.action > 0 {
		offer(h.action, sim.runNextAction)
	}
	if sim.timeCanAdvance() && !(sim.healed && len(choices) > 0) {
		offer(h.clock, sim.advance)
	}
	sim.choose(choices)
	if sim.failure != nil {
		return
	}
	sim.use(sim.front())
	if sim.dead {
		return
	}
	sim.cover.observe(sim)
	if sim.steps%(16*(1+sim.settings.gangs/manyGangs)) == 0 {
		sim.checkAlways()
	}
	if sim.idle() {
		sim.checkIdle()
		sim.checkIdleGangs()
	}
}

// choice is one step that is possible now.
type choice struct {
	weight int
	do     func()
}

func (sim *simulation) choose(choices []choice) {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	if total == 0 {
		return
	}
	at := sim.random.IntN(total)
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			c.do()
			return
		}
	}
}

// runNextAction does the next action of the plan.
func (sim *simulation) runNextAction() {
	i := sim.actionsDone
	sim.actionsDone++
	if sim.skipped[i] {
		return
	}
	a := sim.plan[i]
	before := len(sim.log)
	if a.do(sim, rand.New(rand.NewPCG(a.seed, 2))) {
		sim.count(a.name)
		if sim.keepLog {
			for n := before; n < len(sim.log); n++ {
				sim.log[n] += "   (act " + itoa(i) + ": " + a.name + ")"
			}
		}
	}
}
