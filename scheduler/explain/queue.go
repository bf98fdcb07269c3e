// Package explain says why pods are pending: a builder of explanations, and the bounded queue
// between the scheduling loop, which must not wait, and the controller that writes them as
// SchedulingDecisions.
package explain

import (
	"hash/fnv"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// minUpdateInterval is the least time between two writes of one SchedulingDecision.
	minUpdateInterval = time.Minute
	// gatedGroupDelay is how long the first explanation of a gated pod of a group waits. The
	// pods of a group are created one after another; what the first attempt finds would
	// wait for minUpdateInterval if one of them had said that the group has too few.
	gatedGroupDelay = 5 * time.Second
	// passedDelay is how long the SchedulingDecision of a pod that has passed its scheduling
	// cycle is kept: where the pod is bound or fails at once, no further write is needed.
	passedDelay = 5 * time.Second
	// boundRetention is how long the SchedulingDecision of a bound pod is kept.
	boundRetention = time.Minute
	// maxOutdatedInARow is how many outdated objects are handled in a row while other
	// tasks are due.
	maxOutdatedInARow = 9
)

// Queue passes explanations from the scheduling loop, which must not wait,
// to the controller that writes them at a limited rate. It is bounded; what exceeds the
// bound is dropped and counted. Of several explanations of a pod it keeps the last. It is
// safe for concurrent use and does no I/O.
//
// A SchedulingDecision has the name of its pod, and the queue has one record per name, so
// that no two tasks concern one object at the same time.
type Queue struct {
	now     func() time.Time
	changed chan struct{}
	drops   DropCounter

	mu      sync.Mutex
	records map[types.NamespacedName]*podRecord
	heaps   [itemKinds]itemHeap
	// lastWasDeletion says that the task before was a deletion, outdated objects left out.
	lastWasDeletion bool
	// outdatedInARow counts the last tasks in a row that concerned outdated objects.
	outdatedInARow int
	lastSequence   uint64
	// taken says that the writer has asked for a task: by then all existing objects were added.
	taken bool
}

// podRecord is what the queue knows of a pod and its SchedulingDecision. It is small,
// since each pending pod has one, and is deleted with the pod.
type podRecord struct {
	name types.NamespacedName
	uid  types.UID
	// reasons is the hash of the reasons that were put last; 0 after Withdraw.
	reasons uint64
	// pending is the explanation to be written; nil when the object is up to date.
	pending *item
	// deletion is when the object has to be deleted; nil while its pod is pending.
	deletion *item
	// passed says that deletion is that of a pod that has passed its scheduling cycle.
	passed bool
	// inProgress says that the writer works on the object.
	inProgress bool
	// podBound and podDeleted never become false again for the same UID.
	podBound, podDeleted bool

	// objectExists says that there is an object, or may be one. owner is the UID of the
	// pod that it is about; empty when unknown.
	objectExists  bool
	object, owner types.UID
	// writtenReasons is the hash of the reasons that the object has since writtenAt.
	writtenReasons uint64
	writtenAt      time.Time
}

// DropCounter counts the explanations of a profile that are dropped. *decision.Ledger is
// its implementation. It must not call the queue.
type DropCounter interface {
	Dropped(profile string)
}

// NewQueue returns an empty queue that reads the time from now.
func NewQueue(now func() time.Time, drops DropCounter) *Queue {
	return &Queue{
		now: now, changed: make(chan struct{}, 1), drops: drops,
		records: map[types.NamespacedName]*podRecord{},
	}
}

// Changed returns a channel that holds one value after a task was added. The writer
// drains it and then calls Take: the channel carries no data.
func (q *Queue) Changed() <-chan struct{} { return q.changed }

// Put adds e, in place of an explanation of the same pod that was not written yet. It
// never waits. It ignores e when the reasons are those that were put last, and drops and
// counts e when too many explanations wait.
func (q *Queue) Put(e decision.Explanation) {
	reasons := reasonsOf(&e.Status)
	q.mu.Lock()
	verdict := q.evaluatePut(&e, reasons)
	if verdict == putAccepted {
		q.store(&e, reasons)
	}
	q.mu.Unlock()
	switch verdict {
	case putAccepted:
		q.notify()
	case putFull:
		q.countDropped(e.Status.Profile.Name)
	}
}

// WouldWrite reports whether Put would accept e, so that a caller need not compute more
// for a pod whose reasons did not change. e may lack fields that are no part of the
// reasons, such as the closest nodes.
func (q *Queue) WouldWrite(e decision.Explanation) bool {
	reasons := reasonsOf(&e.Status)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.evaluatePut(&e, reasons) == putAccepted
}

