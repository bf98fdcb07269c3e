package queue

import (
	"maps"
	"slices"
	"testing"
)

// checkQueue checks the invariants of a queue that no other goroutine uses: each pod
// is in one place, each heap is in order, each sub-queue has a profile, and events are
// recorded only for pods in flight.
func checkQueue(t testing.TB, q *Queue) {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	checkPods(t, q)
	checkSubQueues(t, q)
	checkInFlight(t, q)
	for profile, index := range q.unschedulable {
		if len(index) == 0 {
			t.Errorf("the index of unschedulable pods has an empty entry for %s", profile)
		}
		for name, d := range index {
			if len(d.pods) == 0 {
				t.Errorf("the group of pods of %s that are blocked by %q is empty", profile, name)
			}
			for p := range d.pods {
				if !isQueued(q, p) || p.profile != profile || p.group != d || !slices.Equal(p.blockingPlugins(), d.plugins) {
					t.Errorf("%s is in the group of pods of %s that are blocked by %v, and is not in the queue or not blocked by them", p.pod.Name, profile, d.plugins)
				}
			}
		}
	}
}

func checkPods(t testing.TB, q *Queue) {
	t.Helper()
	for uid, p := range q.pods {
		if p.gone || p.pod.UID != uid {
			t.Errorf("%s: gone %v, UID %s under key %s", p.pod.Name, p.gone, p.pod.UID, uid)
		}
		if p.memberOf != nil {
			if !isQueued(q, p.memberOf) || !slices.Contains(slices.Concat(p.memberOf.podGroup.members, p.memberOf.podGroup.arrived), p) {
				t.Errorf("%s is a member of a group that does not have it", p.pod.Name)
			}
			continue
		}
		checkPlace(t, q, p)
	}
	for key, group := range q.podGroups {
		if group.gone || group.podGroup.key != key {
			t.Errorf("group %s: gone %v, key %s", key, group.gone, group.podGroup.key)
		}
		checkPlace(t, q, group)
	}
}

// isQueued reports whether a pod or group is one of the queue's.
func isQueued(q *Queue, p *Entity) bool {
	if p.podGroup != nil {
		return q.podGroups[p.podGroup.key] == p
	}
	return q.pods[p.pod.UID] == p
}

// checkPlace checks that a pod or group is in the heap or index of its place.
func checkPlace(t testing.TB, q *Queue, p *Entity) {
	t.Helper()
	unschedulable := p.group != nil
	want := map[Place][3]bool{ // in a heap, in the index, may have a marker
		Active: {true, false, false}, Backoff: {true, false, false},
		Unschedulable: {false, true, false}, Gated: {false, true, false},
		Held: {}, InFlight: {false, false, true},
	}
	is, ok := want[p.place]
	if !ok {
		t.Errorf("%s is at %q", p.pod.Name, p.place)
		return
	}
	if inHeap := p.heap != nil && p.heap != q.quarantined; inHeap != is[0] || unschedulable != is[1] || p.marker != nil && !is[2] {
		t.Errorf("%s is %s: in a heap %v, in the index %v, marked %v", p.pod.Name, p.place, inHeap, unschedulable, p.marker != nil)
	}
	if p.place == Gated != (p.gate != "") && p.place != Held && p.place != InFlight {
		t.Errorf("%s is %s with gate %q", p.pod.Name, p.place, p.gate)
	}
	if p.place != Held && p.place != InFlight && q.rules[p.profile] == nil {
		t.Errorf("%s is %s, and profile %s is not served", p.pod.Name, p.place, p.profile)
	}
}

func checkSubQueues(t testing.TB, q *Queue) {
	t.Helper()
	sorts := map[string]bool{}
	for _, rules := range q.rules {
		sorts[rules.Sort] = true
	}
	seen := map[*Entity]bool{}
	for _, l := range q.subQueues {
		if !sorts[l.sort] {
			t.Errorf("no profile has sub-queue %s", l.sort)
		}
		delete(sorts, l.sort)
		active := append([]*podHeap{l.active}, slices.Collect(maps.Values(l.throttled))...)
		for place, heaps := range map[Place][]*podHeap{Active: active, Backoff: {l.backoff, l.errorBackoff}} {
			for _, h := range heaps {
				for i, p := range h.pods {
					if seen[p] {
						t.Errorf("%s is in two heaps", p.pod.Name)
					}
					seen[p] = true
					if !isQueued(q, p) || p.place != place || p.heap != h || p.index != i {
						t.Errorf("%s is in a heap for %s at %d, and says %s at %d", p.pod.Name, place, i, p.place, p.index)
					}
					if q.rules[p.profile].Sort != l.sort {
						t.Errorf("%s of %s is in sub-queue %s", p.pod.Name, p.profile, l.sort)
					}
					if parent := h.pods[(i-1)/2]; i > 0 && h.less(p, parent) {
						t.Errorf("%s is below %s and precedes it", p.pod.Name, parent.pod.Name)
					}
				}
			}
		}
	}
	for sort := range sorts {
		t.Errorf("sort %s has no sub-queue", sort)
	}
}

func checkInFlight(t testing.TB, q *Queue) {
	t.Helper()
	var marked []*Entity
	for e := q.inFlight.entries.Front(); e != nil; e = e.Next() {
		p, isMarker := e.Value.(*Entity)
		if !isMarker {
			if len(marked) == 0 {
				t.Error("the in-flight log begins with an event")
				return
			}
			continue
		}
		if p.marker != e || !isQueued(q, p) {
			t.Errorf("a marker of %s is left over", p.pod.Name)
		}
		marked = append(marked, p)
	}
	if len(marked) != q.inFlight.markers {
		t.Errorf("%d markers in the in-flight log, %d counted", len(marked), q.inFlight.markers)
	}
	for _, p := range q.pods {
		if p.marker != nil && !slices.Contains(marked, p) {
			t.Errorf("%s has a marker that is not in the in-flight log", p.pod.Name)
		}
	}
}
