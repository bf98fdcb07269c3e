package simulation

// Most histories of replicas are short, and have no leader for much of their time: they bind two
// pods or three. Every other seed has a busy one, in which a leader binds many pods before and
// after a handover, so that its Bindings meet the decisions of its successor.

// podEnds is the action that frees what a bound pod uses.
const podEnds = "a pod has ended"

// busyWeights are the weights of actions in busy histories, by name: many pods come, and go so that
// others fit.
var busyWeights = map[string]int{createsPods: 200, podEnds: 60, "a pod is deleted": 30, "a node is added": 6}

// isBusy says whether this is a busy history. It draws nothing, so that the histories of other
// seeds stay what they were when they found something.
func (sim *simulation) isBusy() bool { return sim.hasReplicas() && sim.seed%2 == 1 }

// makeBusyWithGangs makes this a busy history of gangs: leaders rarely end, and most gangs come. Its
// nodes hold a part of the gangs, as those of other histories of gangs do.
func (sim *simulation) makeBusyWithGangs() {
	s := &sim.settings
	s.actions += 40 + sim.random.IntN(80)
	sim.makeQuick()
	if sim.random.IntN(2) == 0 { // Bindings are slow, so that handovers meet them
		s.weights.arrival = 1 + sim.random.IntN(3)
	}
}

// makeBusy makes this a busy history.
func (sim *simulation) makeBusy() {
	s, random := &sim.settings, sim.random
	s.nodes, s.actions = 12+random.IntN(12), 150+random.IntN(150)
	for i, kind := range s.kinds {
		if weight, is := busyWeights[kind.name]; is {
			s.actionWeights[i] = weight
		}
	}
	sim.makeQuick()
}

// makeQuick lets leaders decide much before they end.
func (sim *simulation) makeQuick() {
	s, random := &sim.settings, sim.random
	// Requests for the Lease fail in few of these, and rarely: else leaders end before they have
	// bound anything.
	if s.requestFaults[leaseVerb] *= 0.2; random.IntN(4) > 0 {
		s.requestFaults[leaseVerb] = 0
	}
	// Where nothing else happens a leader is soon elected, and decisions are faster than actions.
	sim.quietTime = 20 + random.IntN(30)
	s.weights.action = 1
	s.weights.task += 10
}
