package decision

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// Verb is what is to be done about a SchedulingDecision.
type Verb string

// The verbs of errands.
const (
	// Create: as far as is known there is none of that name.
	Create Verb = "create"
	// Replace: there is one of that name, about a pod that is no more.
	Replace Verb = "replace"
	// Update: it stands, and says something else.
	Update Verb = "update"
	// Delete: its pod is bound, or no more, or is not to be explained any more.
	Delete Verb = "delete"
)

// Errand is one thing to be done about one SchedulingDecision. Whoever takes it
// ends it, with Written, Deleted, Again, Refused or Moot, before the next.
type Task struct {
	Verb Verb
	// Namespace and Pod name the object, and the pod with UID that it is about.
	Namespace, Pod string
	UID            types.UID
	// Object is the UID of the object that stands; empty where there is none, or
	// it is not known.
	Object types.UID
	// Explanation is what it shall say; nil for Delete.
	Explanation *Explanation
	// Outdated says that the object says why a pod waits which is bound by now.
	Outdated bool

	item *item
}

// Take returns what is to be done next. When there is nothing yet it reports
// false, and when there will be: never, if that is zero.
//
// What is outdated goes before all else, and leaves each tenth turn to that. Of the
// others, first explanations go before updates, and those before the records of bound
// pods; deletions take every other turn.
func (d *ExplanationQueue) Take() (Task, time.Time, bool) { return d.takeItem(d.nextItem) }

// TakeOutdated is Take where nothing is to be done but what is outdated.
func (d *ExplanationQueue) TakeOutdated() (Task, time.Time, bool) {
	return d.takeItem(d.nextOutdatedItem)
}

// take takes the ticket that choose returns, or returns when there will be one.
func (d *ExplanationQueue) takeItem(choose func() (*item, time.Time)) (Task, time.Time, bool) {
	d.mu.Lock()
	var missed []string
	defer func() {
		d.mu.Unlock()
		for _, profile := range missed {
			d.countDropped(profile)
		}
	}()
	for {
		t, next := choose()
		if t == nil {
			return Task{}, next, false
		}
		heap.Pop(&d.heaps[t.kind])
		s := t.record
		if t.explanation != nil {
			s.pending = nil
			return d.startTask(t), time.Time{}, true
		}
		s.deletion = nil
		if s.pending != nil { // it had its minute, and no turn in it
			missed = append(missed, s.pending.explanation.Status.Profile.Name)
			d.clearPending(s)
		}
		if s.objectExists {
			return d.startTask(t), time.Time{}, true
		}
		delete(d.records, s.name)
	}
}

// next returns the ticket whose turn it is, or when one will be due.
func (d *ExplanationQueue) nextItem() (*item, time.Time) {
	now := d.now()
	var due [itemKinds]*item
	var soonest time.Time
	for i, l := range d.heaps {
		if len(l) == 0 {
			continue
		}
		if !l[0].due.After(now) {
			due[i] = l[0]
		} else if soonest.IsZero() || l[0].due.Before(soonest) {
			soonest = l[0].due
		}
	}
	if due[outdatedItems] != nil && d.outdatedInARow < maxOutdatedInARow {
		return due[outdatedItems], now
	}
	if due[deletionItems] != nil && !d.lastWasDeletion {
		return due[deletionItems], now
	}
	for lane, t := range due {
		if t != nil && lane != outdatedItems && (lane != deletionItems || fault.DeletionsInARow) {
			return t, now
		}
	}
	if due[deletionItems] != nil {
		return due[deletionItems], now
	}
	if due[outdatedItems] != nil {
		return due[outdatedItems], now
	}
	return nil, soonest
}

// nextOutdated is next among what is outdated.
func (d *ExplanationQueue) nextOutdatedItem() (*item, time.Time) {
	l, now := d.heaps[outdatedItems], d.now()
	switch {
	case len(l) == 0:
		return nil, time.Time{}
	case l[0].due.After(now):
		return nil, l[0].due
	}
	return l[0], now
}

