package simulation

import (
	"math/rand/v2"
	"strings"
)

// swarm is what one history is made of: each seed draws which faults and
// features it has, and how strong they are, so that rare things meet.
type swarm struct {
	nodes, acts int
	// comeBack says that evicted pods are created again.
	comeBack bool
	// crowd is how much more often pods are created.
	crowd int
	// names are the profiles that pods ask for.
	names []string
	// faults is the chance that a request of that verb goes wrong.
	faults map[string]float64
	// often is what most often goes wrong with requests of that verb, so that
	// the same misfortune strikes again and again; without an entry, anything.
	often map[string]fate
	// pluginFaults is the chance that a plugin's call fails; breath, that
	// others come in between.
	pluginFaults, breath float64
	// foreign says that Probe is not built in: attempts with it are made beside
	// the loop. hangs is the chance that its call takes its time.
	foreign bool
	hangs   float64
	// haste are the weights of what goes on next.
	haste haste
	// kinds are the weights of the kinds of acts.
	kinds []int
}

// haste weighs what goes on next: the higher the number, the sooner.
type haste struct {
	work, tell, arrive, answer, watch, time, act, haunt, reap int
}

func newSwarm(dice *rand.Rand) swarm {
	sometimes := func(p float64) float64 {
		if dice.Float64() < 0.5 {
			return 0
		}
		return dice.Float64() * p
	}
	s := swarm{
		nodes: 1 + dice.IntN(4),
		acts:  10 + dice.IntN(50),
		names: []string{"a", "b", "c"}[:1+dice.IntN(3)],
		faults: map[string]float64{
			"bind": sometimes(0.8), "patch": sometimes(0.6), "get": sometimes(0.6), "delete": sometimes(0.6),
		},
		often:        map[string]fate{},
		pluginFaults: sometimes(0.1),
		breath:       sometimes(0.6),
		haste: haste{
			work: 2 + dice.IntN(20), tell: 1 + dice.IntN(20), arrive: 1 + dice.IntN(8), answer: 1 + dice.IntN(8), watch: 1 + dice.IntN(12),
			time: 1 + dice.IntN(3), act: 1 + dice.IntN(8), haunt: 1 + dice.IntN(3), reap: 1 + dice.IntN(3),
		},
	}
	for _, verb := range []string{"bind", "patch", "get", "delete"} {
		if dice.IntN(3) == 0 {
			s.often[verb] = fates[dice.IntN(len(fates))]
		}
	}
	s.comeBack = dice.IntN(2) == 0
	if dice.IntN(4) == 0 { // a crowd: many pods for few places
		s.nodes, s.acts, s.crowd = 1+dice.IntN(2), 30+dice.IntN(50), 40
	}
	if dice.IntN(20) == 0 {
		s.nodes, s.acts = 5+dice.IntN(15), 100+dice.IntN(100)
	}
	for _, kind := range kinds {
		weight := kind.weight
		if !kind.always && dice.IntN(3) == 0 {
			weight = 0
		}
		if kind.name == createsPods {
			weight += s.crowd
		}
		s.kinds = append(s.kinds, weight)
	}
	return s
}

// watch lets Probe be a plugin that is not built in.
func (s *swarm) watch(dice *rand.Rand) {
	s.foreign = true
	if dice.IntN(2) == 0 {
		s.hangs = dice.Float64() * 0.2
	}
}

// act is one thing that the outside does. Its dice are its own, so that
// leaving an act out does not change the others.
type act struct {
	kind
	luck uint64
}

// kind is a kind of act. do reports false when there was nothing to do it to.
type kind struct {
	name   string
	weight int
	always bool
	do     func(w *world, dice *rand.Rand) bool
}

func (s swarm) plan(dice *rand.Rand) []act {
	total := 0
	for _, weight := range s.kinds {
		total += weight
	}
	plan := make([]act, s.acts)
	for i := range plan {
		at := dice.IntN(total)
		for k, weight := range s.kinds {
			if at -= weight; at < 0 {
				plan[i] = act{kinds[k], dice.Uint64()}
				break
			}
		}
	}
	return plan
}

// settle makes the world that the first process finds.
func (w *world) settle() {
	for range w.swarm.nodes {
		addNode(w, w.dice)
	}
	for _, name := range w.swarm.names {
		w.profiles = append(w.profiles, &profile{world: w, name: name})
	}
	for _, p := range w.profiles {
		if !w.chance(0.2) {
			w.marks++
			p.want(&wish{mark: w.marks})
		}
	}
}

// step lets one thing happen: a piece of work goes on, a request moves, a
// watch moves, time passes, or the outside acts.
func (w *world) step() {
	w.steps++
	w.freeze()
	h := w.swarm.haste
	var choices []choice
	offer := func(weight int, do func()) { choices = append(choices, choice{weight, do}) }
	for _, t := range w.tasks.runnable() {
		weight := h.work
		if strings.HasPrefix(t.name, handlerOf) {
			weight = h.tell
		}
		offer(weight, func() { w.tasks.step(t) })
	}
	for i, r := range w.requests {
		if r.arrived {
			offer(h.answer, func() { w.answer(i) })
		} else {
			offer(h.arrive, func() { w.arrive(r) })
		}
	}
	for i := range w.leaving {
		offer(h.reap, func() { w.reap(i) })
	}
	for i, r := range w.ghosts {
		if r.held && w.holdsBack() {
			continue
		}
		offer(h.haunt, func() { w.haunt(i) })
	}
	for _, watch := range w.watches {
		if watch.behind() {
			offer(h.watch, watch.follow)
		}
	}
	if !w.healed && w.done < len(w.plan) {
		offer(h.act, w.act)
	}
	if len(w.clock.alarms) > 0 && !(w.healed && len(choices) > 0) {
		offer(h.time, func() { w.clock.advance() })
	}
	w.choose(choices)
	if w.fault != nil {
		return
	}
	if w.steps%16 == 0 {
		w.checkAlways()
	}
	if w.still() {
		w.checkStill()
	}
}

// choice is one thing that may happen next.
type choice struct {
	weight int
	do     func()
}

func (w *world) choose(choices []choice) {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	if total == 0 {
		return
	}
	at := w.dice.IntN(total)
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			c.do()
			return
		}
	}
}

// act does the next thing of the plan.
func (w *world) act() {
	i := w.done
	w.done++
	if w.skip[i] {
		return
	}
	a := w.plan[i]
	before := len(w.story)
	if a.do(w, rand.New(rand.NewPCG(a.luck, 2))) {
		w.count(a.name)
		if w.keep {
			for n := before; n < len(w.story); n++ {
				w.story[n] += "   (act " + itoa(i) + ": " + a.name + ")"
			}
		}
	}
}
