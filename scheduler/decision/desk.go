package decision

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// updateEvery is the least time between two writes of one explanation.
	minUpdateInterval = time.Minute
	// leaveAfter is how long the record of a bound pod stands.
	boundRetention = time.Minute
	// outdatedInARow is how many errands about what is not true any more are done in a
	// row while others are due.
	maxOutdatedInARow = 9
)

// Desk is where explanations wait between the loop, which must not, and the
// writer, which has a budget. What waits is bounded, and what is too much is
// counted; of several explanations of a pod the last is written. It is safe for
// concurrent use and does no I/O.
//
// A SchedulingDecision has the name of its pod, and the Desk one slip for each
// name, so that never two things are to be done about one object.
type ExplanationQueue struct {
	now     func() time.Time
	changed chan struct{}
	dropped func(profile string)

	mu      sync.Mutex
	records map[types.NamespacedName]*podRecord
	heaps   [itemKinds]itemHeap
	// leaverBefore says that the errand before this one was a deletion.
	lastWasDeletion bool
	// outdatedBefore is how many errands in a row were about what is not true any more.
	outdatedInARow int
	lastSequence   uint64
}

// slip is what the Desk remembers of a pod: little, since there is one for each
// pod that waits. It goes with the pod.
type podRecord struct {
	name types.NamespacedName
	uid  types.UID
	// reasons are those that were put last; 0 when they were taken back.
	reasons uint64
	// waits is what is to be written; nil when the object says it all.
	pending *item
	// leaves is when the object is to go; nil while its pod waits.
	deletion *item
	// out says that the writer is at it.
	inProgress bool
	// bound and gone are true for good: no pod loses its node, or comes back.
	podBound, podDeleted bool

	// stands says that there is an object, or may be one; it is about owner,
	// which is empty where that is not sure.
	objectExists  bool
	object, owner types.UID
	// written are the reasons that it gives, since at.
	writtenReasons uint64
	writtenAt      time.Time
}

// NewDesk returns an empty Desk that reads the time from now.
func NewExplanationQueue(now func() time.Time) *ExplanationQueue {
	return &ExplanationQueue{
		now: now, changed: make(chan struct{}, 1), dropped: func(string) {},
		records: map[types.NamespacedName]*podRecord{},
	}
}

// CountDroppedWith has count called with the profile of each explanation that
// is dropped. Call it before the Desk is used; count must not call the Desk.
func (d *ExplanationQueue) OnDropped(count func(profile string)) { d.dropped = count }

// Changed holds one value after there is something new to do. The writer drains
// it and then takes: the channel carries no data.
func (d *ExplanationQueue) Changed() <-chan struct{} { return d.changed }

// Put has e written when its turn comes, in place of what waits for that pod. It
// never waits. Where e gives the reasons that were put last, it is not written
// again; where too many wait already, it is dropped and counted.
func (d *ExplanationQueue) Put(e Explanation) {
	reasons := reasonsOf(&e.Status)
	d.mu.Lock()
	verdict := d.evaluatePut(&e, reasons)
	if verdict == putAccepted {
		d.store(&e, reasons)
	}
	d.mu.Unlock()
	switch verdict {
	case putAccepted:
		d.notify()
	case putFull:
		d.countDropped(e.Status.Profile.Name)
	}
}

// Fresh says whether Put would have e written: no more needs to be found out
// about a pod whose reasons are what they were. e may lack what is no part of
// the reasons, such as what is nearest.
func (d *ExplanationQueue) WouldWrite(e Explanation) bool {
	reasons := reasonsOf(&e.Status)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.evaluatePut(&e, reasons) == putAccepted
}

// Bound notes that a pod has a node. Its SchedulingDecision is not true any more and
// goes at once, before all else; a record of the bind goes a minute later.
func (d *ExplanationQueue) PodBound(namespace, pod string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.recordOf(namespace, pod, uid); s != nil && !s.podBound {
		d.markPodBound(s)
		d.notify()
	}
}

// Gone forgets a pod that is deleted, and has its SchedulingDecision go as soon
// as the budget allows: the garbage collector may be long about it.
func (d *ExplanationQueue) PodDeleted(namespace, pod string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.recordOf(namespace, pod, uid); s != nil && !s.podDeleted {
		d.markPodDeleted(s)
		d.notify()
	}
}

// Unsay has the SchedulingDecision of a pod that waits on go, as soon as the
// budget allows: nothing is to be told of it any more. What is put later is told
// again.
func (d *ExplanationQueue) Withdraw(namespace, pod string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.recordOf(namespace, pod, uid); s != nil && !s.podDeleted && !s.podBound {
		d.withdraw(s)
		d.notify()
	}
}

// slipOf is what is remembered of a pod, nil when nothing is. Called with the lock.
func (d *ExplanationQueue) recordOf(namespace, pod string, uid types.UID) *podRecord {
	if s := d.records[types.NamespacedName{Namespace: namespace, Name: pod}]; s != nil && s.uid == uid {
		return s
	}
	return nil
}

// tell leaves word that there is something to do.
func (d *ExplanationQueue) notify() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// drop counts an explanation of profile that is not written.
func (d *ExplanationQueue) countDropped(profile string) {
	explanationsTotal.WithLabelValues("dropped").Inc()
	d.dropped(profile)
}
