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
func (m *model) judge(p *modelPod) {
	rules := m.profile(p)
	if p.by == rules && rules != nil {
		return
	}
	if rules == nil {
		m.put(p, skip)
		return
	}
	want := m.means(p)
	if want > skip {
		m.put(p, want)
		return
	}
	p.by = rules
	if p.where == Active || p.where == Backoff {
		p.lane = rules.Sort
	}
	if p.where == Backoff {
		p.until = p.backoff(rules)
	}
}

// means says what the difference between two Rules means for a pod, place by
// place.
func (m *model) means(p *modelPod) strategy {
	was, is := p.by, m.profile(p)
	switch {
	case was == is || is == nil:
		return skip
	case p.where == InFlight:
		return afterBackoff
	case was == nil, was.Makeup.Plugins == nil, is.Makeup.Plugins == nil:
		return p.eager()
	}
	differs := func(plugin string) bool {
		return was.Makeup.Plugins[plugin] == "" || was.Makeup.Plugins[plugin] != is.Makeup.Plugins[plugin]
	}
	holds := was.Makeup.Holds != is.Makeup.Holds
	gates := slices.ContainsFunc(is.Makeup.Gates.UnsortedList(), func(gate string) bool {
		return differs(gate) || !was.Makeup.Gates.Has(gate)
	})
	switch p.where {
	case Parked:
		if holds {
			return afterBackoff
		}
	case Active, Backoff:
		if gates || holds {
			return p.eager()
		}
	case Gated:
		if differs(p.gate) && was.Makeup.Plugins[p.gate] != "" {
			return immediately
		}
		if holds {
			return unlessKept
		}
	case Unschedulable:
		for plugin := range p.rejectors.Union(p.pendings) {
			if was.Makeup.Plugins[plugin] != "" && differs(plugin) {
				return afterBackoff
			}
		}
		if p.chosen && was.Makeup.Choice != is.Makeup.Choice || !p.chosen && is.Makeup.Room != "" && was.Makeup.Room != is.Makeup.Room {
			return afterBackoff
		}
		if holds || gates {
			return unlessKept
		}
	}
	return skip
}

func (p *modelPod) eager() strategy {
	if p.where == Gated || p.where == Active {
		return immediately
	}
	return afterBackoff
}

// reconsider asks about all pods of a profile who is held.
func (m *model) reconsider(name string) {
	for _, p := range m.pods {
		switch {
		case p.pod.Spec.SchedulerName != name:
		case p.where == InFlight:
			p.doubted = true
		case p.where == Unschedulable || p.where == Gated:
			m.put(p, unlessKept)
		default:
			m.put(p, p.eager())
		}
	}
}

// follow judges the pods that the queue has judged, or all.
func (w *walk) follow(all bool) {
	for uid, p := range w.model.pods {
		mine, rules := w.pods[uid], w.model.profile(p)
		judged := all || mine != nil && mine.by == rules && (rules != nil || mine.where == Parked)
		if p.where != InFlight && judged {
			w.model.judge(p)
		}
	}
}

// between is what happens between two slices of a swap.
func (w *walk) between() {
	if w.depth == 0 || w.depth > 3 {
		return
	}
	w.follow(false)
	w.compare()
	for range w.rng.IntN(3) {
		w.step()
		w.follow(false)
		w.compare()
	}
}

// slowly runs a change that goes through the pods in slices, with steps of the
// walk in between.
func (w *walk) slowly(change func()) {
	w.depth++
	change()
	w.depth--
	if w.depth == 0 {
		w.follow(true)
	}
}

// swap gives a profile other rules, or such as some profile had before.
func (w *walk) swap(name string) {
	rules := w.otherRules()
	if len(w.past) > 0 && w.rng.IntN(3) == 0 {
		rules = pick(w.rng, w.past...)
	}
	w.past = append(w.past, rules)
	w.model.adopt(name, &rules)
	w.slowly(func() { w.Adopt(w.ctx, name, &rules) })
}

func (w *walk) otherRules() Rules {
	rules := w.rules
	if w.rng.IntN(3) == 0 {
		rules.Sort, rules.Less = "Name", byName
	}
	if w.rng.IntN(3) == 0 {
		rules.FlushAfter = 0
	}
	rules.MaxBackoff = pick(w.rng, 0, time.Second, 10*time.Second)
	rules.Makeup = Makeup{
		Plugins: map[string]string{}, Gates: sets.New[string](),
		Room: pick(w.rng, "", "some", "more"), Choice: pick(w.rng, "best", "first"), Holds: "none",
	}
	for _, plugin := range []string{"Fit", "Label", "Picky", "Broken", "Nobody", "Gate"} {
		if w.rng.IntN(8) > 0 {
			rules.Makeup.Plugins[plugin] = pick(w.rng, "one", "one", "another")
		}
	}
	gated := rules.Makeup.Plugins["Gate"] != ""
	if gated {
		rules.Makeup.Gates.Insert("Gate")
	}
	if w.rng.IntN(8) == 0 {
		rules.Makeup = Makeup{}
	}
	rules.PreEnqueue = func(_ context.Context, pod *v1.Pod, _ string) string {
		if gated && w.shut && pod.Name[len(pod.Name)-1]%3 == 0 {
			return "Gate"
		}
		return ""
	}
	rules.Hold = func(pod *v1.Pod) Hold {
		if w.barred && pod.Name[len(pod.Name)-1]%4 == 0 {
			return Hold{Reason: NamespaceNotAllowed}
		}
		return Hold{}
	}
	if w.rng.IntN(4) == 0 {
		rules.Makeup.Holds = "all"
		rules.Hold = func(*v1.Pod) Hold { return Hold{Reason: ProfilePaused} }
	}
	return rules
}

// bar has the profiles hold some pods, or not any more.
func (w *walk) bar() {
	w.barred = !w.barred
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
