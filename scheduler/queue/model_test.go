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

// model is the queue in its dumb form: a list of pods, looked through from one
// end to the other for every question, and a log of its own for each pod.
type model struct {
	now   time.Time
	pods  map[types.UID]*modelPod
	rules map[string]*Rules
	less  map[string]fwk.LessFunc
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
	// by are the rules that the pod was judged by last, lane the order in which
	// it waits.
	by              *Rules
	lane            string
	chosen, doubted bool
}

func newModel(now time.Time) *model {
	return &model{now: now, pods: map[types.UID]*modelPod{}, rules: map[string]*Rules{}, less: map[string]fwk.LessFunc{}}
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
		p.where, p.by = Parked, nil
		return
	}
	if p.by != rules {
		want = max(want, m.means(p))
		p.by = rules
	}
	if p.doubted {
		p.doubted, want = false, max(want, unlessKept)
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
	before := p.gate
	if p.gate = rules.PreEnqueue(nil, p.pod, p.gate); p.gate != "" {
		p.rejectors.Insert(p.gate)
		p.where = Gated
		return
	}
	if want == unlessKept && before == "" {
		p.where = Unschedulable
		return
	}
	p.until = p.backoff(rules)
	p.where, p.lane = Active, rules.Sort
	if want == unlessKept {
		want = afterBackoff
	}
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
	p := &modelPod{pod: pod, timestamp: m.now, rejectors: sets.New[string](), pendings: sets.New[string](), by: m.rules[pod.Spec.SchedulerName]}
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
		if m.profile(p) == nil {
			m.put(p, skip)
		} else if want := m.worth(p, e); want != skip {
			m.put(p, want)
		}
	}
}

func (m *model) event(e event) {
	for _, p := range m.pods {
		if m.profile(p) == nil && (p.where == Gated || p.where == Unschedulable) {
			p.by = nil
			continue
		}
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
			if rules != nil && rules.FlushAfter > 0 && m.now.Sub(since) > rules.FlushAfter {
				p.flushed = m.now
				m.put(p, afterBackoff)
			}
		}
	}
}

// adopt gives a profile other rules; its pods are judged one by one.
func (m *model) adopt(name string, rules *Rules) {
	m.rules[name], m.less[rules.Sort] = rules, rules.Less
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
			return other.lane == p.lane && m.before(other, p)
		})
	}
	maps.DeleteFunc(first, func(_ types.UID, is bool) bool { return !is })
	return slices.Collect(maps.Keys(first))
}

func (m *model) before(a, b *modelPod) bool {
	if a.where == Backoff && !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return m.less[a.lane](&Pod{pod: a.pod, timestamp: a.timestamp}, &Pod{pod: b.pod, timestamp: b.timestamp})
}
