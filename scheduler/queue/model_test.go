package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// model is a simple reference implementation of the queue: a list of pods, searched
// from end to end for every question, with a separate event log for each pod.
type model struct {
	now   time.Time
	pods  map[types.UID]*modelPod
	rules map[string]*Rules
	less  map[string]fwk.LessFunc
}

type modelPod struct {
	pod                                   *v1.Pod
	place                                 Place
	timestamp, flushedAt                  time.Time
	attempts                              int
	unschedulableCount, consecutiveErrors int
	backoffUntil                          time.Time
	rejectors, pending                    sets.Set[string]
	gate                                  string
	events                                []event
	recordsNoEvents                       bool
	// rules are those that the pod was last evaluated under, sort the order in which it
	// waits.
	rules               *Rules
	sort                string
	nodeChosen, recheck bool
}

func newModel(now time.Time) *model {
	return &model{now: now, pods: map[types.UID]*modelPod{}, rules: map[string]*Rules{}, less: map[string]fwk.LessFunc{}}
}

func (m *model) profile(p *modelPod) *Rules { return m.rules[p.pod.Spec.SchedulerName] }

// evaluateHints calls Rules.evaluateHints, which has table tests of its own, for a pod
// of the model.
func (m *model) evaluateHints(p *modelPod, e event) queueingStrategy {
	return m.profile(p).evaluateHints(logr.Discard(), &Entity{
		pod: p.pod, profile: p.pod.Spec.SchedulerName, rejectors: p.rejectors, pending: p.pending,
	}, p.pod, e)
}

func (m *model) requeue(p *modelPod, strategy queueingStrategy) {
	rules := m.profile(p)
	if rules == nil {
		p.place, p.rules = Held, nil
		return
	}
	if p.rules != rules {
		strategy = max(strategy, m.strategyFor(p))
		p.rules = rules
	}
	if p.recheck {
		p.recheck, strategy = false, max(strategy, queueRecheck)
	}
	if strategy == queueSkip {
		p.place = Unschedulable
		if p.gate != "" {
			p.place = Gated
		}
		return
	}
	if rules.Hold(p.pod).Reason != "" {
		p.place = Held
		return
	}
	oldGate := p.gate
	if p.gate = rules.PreEnqueue(nil, p.pod, p.gate); p.gate != "" {
		p.rejectors.Insert(p.gate)
		p.place = Gated
		return
	}
	if strategy == queueRecheck && oldGate == "" {
		p.place = Unschedulable
		return
	}
	p.backoffUntil = p.backoff(rules)
	p.place, p.sort = Active, rules.Sort
	if strategy == queueRecheck {
		strategy = queueAfterBackoff
	}
	if strategy == queueAfterBackoff && !p.backoffUntil.Before(m.now.Truncate(time.Second)) {
		p.place = Backoff
	}
}

// backoff doubles the wait step by step.
func (p *modelPod) backoff(rules *Rules) time.Time {
	count := p.unschedulableCount
	if p.consecutiveErrors > 0 {
		count = p.consecutiveErrors
	}
	if count == 0 || rules.MaxBackoff == 0 {
		return time.Time{}
	}
	wait := rules.InitialBackoff
	for range count - 1 {
		if wait *= 2; wait >= rules.MaxBackoff {
			break
		}
	}
	return p.timestamp.Add(min(wait, rules.MaxBackoff)).Truncate(time.Second)
}

func (m *model) add(pod *v1.Pod) {
	if m.rules[pod.Spec.SchedulerName] == nil {
		return
	}
	p := &modelPod{pod: pod, timestamp: m.now, rejectors: sets.New[string](), pending: sets.New[string](), rules: m.rules[pod.Spec.SchedulerName]}
	m.pods[pod.UID] = p
	m.requeue(p, queueImmediately)
}

