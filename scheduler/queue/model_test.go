package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// model is the queue in its dumb form: a list of pods, looked through from one
// end to the other for every question, and a log of its own for each pod.
type model struct {
	now       time.Time
	pods      map[types.UID]*modelPod
	rules     map[string]*Rules
	abandoned map[string]Hold
}

type modelPod struct {
	pod                 *v1.Pod
	where               Place
	timestamp, flushed  time.Time
	attempts            int
	refusals, errors    int
	until               time.Time
	rejectors, pendings sets.Set[string]
	gate                string
	heard               []event
	deaf                bool
}

func newModel(now time.Time) *model {
	return &model{now: now, pods: map[types.UID]*modelPod{}, rules: map[string]*Rules{}, abandoned: map[string]Hold{}}
}

func (m *model) profile(p *modelPod) *Rules { return m.rules[p.pod.Spec.SchedulerName] }

// worth asks the Rules, whose own tests are tables, on behalf of a model pod.
func (m *model) worth(p *modelPod, e event) strategy {
	return m.profile(p).worth(logr.Discard(), &Pod{
		pod: p.pod, profile: p.pod.Spec.SchedulerName, rejectors: p.rejectors, pending: p.pendings,
	}, p.pod, e)
}

func (m *model) put(p *modelPod, want strategy) {
	rules := m.profile(p)
	if rules == nil {
		p.where = Parked
		return
	}
	if want == skip {
		p.where = Unschedulable
		if p.gate != "" {
			p.where = Gated
		}
		return
	}
	if rules.Hold(p.pod).Reason != "" {
		p.where = Parked
		return
	}
	if p.gate = rules.PreEnqueue(nil, p.pod, p.gate); p.gate != "" {
		p.rejectors.Insert(p.gate)
		p.where = Gated
		return
	}
	p.until = p.backoff(rules)
	p.where = Active
	if want == afterBackoff && !p.until.Before(m.now.Truncate(time.Second)) {
		p.where = Backoff
	}
}

// backoff doubles the wait step by step.
func (p *modelPod) backoff(rules *Rules) time.Time {
	count := p.refusals
	if p.errors > 0 {
		count = p.errors
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
	p := &modelPod{pod: pod, timestamp: m.now, rejectors: sets.New[string](), pendings: sets.New[string]()}
	m.pods[pod.UID] = p
	m.put(p, immediately)
}

func (m *model) update(pod *v1.Pod, e event) {
	p := m.pods[pod.UID]
	if p == nil {
		m.add(pod)
		return
	}
	p.pod = pod
	switch p.where {
	case InFlight:
		p.heard = append(p.heard, e)
	case Parked:
		m.put(p, immediately)
	case Unschedulable, Gated:
		if want := m.worth(p, e); want != skip {
			m.put(p, want)
		}
	}
}

func (m *model) event(e event) {
	for _, p := range m.pods {
		switch p.where {
		case InFlight:
			p.heard = append(p.heard, e)
		case Gated:
			hears := e.wildcard()
			for _, hint := range m.profile(p).Hints {
				hears = hears || hint.Plugin == p.gate && matches(hint.Event, e.ClusterEvent)
			}
			if hears {
				m.wake(p, e)
			}
		case Unschedulable:
			m.wake(p, e)
		}
	}
}

func (m *model) wake(p *modelPod, e event) {
	if want := m.worth(p, e); want != skip {
		m.put(p, want)
	}
}

func (m *model) end(p *modelPod, rejectors, pending sets.Set[string]) {
	want := skip
	if p.rejectors, p.pendings = rejectors, pending; rejectors.Len()+pending.Len() == 0 {
		p.errors++
		want = afterBackoff
	} else {
		p.refusals++
		p.errors = 0
	}
	p.timestamp = m.now
	if m.profile(p) != nil && !p.deaf {
		for _, e := range p.heard {
			want = max(want, m.worth(p, e))
		}
	}
	p.heard, p.deaf = nil, false
	m.put(p, want)
}

func (m *model) tick() {
	for _, p := range m.pods {
		rules := m.profile(p)
		switch p.where {
		case Backoff:
			if p.until.Before(m.now.Truncate(time.Second)) {
				m.put(p, immediately)
			}
		case Unschedulable, Gated:
			since := p.timestamp
			if p.flushed.After(since) {
				since = p.flushed
			}
			if rules.FlushAfter > 0 && m.now.Sub(since) > rules.FlushAfter {
				p.flushed = m.now
				m.put(p, afterBackoff)
			}
		}
	}
}

func (m *model) adopt(name string, rules *Rules) {
	m.rules[name] = rules
	delete(m.abandoned, name)
	for _, p := range m.pods {
		if p.pod.Spec.SchedulerName != name {
			continue
		}
		switch p.where {
		case InFlight:
			p.heard = append(p.heard, event{ClusterEvent: ProfileSwap, profile: name})
		case Unschedulable, Backoff:
			m.put(p, afterBackoff)
		default:
			m.put(p, immediately)
		}
	}
}

func (m *model) abandon(name string) {
	delete(m.rules, name)
	for _, p := range m.pods {
		if p.pod.Spec.SchedulerName == name && p.where != InFlight {
			p.where = Parked
		}
	}
}

// next are the pods that may be popped now: for each sort, those before whom
// no other comes.
func (m *model) next() []types.UID {
	var candidates []*modelPod
	for _, where := range []Place{Active, Backoff} {
		for _, p := range m.pods {
			if p.where == where && (where == Active || p.rejectors.Len()+p.pendings.Len() > 0) {
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
			return m.profile(other).Sort == m.profile(p).Sort && m.before(other, p)
		})
	}
	maps.DeleteFunc(first, func(_ types.UID, is bool) bool { return !is })
	return slices.Collect(maps.Keys(first))
}

func (m *model) before(a, b *modelPod) bool {
	if a.where == Backoff && !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return m.profile(a).Less(&Pod{pod: a.pod, timestamp: a.timestamp}, &Pod{pod: b.pod, timestamp: b.timestamp})
}
