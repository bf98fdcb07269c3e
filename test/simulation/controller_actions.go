package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// What only happens in histories of controllers. Users write specs that fail their trial. And a
// leader ends while a status that it has sent is on its way, which is rare by chance.

// controllerKinds are the actions that only histories of controllers have, and reportKinds those
// of them that are faults.
var controllerKinds, reportKinds []actionKind

func init() {
	controllerKinds = []actionKind{{"a profile gets a spec that fails its trial", 5, false, failTrialOfProfile}}
	reportKinds = []actionKind{{"the leader ends with a status on its way", 12, false, planEndOfReporter}}
}

// controllerWeights are added to the weights of actions in histories of controllers, by name.
var controllerWeights = map[string]int{
	"a profile is applied": 10, "a profile gets a spec that is refused": 3, "a profile gets a spec that cannot be built": 3,
	"a profile is paused or resumed": 4, "a profile is deleted": 4,
}

// drawControllerActions adds the actions of histories of controllers.
func (s *settings) drawControllerActions() {
	for i, kind := range s.kinds {
		s.actionWeights[i] += controllerWeights[kind.name]
	}
	s.kinds = append(slices.Clone(s.kinds), controllerKinds...)
	for _, kind := range controllerKinds {
		s.actionWeights = append(s.actionWeights, kind.weight)
	}
}

func failTrialOfProfile(sim *simulation, random *rand.Rand) bool {
	spec := newSpec(sim, random)
	spec.withoutProbe, spec.failsTrial = false, true
	pickProfile(sim, random).setSpec(spec)
	return true
}

// endOfReporter is a leader's end that waits for a status on its way.
type endOfReporter struct {
	// by is the step until which it waits; 0: there is none.
	by int
	// with is what the status must have.
	with string
}

// planEndOfReporter has the leader killed as soon as it has sent a status: any, or, where calls of
// plugins are slow, most often one that a successor does not report, since its plugins do not hang.
func planEndOfReporter(sim *simulation, random *rand.Rand) bool {
	c := &sim.controllers
	if c.end.by > 0 {
		return false
	}
	c.end = endOfReporter{by: sim.steps + 1000}
	if sim.settings.slowCalls > 0 && random.IntN(4) > 0 {
		c.end = endOfReporter{by: sim.steps + 10000, with: degradedInStatus}
	}
	return true
}

// degradedInStatus is in the JSON of a status with the condition Degraded.
const degradedInStatus = `"type":"Degraded"`

// maybeEndReporter kills the leader where that is due. What it has sent arrives after a later
// leader has reported the same profile: see releaseStatuses.
func (sim *simulation) maybeEndReporter() {
	end := &sim.controllers.end
	if end.by == 0 || sim.healed {
		return
	}
	if sim.steps > end.by {
		end.by = 0
		return
	}
	r := sim.front()
	i := slices.IndexFunc(sim.requests, func(sent *request) bool {
		return sent.verb == writeStatus && sent.replica == r && !sent.arrived && strings.Contains(sent.description, end.with)
	})
	if i < 0 || !sim.isLeading(r) || r.cutOff {
		return
	}
	status := sim.requests[i]
	if sim.killReplica(r) {
		end.by = 0
		status.held, status.heldUntil = true, sim.steps+3000
		sim.count("a leader is killed with a status on its way")
		if strings.Contains(status.description, degradedInStatus) {
			sim.count("that status says Degraded")
		}
	}
}

// releaseStatuses lets the statuses of a profile arrive that earlier leaders have sent and that
// were held until a later one has reported.
func (sim *simulation) releaseStatuses(profile string, epoch int64) {
	for _, r := range sim.lateWrites {
		if r.verb == writeStatus && r.epoch < epoch && strings.HasPrefix(r.description, applyOfStatus(profile)) {
			r.held = false
		}
	}
}
