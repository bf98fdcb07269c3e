package queue

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// applyRules does to a pod that is in a place what a swap means for it. When the queue
// visits the pod is up to the queue: randomHistory calls applyRules after that.
func (m *model) applyRules(p *modelPod) {
	rules := m.profile(p)
	if p.rules == rules && rules != nil {
		return
	}
	if rules == nil {
		m.requeue(p, queueSkip)
		return
	}
	strategy := m.strategyFor(p)
	if strategy > queueSkip {
		m.requeue(p, strategy)
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

// strategyFor returns how a swap requeues a pod, place by place.
func (m *model) strategyFor(p *modelPod) queueingStrategy {
	before, after := p.rules, m.profile(p)
	switch {
	case before == after || after == nil:
		return queueSkip
	case p.place == InFlight:
		return queueAfterBackoff
	case before == nil, before.Key.Plugins == nil, after.Key.Plugins == nil:
		return p.swapStrategy()
	}
	differs := func(plugin string) bool {
		return before.Key.Plugins[plugin] == "" || before.Key.Plugins[plugin] != after.Key.Plugins[plugin]
	}
	holds := before.Key.Holds != after.Key.Holds
	gates := slices.ContainsFunc(after.Key.PreEnqueue.UnsortedList(), func(gate string) bool {
		return differs(gate) || !before.Key.PreEnqueue.Has(gate)
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
		if differs(p.gate) && before.Key.Plugins[p.gate] != "" {
			return queueImmediately
		}
		if holds {
			return queueRecheck
		}
	case Unschedulable:
		for plugin := range p.rejectors.Union(p.pending) {
			if before.Key.Plugins[plugin] != "" && differs(plugin) {
				return queueAfterBackoff
			}
		}
		if p.nodeChosen && before.Key.NodeSelection != after.Key.NodeSelection || !p.nodeChosen && after.Key.PostFilter != "" && before.Key.PostFilter != after.Key.PostFilter {
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

// reconsider checks the holds of all pods of a profile again.
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

// applySwaps applies the current rules in the model to the pods to which the queue has
// applied them, or to all.
func (w *randomHistory) applySwaps(all bool) {
	for uid, p := range w.model.pods {
		queued, rules := w.pods[uid], w.model.profile(p)
		applied := all || queued != nil && queued.rules == rules && (rules != nil || queued.place == Held)
		if p.place != InFlight && applied {
			w.model.applyRules(p)
		}
	}
}

// betweenSlices is called between two slices of a swap.
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

// inSlices calls a change that visits the pods in slices, with random steps between
// the slices.
func (w *randomHistory) inSlices(change func()) {
	w.depth++
	change()
	w.depth--
	if w.depth == 0 {
		w.applySwaps(true)
	}
}

// swap gives a profile new rules, or rules that some profile had before.
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
	for _, plugin := range []string{"Fit", "Label", "Picky", "Broken", "Other", "Gate"} {
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

// toggleHolds has the profiles hold every fourth pod, or ends that.
func (w *randomHistory) toggleHolds() {
	w.holding = !w.holding
	depth := w.depth
	w.depth = 0 // in the model, Reconsider has no slices
	for _, name := range []string{"p", "r"} {
		if w.model.rules[name] != nil {
			w.model.reconsider(name)
		}
		w.Reconsider(w.ctx, name, func(*v1.Pod) bool { return true })
	}
	w.depth = depth
}
