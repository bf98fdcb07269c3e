package simulation

import "math"

// faultPrefix begins the name of a probability in settings.requestFaults.
const faultPrefix = "requestFaults."

// number is a setting that an input can replace.
type number struct {
	get func() float64
	set func(float64)
}

func integer(at *int) number {
	return number{func() float64 { return float64(*at) }, func(v float64) { *at = int(math.Round(v)) }}
}

func fraction(at *float64) number {
	return number{func() float64 { return *at }, func(v float64) { *at = v }}
}

func boolean(at *bool) number {
	return number{
		func() float64 {
			if *at {
				return 1
			}
			return 0
		},
		func(v float64) { *at = v != 0 },
	}
}

// numbers are the settings that an input can replace, without those that the plan and the
// gangs of a history were drawn from.
func (s *settings) numbers() map[string]number {
	w := &s.weights
	found := map[string]number{
		"recreate": boolean(&s.recreate), "outOfTree": boolean(&s.outOfTree),
		"pluginFaults": fraction(&s.pluginFaults), "yields": fraction(&s.yields), "slowCalls": fraction(&s.slowCalls),
		"weights.task": integer(&w.task), "weights.handler": integer(&w.handler), "weights.arrival": integer(&w.arrival),
		"weights.answer": integer(&w.answer), "weights.watch": integer(&w.watch), "weights.clock": integer(&w.clock),
		"weights.action": integer(&w.action), "weights.lateWrite": integer(&w.lateWrite), "weights.termination": integer(&w.termination),
	}
	if s.gangs == 0 {
		found["nodes"] = integer(&s.nodes)
		found["profiles"] = number{
			func() float64 { return float64(len(s.profileNames)) },
			func(v float64) { s.profileNames = []string{"a", "b", "c"}[:min(max(int(v), 1), 3)] },
		}
	}
	return found
}

// values returns the numbers, and the probabilities of faults, by name.
func (s *settings) values() map[string]float64 {
	values := map[string]float64{}
	for name, n := range s.numbers() {
		values[name] = n.get()
	}
	for verb, p := range s.requestFaults {
		values[faultPrefix+verb] = p
	}
	return values
}

// hasVerb says whether requests of a verb can fail in this history.
func (s *settings) hasVerb(verb string) bool {
	_, ok := s.requestFaults[verb]
	return ok
}

// makeConsistent repairs settings of which each may be right and all together are not.
func (s *settings) makeConsistent() {
	if !s.outOfTree {
		s.slowCalls = 0 // a call in the loop is waited for
	}
	s.nodes = max(s.nodes, 1)
	w := &s.weights
	for _, weight := range []*int{&w.task, &w.handler, &w.arrival, &w.answer, &w.watch, &w.clock, &w.action, &w.lateWrite, &w.termination} {
		*weight = max(*weight, 1)
	}
}
