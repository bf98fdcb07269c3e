package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shrinkRuns bounds how often an input is played to make it smaller.
const shrinkRuns = 300

// shrinker makes a failing input smaller while it fails in the same way.
type shrinker struct {
	// play plays an input.
	play func(input, runOptions) *simulation
	// smallest is the smallest input so far that fails as the first one did.
	smallest input
	failure  error
	runs     int
}

// shrink returns the smallest input that it finds to fail as in does, and its story: the
// failure, the input and the log.
func (k kind) shrink(in input) (smallest input, story string) { return shrink(in, k.runInput) }

func shrink(in input, play func(input, runOptions) *simulation) (smallest input, story string) {
	sim := play(in, runOptions{})
	if sim.failure == nil {
		return in, "does not fail"
	}
	s := &shrinker{play: play, smallest: in, failure: sim.failure}
	s.dropOverrides()
	s.dropInterventions()
	s.dropActions(sim.plan)
	s.dropInterventions()
	s.closeGaps()
	last := play(s.smallest, runOptions{keepLog: true})
	left := len(last.plan)
	for _, skipped := range last.skipped {
		if skipped {
			left--
		}
	}
	return s.smallest, fmt.Sprintf("%v\n%d of %d actions are left: %s\n%s", last.failure, left, len(sim.plan), s.smallest, strings.Join(last.log, "\n"))
}

// withFewestFaults returns the kind without the faults of machines and of the network that a
// seed does not need to fail.
func (k kind) withFewestFaults(seed uint64) kind {
	failure := k.run(seed, false).failure
	if !k.replicas || failure == nil {
		return k
	}
	for i := range allFaults {
		fewer := k
		fewer.without |= 1 << i
		if other := fewer.run(seed, false).failure; other != nil && sameFailure(other, failure) {
			k = fewer
		}
	}
	return k
}

// try keeps a smaller input where it fails in the same way.
func (s *shrinker) try(smaller input) bool {
	if s.runs >= shrinkRuns {
		return false
	}
	s.runs++
	failure := s.play(smaller, runOptions{}).failure
	if failure == nil || !sameFailure(failure, s.failure) {
		return false
	}
	s.smallest = smaller
	return true
}

// dropOverrides takes settings and outcomes as the seed draws them.
func (s *shrinker) dropOverrides() {
	for _, name := range sortedKeys(s.smallest.Settings) {
		smaller := s.smallest
		smaller.Settings = maps.Clone(smaller.Settings)
		delete(smaller.Settings, name)
		s.try(smaller)
	}
	for _, verb := range sortedKeys(s.smallest.Outcomes) {
		smaller := s.smallest
		smaller.Outcomes = maps.Clone(smaller.Outcomes)
		delete(smaller.Outcomes, verb)
		s.try(smaller)
	}
}

func (s *shrinker) dropInterventions() {
	for i := len(s.smallest.At) - 1; i >= 0; i-- {
		smaller := s.smallest
		smaller.At = slices.Delete(slices.Clone(smaller.At), i, i+1)
		s.try(smaller)
	}
}

// dropActions replaces actions of the plan by gaps, many at first and then one by one. drawn is
// the plan of the history.
func (s *shrinker) dropActions(drawn []action) {
	if s.smallest.Plan == nil {
		smaller := s.smallest
		for _, a := range drawn {
			smaller.Plan = append(smaller.Plan, plannedAction{a.name, a.seed})
		}
		if len(drawn) == 0 || !s.try(smaller) {
			return
		}
	}
	for size := len(s.smallest.Plan) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.smallest.Plan); from += size {
			smaller, changed := s.smallest, false
			smaller.Plan = slices.Clone(smaller.Plan)
			for i := from; i < min(from+size, len(smaller.Plan)); i++ {
				changed = changed || smaller.Plan[i].kind != ""
				smaller.Plan[i] = plannedAction{}
			}
			if changed {
				s.try(smaller)
			}
		}
	}
}

// closeGaps removes the gaps from the plan, which changes all that follows: it succeeds for
// few inputs.
func (s *shrinker) closeGaps() {
	smaller := s.smallest
	smaller.Plan = slices.DeleteFunc(slices.Clone(smaller.Plan), func(a plannedAction) bool { return a.kind == "" })
	if len(smaller.Plan) > 0 && len(smaller.Plan) < len(s.smallest.Plan) {
		s.try(smaller)
	}
}

// sameFailure compares the first lines of two failures without their digits.
func sameFailure(a, b error) bool { return withoutNumbers(a) == withoutNumbers(b) }

func withoutNumbers(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}
