package explain

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// Verb is what a task does to a SchedulingDecision.
type Verb string

// The verbs of tasks.
const (
	// Create: as far as is known there is no object of that name.
	Create Verb = "create"
	// Replace: the object of that name is about a pod that was deleted.
	Replace Verb = "replace"
	// Update: the object exists and its content changes.
	Update Verb = "update"
	// Delete: the pod is bound or deleted, or is not explained any more.
	Delete Verb = "delete"
)

// Task is one write of one SchedulingDecision. The caller of Take ends it with Written,
// Deleted, Retry, Rejected or Obsolete before it takes the next one.
type Task struct {
	Verb Verb
	// Namespace and Pod name the object, and the pod with UID that it is about.
	Namespace, Pod string
	UID            types.UID
	// Object is the UID of the existing object; empty where there is none or it is
	// unknown.
	Object types.UID
	// Explanation is the new content; nil for Delete.
	Explanation *decision.Explanation
	// Outdated says that the object explains a pod that is bound by now.
	Outdated bool

	item *item
}

// Take returns the next task. When none is due it returns false and the time at which
// one will be; the zero time means that there is none.
//
// Outdated objects come before all else, but leave each tenth task to the others. Of
// those, first explanations come before updates, and updates before the records of bound
// pods; every other task is a deletion, if there are any.
func (q *Queue) Take() (Task, time.Time, bool) { return q.takeItem(q.nextItem) }

// TakeOutdated is Take for outdated objects only.
func (q *Queue) TakeOutdated() (Task, time.Time, bool) {
	return q.takeItem(q.nextOutdatedItem)
}

// takeItem starts the task of the item that choose returns. choose returns nil, and when
// an item will be due, when none is.
func (q *Queue) takeItem(choose func() (*item, time.Time)) (Task, time.Time, bool) {
	q.mu.Lock()
	q.taken = true
	var missed []string
	defer func() {
		q.mu.Unlock()
		for _, profile := range missed {
			q.countDropped(profile)
		}
	}()
	for {
		it, next := choose()
		if it == nil {
			return Task{}, next, false
		}
		heap.Pop(&q.heaps[it.kind])
		explanationsWaiting.Set(float64(q.len()))
		r := it.record
		if it.explanation != nil {
			r.pending = nil
			return q.startTask(it), time.Time{}, true
		}
		r.deletion, r.passed = nil, false
		if r.pending != nil { // boundRetention passed before it was written
			missed = append(missed, r.pending.explanation.Status.Profile.Name)
			q.clearPending(r)
		}
		if r.objectExists {
			return q.startTask(it), time.Time{}, true
		}
		delete(q.records, r.name)
	}
}

// nextItem returns the next item that is due; nil, and when one will be, when none is.
func (q *Queue) nextItem() (*item, time.Time) {
	now := q.now()
	var due [itemKinds]*item
	var soonest time.Time
	for i, l := range q.heaps {
		if len(l) == 0 {
			continue
		}
		if !l[0].due.After(now) {
			due[i] = l[0]
		} else if soonest.IsZero() || l[0].due.Before(soonest) {
			soonest = l[0].due
		}
	}
	if due[outdatedItems] != nil && q.outdatedInARow < maxOutdatedInARow {
		return due[outdatedItems], now
	}
	if due[deletionItems] != nil && !q.lastWasDeletion {
		return due[deletionItems], now
	}
	for kind, it := range due {
		if it != nil && kind != outdatedItems && kind != deletionItems {
			return it, now
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

// nextOutdatedItem is nextItem for outdated objects.
func (q *Queue) nextOutdatedItem() (*item, time.Time) {
	l, now := q.heaps[outdatedItems], q.now()
	switch {
	case len(l) == 0:
		return nil, time.Time{}
	case l[0].due.After(now):
		return nil, l[0].due
	}
	return l[0], now
}

// startTask returns the task of an item that was removed from its heap.
func (q *Queue) startTask(it *item) Task {
	if it.kind == outdatedItems {
		q.outdatedInARow++
	} else {
		q.lastWasDeletion, q.outdatedInARow = it.kind == deletionItems, 0
	}
	r := it.record
	r.inProgress = true
	task := Task{
		Namespace: r.name.Namespace, Pod: r.name.Name, UID: r.uid, Object: r.object,
		Explanation: it.explanation, Outdated: it.kind == outdatedItems, item: it,
	}
	switch {
	case it.explanation == nil:
		task.Verb = Delete
		task.UID = r.owner
	case r.objectExists && r.owner == r.uid:
		task.Verb = Update
	case r.objectExists && r.owner != "":
		task.Verb = Replace
	default:
		task.Verb = Create
	}
	return task
}

// Written ends a task: the object with that UID has the content.
func (q *Queue) Written(task Task, object types.UID) {
	q.endTask(task, func(r *podRecord) {
		r.objectExists, r.object, r.owner = true, object, task.UID
		r.writtenReasons, r.writtenAt = task.item.reasons, q.now()
	})
	explanationsEnded[task.Verb].Inc()
}

// Deleted ends a task: there is no object any more.
func (q *Queue) Deleted(task Task) {
	q.endTask(task, func(r *podRecord) {
		r.markObjectDeleted()
	})
	explanationsEnded[task.Verb].Inc()
}

// markObjectDeleted records that there is no object. The record is then needed only while
// an explanation is pending.
func (r *podRecord) markObjectDeleted() {
	r.objectExists, r.object, r.owner, r.writtenReasons = false, "", "", 0
	r.podDeleted = r.podDeleted || r.pending == nil
}

// Retry ends a task that is to be repeated at due, unless newer content replaces it.
// unsure says that the write may have succeeded.
func (q *Queue) Retry(task Task, due time.Time, unsure bool) {
	q.endTask(task, func(r *podRecord) {
		it := task.item
		if unsure {
			r.writtenReasons = 0
		}
		if unsure && (task.Verb == Create || task.Verb == Replace) {
			r.objectExists, r.object, r.owner = true, "", ""
		}
		switch {
		case task.Verb == Delete && r.deletion == nil && r.pending == nil:
			it.due = due
			r.deletion = q.push(it)
		case task.Verb != Delete && r.pending == nil && r.uid == task.UID && r.reasons == it.reasons && !r.podDeleted &&
			(!r.podBound || task.Explanation.Status.Result == v1alpha1.ResultBound):
			it.due = due
			r.pending = q.push(it)
		}
	})
}

// Rejected ends a task that the API server rejected for good. Its explanation counts as
// dropped; only an explanation with other reasons is tried again.
func (q *Queue) Rejected(task Task) {
	q.endTask(task, func(r *podRecord) {
		if task.Verb == Delete {
			r.markObjectDeleted()
		}
	})
	if task.Explanation != nil {
		q.countDropped(task.Explanation.Status.Profile.Name)
	}
}

// Obsolete ends a task whose pod is bound, or else was deleted.
func (q *Queue) Obsolete(task Task, bound bool) {
	q.endTask(task, func(r *podRecord) {
		switch {
		case r.uid != task.UID:
		case bound:
			q.markPodBound(r)
		default:
			q.markPodDeleted(r)
		}
	})
}

// endTask lets f record the result of a task, and puts an explanation that came during
// the task into the right heap.
func (q *Queue) endTask(task Task, f func(*podRecord)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := task.item.record
	r.inProgress = false
	f(r)
	if it := r.pending; it != nil && it != task.item {
		q.setPending(r, it)
	}
	q.forgetIfDone(r)
	q.notify()
}