func (m *model) update(pod *v1.Pod, e event) {
	p := m.pods[pod.UID]
	if p == nil {
		m.add(pod)
		return
	}
	p.pod = pod
	switch p.place {
	case InFlight:
		p.events = append(p.events, e)
	case Held:
		m.requeue(p, queueImmediately)
	case Unschedulable, Gated:
		if m.profile(p) == nil {
			m.requeue(p, queueSkip)
		} else if strategy := m.evaluateHints(p, e); strategy != queueSkip {
			m.requeue(p, strategy)
		}
	}
}

func (m *model) event(e event) {
	for _, p := range m.pods {
		if m.profile(p) == nil && (p.place == Gated || p.place == Unschedulable) {
			p.rules = nil
			continue
		}
		switch p.place {
		case InFlight:
			p.events = append(p.events, e)
		case Gated:
			registered := e.isWildcard()
			for _, hint := range m.profile(p).Hints {
				registered = registered || hint.Plugin == p.gate && matches(hint.Event, e.ClusterEvent)
			}
			if registered {
				m.wake(p, e)
			}
		case Unschedulable:
			m.wake(p, e)
		}
	}
}

func (m *model) wake(p *modelPod, e event) {
	if strategy := m.evaluateHints(p, e); strategy != queueSkip {
		m.requeue(p, strategy)
	}
}

func (m *model) end(p *modelPod, rejectors, pending sets.Set[string]) {
	strategy := queueSkip
	if p.rejectors, p.pending = rejectors, pending; rejectors.Len()+pending.Len() == 0 {
		p.consecutiveErrors++
		strategy = queueAfterBackoff
	} else {
		p.unschedulableCount++
		p.consecutiveErrors = 0
	}
	p.timestamp = m.now
	if m.profile(p) != nil && !p.recordsNoEvents {
		for _, e := range p.events {
			strategy = max(strategy, m.evaluateHints(p, e))
		}
	}
	p.events, p.recordsNoEvents = nil, false
	m.requeue(p, strategy)
}

func (m *model) tick() {
	for _, p := range m.pods {
		rules := m.profile(p)
		switch p.place {
		case Backoff:
			if p.backoffUntil.Before(m.now.Truncate(time.Second)) {
				m.requeue(p, queueImmediately)
			}
		case Unschedulable, Gated:
			since := p.timestamp
			if p.flushedAt.After(since) {
				since = p.flushedAt
			}
			if rules != nil && rules.FlushAfter > 0 && m.now.Sub(since) > rules.FlushAfter {
				p.flushedAt = m.now
				m.requeue(p, queueAfterBackoff)
			}
		}
	}
}

// setProfile gives a profile new rules. applyRules applies them to its pods.
func (m *model) setProfile(name string, rules *Rules) {
	m.rules[name], m.less[rules.Sort] = rules, rules.Less
}

// next returns the pods that may be popped now: for each sort, those that no other pod
// precedes.
func (m *model) next() []types.UID {
	var candidates []*modelPod
	for _, where := range []Place{Active, Backoff} {
		for _, p := range m.pods {
			if p.place == where && (where == Active || p.rejectors.Len()+p.pending.Len() > 0) {
				candidates = append(candidates, p)
			}
		}
		if len(candidates) > 0 {
			break
		}
	}
	first := map[types.UID]bool{}
	for _, p := range candidates {
		first[p.pod.UID] = !slices.ContainsFunc(candidates, func(other *modelPod) bool {
			return other.sort == p.sort && m.before(other, p)
		})
	}
	maps.DeleteFunc(first, func(_ types.UID, is bool) bool { return !is })
	return slices.Collect(maps.Keys(first))
}

func (m *model) before(a, b *modelPod) bool {
	if a.place == Backoff && !a.backoffUntil.Equal(b.backoffUntil) {
		return a.backoffUntil.Before(b.backoffUntil)
	}
	return m.less[a.sort](&Entity{pod: a.pod, timestamp: a.timestamp}, &Entity{pod: b.pod, timestamp: b.timestamp})
}
