package queue

import (
	"container/list"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Place is where a pod is. A pod is in exactly one.
type Place string

// The places of a pod that the queue knows of.
const (
	Active        Place = "Active"
	Backoff       Place = "Backoff"
	Unschedulable Place = "Unschedulable"
	Gated         Place = "Gated"
	Held          Place = "Held"
	InFlight      Place = "InFlight"
)

// Pod is a waiting pod and what the queue remembers of it. It is what a
// QueueSort plugin compares. Its fields are guarded by the queue's lock, but
// while an Attempt holds the pod the attempt reads them freely: nobody else
// writes them then.
type Pod struct {
	pod *v1.Pod
	// info is what GetPodInfo returned last: a QueueSort plugin that hangs may ask
	// beside the one that was asked after it.
	info atomic.Pointer[framework.PodInfo]

	place   Place
	profile string
	// held is why a parked pod is parked.
	held Hold

	timestamp      time.Time
	initialAttempt *time.Time
	attempts       int
	// unschedulableCount and consecutiveErrors feed the two backoffs.
	unschedulableCount int
	consecutiveErrors  int
	backoffUntil       time.Time
	// flushedAt is when the flush last tried the pod.
	flushedAt time.Time
	// flushed says that the pod was last woken by the flush, not by an event.
	flushed bool

	// poison is nil for a pod at which no plugin panicked or hung.
	faults *faultRecord

	rejectors sets.Set[string]
	pending   sets.Set[string]
	// gate is the PreEnqueue plugin that holds a gated pod.
	gate string
	// admitted is the Hash of the rules that let the pod in last.
	admittedBy string
	// by are the rules that the pod was judged by last; nil: none that count.
	rules *Rules
	// doubted says that what holds pods may have changed while this one was on
	// its way.
	recheck bool
	// chosen says that the last attempt chose a node before it ended.
	nodeChosen bool
	// besides are plugins that would have refused the pod if others had not.
	furtherRejectors sets.Set[string]
	// seat is the pod's place in the roster, number says when it was added there.
	element *list.Element
	number  uint64

	// dorm is where a dormant pod sleeps.
	group *unschedulableGroup
	// index is the pod's position in the heap that holds it.
	index int
	heap  *podHeap
	// flight marks where in the event log this pod's replay starts; nil while
	// no events are kept for it.
	marker *list.Element
	// gone says that the pod was deleted or assigned while in flight.
	gone bool
}

var _ fwk.QueuedEntityInfo = &Pod{}

func newPod(pod *v1.Pod, now time.Time) *Pod {
	return &Pod{
		pod:       pod,
		profile:   pod.Spec.SchedulerName,
		timestamp: now,
		rejectors: sets.New[string](),
		pending:   sets.New[string](),
		index:     -1,
	}
}

// Entity is a pod as QueueSort plugins see it, which has waited since then and
// is in no queue. It became active then, too: kube-scheduler sorts only pods that
// have a time of their first attempt, and plugins read it without looking.
func NewQueuedEntity(pod *v1.Pod, since time.Time) fwk.QueuedEntityInfo {
	p := newPod(pod, since)
	if !fault.SortedUnattempted {
		p.initialAttempt = &since
	}
	return p
}

// rejects adds a plugin to those that refused the pod. What was shown before
// stays as it was: a QueueSort plugin that hangs may be reading it.
func (p *Pod) addRejector(plugin string) {
	if !p.rejectors.Has(plugin) {
		p.rejectors = p.rejectors.Clone().Insert(plugin)
	}
}

// Pod returns the newest version of the pod that the queue was given.
func (p *Pod) Pod() *v1.Pod { return p.pod }

// GetPodInfo returns the newest version of the pod that the queue was given, with
// what is derived from it. It is no part of fwk.QueuedEntityInfo, but the pods that
// kube-scheduler queues have it, so that a QueueSort plugin that asserts
// interface{ GetPodInfo() fwk.PodInfo } runs in both.
func (p *Pod) GetPodInfo() fwk.PodInfo {
	if info := p.info.Load(); info != nil && info.OriginalPod() == p.pod {
		return info
	}
	// A selector that does not parse leaves its list of terms empty.
	info, _ := framework.NewPodInfo(p.pod)
	p.info.Store(info)
	return info
}

// UID identifies the pod; a pod re-created under the same name has another.
func (p *Pod) UID() types.UID { return p.pod.UID }

// Type is always a single pod: groups are not scheduled yet.
func (p *Pod) Type() fwk.EntityKeyType { return fwk.PodKeyType }

// GetPriority returns the pod's priority, 0 where it has none.
func (p *Pod) GetPriority() int32 { return corev1.PodPriority(p.pod) }

// GetTimestamp returns when the pod was last put into the queue.
func (p *Pod) GetTimestamp() time.Time { return p.timestamp }

// GetAttempts returns how often the pod was tried.
func (p *Pod) GetAttempts() int { return p.attempts }

// GetBackoffExpiration returns when the pod's backoff ends, rounded down to
// the second; zero when it has none.
func (p *Pod) GetBackoffExpiration() time.Time { return p.backoffUntil }

// GetUnschedulableCount returns how many attempts ended in a refusal.
func (p *Pod) GetUnschedulableCount() int { return p.unschedulableCount }

// GetConsecutiveErrorsCount returns how many attempts in a row ended in an
// error rather than in a verdict.
func (p *Pod) GetConsecutiveErrorsCount() int { return p.consecutiveErrors }

// GetInitialAttemptTimestamp returns when the pod first became active, nil
// before that.
func (p *Pod) GetInitialAttemptTimestamp() *time.Time { return p.initialAttempt }

// GetUnschedulablePlugins returns the plugins that refused the pod last.
func (p *Pod) GetUnschedulablePlugins() sets.Set[string] { return p.rejectors }

// GetPendingPlugins returns the plugins that answered Pending last.
func (p *Pod) GetPendingPlugins() sets.Set[string] { return p.pending }

// GetGatingPlugin returns the PreEnqueue plugin that holds the pod, if any.
func (p *Pod) GetGatingPlugin() string { return p.gate }

// GetGatingPluginEvents is always empty: the queue looks the gate's events up
// in the profile that runs, which may have changed since the pod was gated.
func (p *Pod) GetGatingPluginEvents() []fwk.ClusterEvent { return nil }
