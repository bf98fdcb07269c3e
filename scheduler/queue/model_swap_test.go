package queue

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// judge does to a pod that rests what a swap means for it. In the queue its turn
// comes some time during the swap: the walk says when.
func (m *model) applyRules(p *modelPod) {
	rules := m.profile(p)
	if p.rules == rules && rules != nil {
		return
	}
	if rules == nil {
		m.requeue(p, queueSkip)
		return
	}
	want := m.strategyFor(p)
	if want > queueSkip {
		m.requeue(p, want)
		return
	}
	p.rules = rules
	if p.place == Active || p.place == Backoff {
		p.sort = rules.Sort
	}
	if p.place == Backoff {
		p.backoffUntil = p.backoff(rules)
	}
}

// means says what the difference between two Rules means for a pod, place by
// place.
func (m *model) strategyFor(p *modelPod) queueingStrategy {
	was, is := p.rules, m.profile(p)
	switch {
	case was == is || is == nil:
		return queueSkip
	case p.place == InFlight:
		return queueAfterBackoff
	case was == nil, was.Key.Plugins == nil, is.Key.Plugins == nil:
		return p.swapStrategy()
	}
	differs := func(plugin string) bool {
		return was.Key.Plugins[plugin] == "" || was.Key.Plugins[plugin] != is.Key.Plugins[plugin]
	}
	holds := was.Key.Holds != is.Key.Holds
	gates := slices.ContainsFunc(is.Key.PreEnqueue.UnsortedList(), func(gate string) bool {
		return differs(gate) || !was.Key.PreEnqueue.Has(gate)
	})
	switch p.place {
	case Held:
		if holds {
			return queueAfterBackoff
		}
	case Active, Backoff:
		if gates || holds {
			return p.swapStrategy()
		}
	case Gated:
		if differs(p.gate) && was.Key.Plugins[p.gate] != "" {
			return queueImmediately
		}
		if holds {
			return queueRecheck
		}
	case Unschedulable:
		for plugin := range p.rejectors.Union(p.pending) {
			if was.Key.Plugins[plugin] != "" && differs(plugin) {
				return queueAfterBackoff
			}
		}
		if p.nodeChosen && was.Key.NodeSelection != is.Key.NodeSelection || !p.nodeChosen && is.Key.PostFilter != "" && was.Key.PostFilter != is.Key.PostFilter {
			return queueAfterBackoff
		}
		if holds || gates {
			return queueRecheck
		}
	}
	return queueSkip
}

func (p *modelPod) swapStrategy() queueingStrategy {
	if p.place == Gated || p.place == Active {
		return queueImmediately
	}
	return queueAfterBackoff
}

// reconsider asks about all pods of a profile who is held.
func (m *model) reconsider(name string) {
	for _, p := range m.pods {
		switch {
		case p.pod.Spec.SchedulerName != name:
		case p.place == InFlight:
			p.recheck = true
		case p.place == Unschedulable || p.place == Gated:
			m.requeue(p, queueRecheck)
		default:
			m.requeue(p, p.swapStrategy())
		}
	}
}

// follow judges the pods that the queue has judged, or all.
func (w *randomHistory) applySwaps(all bool) {
	for uid, p := range w.model.pods {
		mine, rules := w.pods[uid], w.model.profile(p)
		judged := all || mine != nil && mine.rules == rules && (rules != nil || mine.place == Held)
		if p.place != InFlight && judged {
			w.model.applyRules(p)
		}
	}
}

// between is what happens between two slices of a swap.
func (w *randomHistory) betweenSlices() {
	if w.depth == 0 || w.depth > 3 {
		return
	}
	w.applySwaps(false)
	w.compare()
	for range w.rng.IntN(3) {
		w.step()
		w.applySwaps(false)
		w.compare()
	}
}

// slowly runs a change that goes through the pods in slices, with steps of the
// walk in between.
func (w *randomHistory) inSlices(change func()) {
	w.depth++
	change()
	w.depth--
	if w.depth == 0 {
		w.applySwaps(true)
	}
}

// swap gives a profile other rules, or such as some profile had before.
func (w *randomHistory) swap(name string) {
	rules := w.otherRules()
	if len(w.earlierRules) > 0 && w.rng.IntN(3) == 0 {
		rules = pick(w.rng, w.earlierRules...)
	}
	w.earlierRules = append(w.earlierRules, rules)
	w.model.setProfile(name, &rules)
	w.inSlices(func() { w.SetProfile(w.ctx, name, &rules) })
}

func (w *randomHistory) otherRules() Rules {
	rules := w.rules
	if w.rng.IntN(3) == 0 {
		rules.Sort, rules.Less = "Name", byName
	}
	if w.rng.IntN(3) == 0 {
		rules.FlushAfter = 0
	}
	rules.MaxBackoff = pick(w.rng, 0, time.Second, 10*time.Second)
	rules.Key = ProfileKey{
		Plugins: map[string]string{}, PreEnqueue: sets.New[string](),
		PostFilter: pick(w.rng, "", "some", "more"), NodeSelection: pick(w.rng, "best", "first"), Holds: "none",
	}
	for _, plugin := range []string{"Fit", "Label", "Picky", "Broken", "Nobody", "Gate"} {
		if w.rng.IntN(8) > 0 {
			rules.Key.Plugins[plugin] = pick(w.rng, "one", "one", "another")
		}
	}
	gated := rules.Key.Plugins["Gate"] != ""
	if gated {
		rules.Key.PreEnqueue.Insert("Gate")
	}
	if w.rng.IntN(8) == 0 {
		rules.Key = ProfileKey{}
	}
	rules.PreEnqueue = func(_ context.Context, pod *v1.Pod, _ string) string {
		if gated && w.gateClosed && pod.Name[len(pod.Name)-1]%3 == 0 {
			return "Gate"
		}
		return ""
	}
	rules.Hold = func(pod *v1.Pod) Hold {
		if w.holding && pod.Name[len(pod.Name)-1]%4 == 0 {
			return Hold{Reason: NamespaceNotAllowed}
		}
		return Hold{}
	}
	if w.rng.IntN(4) == 0 {
		rules.Key.Holds = "all"
		rules.Hold = func(*v1.Pod) Hold { return Hold{Reason: ProfilePaused} }
	}
	return rules
}

// bar has the profiles hold some pods, or not any more.
func (w *randomHistory) toggleHolds() {
	w.holding = !w.holding
	depth := w.depth
	w.depth = 0 // the model has no slices of this
	for _, name := range []string{"p", "r"} {
		if w.model.rules[name] != nil {
			w.model.reconsider(name)
		}
		w.Reconsider(w.ctx, name, func(*v1.Pod) bool { return true })
	}
	w.depth = depth
}