// errand is what t asks for.
func (d *ExplanationQueue) startTask(t *item) Task {
	explanationsWaiting.Set(float64(d.len()))
	if t.kind == outdatedItems {
		d.outdatedInARow++
	} else {
		d.lastWasDeletion, d.outdatedInARow = t.kind == deletionItems, 0
	}
	s := t.record
	s.inProgress = true
	e := Task{
		Namespace: s.name.Namespace, Pod: s.name.Name, UID: s.uid, Object: s.object,
		Explanation: t.explanation, Outdated: t.kind == outdatedItems, item: t,
	}
	switch {
	case t.explanation == nil:
		e.Verb = Delete
		e.UID = s.owner
	case s.objectExists && s.owner == s.uid:
		e.Verb = Update
	case s.objectExists && s.owner != "":
		e.Verb = Replace
	default:
		e.Verb = Create
	}
	return e
}

// Written ends an errand: the object with that UID says it.
func (d *ExplanationQueue) Written(e Task, object types.UID) {
	d.endTask(e, func(s *podRecord) {
		s.objectExists, s.object, s.owner = true, object, e.UID
		s.writtenReasons, s.writtenAt = e.item.reasons, d.now()
	})
	explanationsTotal.WithLabelValues(string(e.Verb)).Inc()
}

// Deleted ends an errand: there is no such object any more.
func (d *ExplanationQueue) Deleted(e Task) {
	d.endTask(e, func(s *podRecord) {
		s.markObjectDeleted()
	})
	explanationsTotal.WithLabelValues(string(e.Verb)).Inc()
}

// vanish notes that there is no object, and nothing to remember unless its pod
// is explained anew.
func (s *podRecord) markObjectDeleted() {
	s.objectExists, s.object, s.owner, s.writtenReasons = false, "", "", 0
	s.podDeleted = s.podDeleted || s.pending == nil
}

// Again puts an errand back in line until due, unless there is something newer
// to be said. unsure says that it may have been done all the same.
func (d *ExplanationQueue) Retry(e Task, due time.Time, unsure bool) {
	d.endTask(e, func(s *podRecord) {
		t := e.item
		if unsure {
			s.writtenReasons = 0
		}
		if unsure && (e.Verb == Create || e.Verb == Replace) {
			s.objectExists, s.object, s.owner = true, "", ""
		}
		switch {
		case e.Verb == Delete && s.deletion == nil && s.pending == nil:
			t.due = due
			s.deletion = d.push(t)
		case e.Verb != Delete && s.pending == nil && s.uid == e.UID && s.reasons == t.reasons && !s.podDeleted &&
			(!s.podBound || e.Explanation.Status.Result == v1alpha1.ResultBound):
			t.due = due
			s.pending = d.push(t)
		}
	})
}

// Refused ends an errand that the API server will never have. It is counted as
// dropped, and not tried again until there is something else to be said.
func (d *ExplanationQueue) Rejected(e Task) {
	d.endTask(e, func(s *podRecord) {
		if e.Verb == Delete {
			s.markObjectDeleted()
		}
	})
	if e.Explanation != nil {
		d.countDropped(e.Explanation.Status.Profile.Name)
	}
}

// Moot ends an errand whose pod is bound, or else is gone.
func (d *ExplanationQueue) Obsolete(e Task, bound bool) {
	d.endTask(e, func(s *podRecord) {
		switch {
		case s.uid != e.UID:
		case bound:
			d.markPodBound(s)
		default:
			d.markPodDeleted(s)
		}
	})
}

// end has f note what came of an errand, and moves what was put meanwhile to
// where it belongs now.
func (d *ExplanationQueue) endTask(e Task, f func(*podRecord)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := e.item.record
	s.inProgress = false
	f(s)
	if t := s.pending; t != nil && t != e.item {
		d.setPending(s, t)
	}
	d.forgetIfDone(s)
	d.notify()
}