// PodBound records that a pod is bound. Its SchedulingDecision is outdated and is deleted
// before all else; one that records the bind is deleted after boundRetention.
func (q *Queue) PodBound(namespace, pod string, uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.recordOf(namespace, pod, uid); r != nil && !r.podBound {
		q.markPodBound(r)
		q.notify()
	}
}

// Passed records that a pod has passed its scheduling cycle, and does not wait on Permit: its
// SchedulingDecision, which says why it had not, is deleted after passedDelay, and
// minUpdateInterval after it was written at the earliest, unless a later Put replaces it. It does nothing for a pod that was not explained.
func (q *Queue) Passed(namespace, pod string, uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.recordOf(namespace, pod, uid); r != nil && !r.podBound && !r.podDeleted {
		q.markPassed(r)
		q.notify()
	}
}

// PodDeleted records that a pod was deleted, and schedules the deletion of its
// SchedulingDecision: the garbage collector may be slow.
func (q *Queue) PodDeleted(namespace, pod string, uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.recordOf(namespace, pod, uid); r != nil && !r.podDeleted {
		q.markPodDeleted(r)
		q.notify()
	}
}

// Withdraw schedules the deletion of the SchedulingDecision of a pending pod, whose
// profile explains it no more. A later Put is written again, whatever its reasons.
func (q *Queue) Withdraw(namespace, pod string, uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.recordOf(namespace, pod, uid)
	if name := (types.NamespacedName{Namespace: namespace, Name: pod}); !q.taken && q.records[name] == nil {
		// The object of an earlier process may not be known yet.
		r = &podRecord{name: name, uid: uid}
		q.records[name] = r
	}
	if r != nil && !r.podDeleted && !r.podBound {
		q.withdraw(r)
		q.notify()
	}
}

// recordOf returns the record of a pod; nil when there is none. The caller holds the
// lock.
func (q *Queue) recordOf(namespace, pod string, uid types.UID) *podRecord {
	if r := q.records[types.NamespacedName{Namespace: namespace, Name: pod}]; r != nil && r.uid == uid {
		return r
	}
	return nil
}

// notify puts a value into the channel of Changed.
func (q *Queue) notify() { framework.Notify(q.changed) }

// countDropped counts an explanation of profile that is not written.
func (q *Queue) countDropped(profile string) {
	explanationsDropped.Inc()
	q.drops.Dropped(profile)
}

// reasonsOf returns a hash of the parts of a status that justify another write: all but
// counts, names of nodes and times. The message counts only where no plugin rejected the
// pod. The hash is never zero.
func reasonsOf(s *v1alpha1.SchedulingDecisionStatus) uint64 {
	parts := []string{string(s.Result), s.Profile.Name, s.Profile.Hash}
	if len(s.Rejections) == 0 {
		parts = append(parts, s.Message)
	}
	if s.Queue != nil {
		parts = append(parts, "queue", s.Queue.Where, s.Queue.Gate)
	}
	if g := s.Group; g != nil {
		parts = append(parts, "group", string(g.Source), g.Name, g.ExplainedBy)
	}
	if s.Preemption != nil {
		parts = append(parts, "preemption", string(s.Preemption.Outcome))
	}
	sum := digest(parts...)
	for _, r := range s.Rejections {
		// Added up, since rejections are sorted by their counts.
		sum += digest(r.Plugin, r.Code, r.Reason)
	}
	return max(sum, 1)
}

// digest returns a hash of a list of strings.
func digest(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = io.WriteString(h, text) // Write on a hash returns no error
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

var (
	explanationsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_explanations_waiting",
		Help: "[ALPHA] SchedulingDecisions that wait to be written or deleted, at 20 a second, or 2 while pods are being bound.",
	})
	explanationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_explanations_total",
		Help: "[ALPHA] Explanations by outcome: the SchedulingDecision was written (create, replace, update) or deleted (delete), or the explanation was dropped because the queue was full or the API server rejected it (dropped).",
	}, []string{"outcome"})
	// All outcomes are reported from the start: Prometheus sees no increase in a series that
	// appears with its first drops.
	explanationsDropped = explanationsTotal.WithLabelValues("dropped")
	explanationsEnded   = map[Verb]prometheus.Counter{
		Create:  explanationsTotal.WithLabelValues(string(Create)),
		Replace: explanationsTotal.WithLabelValues(string(Replace)),
		Update:  explanationsTotal.WithLabelValues(string(Update)),
		Delete:  explanationsTotal.WithLabelValues(string(Delete)),
	}
)

// Metrics returns the package's collectors.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{explanationsWaiting, explanationsTotal}
}
