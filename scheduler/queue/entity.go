package queue

import (
	"container/list"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Place is where the queue has a pod. A pod is in exactly one place.
type Place string

// The places of a pod. InFlight is a pod that was popped and whose attempt has
// not ended. Grouped is a pod of a group: it is where the group is, and reported there.
const (
	Active        Place = "Active"
	Backoff       Place = "Backoff"
	Unschedulable Place = "Unschedulable"
	Gated         Place = "Gated"
	Held          Place = "Held"
	InFlight      Place = "InFlight"
	Grouped       Place = "Grouped"
)

// Entity is a queued pod or group of pods, as a QueueSort plugin compares it. Its fields
// are guarded by the queue's lock. While an Attempt holds the pod, the attempt reads them
// without the lock: nothing else writes them then.
type Entity struct {
	// pod is, for a group, its first member's.
	pod *v1.Pod
	// podGroup is nil for a pod. memberOf is the group in whose place a pod waits; nil for
	// a group, for a pod in no group and for one in flight.
	podGroup *podGroup
	memberOf *Entity
	// info is what GetPodInfo returned last. It is atomic because a call of a
	// QueueSort plugin that was abandoned may still read it.
	info atomic.Pointer[framework.PodInfo]

	place   Place
	profile string
	// held is the reason of a held pod.
	held Hold
	// holdOver says that the condition of the pod may still show a hold that is over.
	holdOver bool

	timestamp      time.Time
	initialAttempt *time.Time
	attempts       int
	// unschedulableCount and consecutiveErrors determine the backoff.
	unschedulableCount int
	consecutiveErrors  int
	backoffUntil       time.Time
	// flushedAt is when the flush last requeued the pod.
	flushedAt time.Time
	// flushed says that the flush woke the pod last, not an event.
	flushed bool

	// faults is nil while no plugin has panicked or hung at the pod. A quarantined group has
	// those of the pod for which it is.
	faults *faultRecord

	rejectors sets.Set[string]
	pending   sets.Set[string]
	// gate is the PreEnqueue plugin that gates the pod.
	gate string
	// admittedBy is the Hash of the rules whose holds and gates the pod passed last.
	admittedBy string
	// rules are those that the pod was last evaluated under; nil means that it has to
	// be evaluated anew.
	rules *Rules
	// recheck says that the holds may have changed while the pod had no place.
	recheck bool
	// nodeChosen says that the last attempt chose a node before it ended.
	nodeChosen bool
	// bindingBegan says that the binding cycle of the last attempt with its group began.
	bindingBegan bool
	// furtherRejectors are plugins that would refuse the pod if preemption made room
	// for it.
	furtherRejectors sets.Set[string]
	// element is the pod's element in podsByProfile, number the order of its addition.
	element *list.Element
	number  uint64

	// group holds the pod while it is unschedulable or gated.
	group *unschedulableGroup
	// index is the pod's position in heap, the heap that holds it.
	index int
	heap  *podHeap
	// marker is the pod's marker in the in-flight log; nil while no events are
	// recorded for it.
	marker *list.Element
	// activated says that the log has a ForceActivate for the pod behind its marker.
	activated bool
	// gone says that the pod was deleted or assigned while an attempt, or requeue,
	// had it.
	gone bool
}

var _ fwk.QueuedEntityInfo = &Entity{}

func newQueuedPod(pod *v1.Pod, now time.Time) *Entity {
	return &Entity{
		pod:       pod,
		profile:   pod.Spec.SchedulerName,
		timestamp: now,
		rejectors: sets.New[string](),
		pending:   sets.New[string](),
		index:     -1,
	}
}

// NewQueuedEntity returns a pod that is in no queue as QueueSort plugins see it:
// added and first active at since. Plugins made for kube-scheduler dereference the
// initial attempt timestamp without a check, because kube-scheduler sorts only pods
// that have one.
func NewQueuedEntity(pod *v1.Pod, since time.Time) fwk.QueuedEntityInfo {
	p := newQueuedPod(pod, since)
	p.initialAttempt = &since
	return p
}

// addRejector adds a plugin to those that refused the pod. It replaces the set
// instead of changing it, since an abandoned call of a QueueSort plugin may still
// read it.
func (p *Entity) addRejector(plugin string) {
	if !p.rejectors.Has(plugin) {
		p.rejectors = p.rejectors.Clone().Insert(plugin)
	}
}

// Pod returns the newest known version of the pod.
func (p *Entity) Pod() *v1.Pod { return p.pod }

// GetPodInfo returns the PodInfo of the newest known version of the pod, for a group of
// its first member. The
// method is not part of fwk.QueuedEntityInfo, but the entities of kube-scheduler
// have it: a QueueSort plugin that asserts interface{ GetPodInfo() fwk.PodInfo }
// runs in both.
func (p *Entity) GetPodInfo() fwk.PodInfo {
	if info := p.info.Load(); info != nil && info.OriginalPod() == p.pod {
		return info
	}
	// The error is about a selector that does not parse; its terms are left out.
	info, _ := framework.NewPodInfo(p.pod)
	p.info.Store(info)
	return info
}

// Type returns whether this is a pod or a group.
func (p *Entity) Type() fwk.EntityKeyType {
	if p.podGroup != nil {
		return fwk.PodGroupKeyType
	}
	return fwk.PodKeyType
}

// GetPriority returns the priority of the pod or the group, 0 where it has none.
func (p *Entity) GetPriority() int32 {
	if p.podGroup != nil {
		return p.podGroup.priority
	}
	return corev1.PodPriority(p.pod)
}

// GetTimestamp returns when the pod was added or its last attempt ended.
func (p *Entity) GetTimestamp() time.Time { return p.timestamp }

// GetAttempts returns the number of attempts, the current one included.
func (p *Entity) GetAttempts() int { return p.attempts }

// GetBackoffExpiration returns when the pod's backoff ends, rounded down to the
// second; zero when it has none.
func (p *Entity) GetBackoffExpiration() time.Time { return p.backoffUntil }

// GetUnschedulableCount returns how many attempts ended in a refusal.
func (p *Entity) GetUnschedulableCount() int { return p.unschedulableCount }

// GetConsecutiveErrorsCount returns how many attempts in a row ended in an error.
func (p *Entity) GetConsecutiveErrorsCount() int { return p.consecutiveErrors }

// GetInitialAttemptTimestamp returns when the pod first became active, nil
// before that.
func (p *Entity) GetInitialAttemptTimestamp() *time.Time { return p.initialAttempt }

// GetUnschedulablePlugins returns the plugins that refused the pod last.
func (p *Entity) GetUnschedulablePlugins() sets.Set[string] { return p.rejectors }

// GetPendingPlugins returns the plugins that returned Pending last.
func (p *Entity) GetPendingPlugins() sets.Set[string] { return p.pending }

// GetGatingPlugin returns the PreEnqueue plugin that gates the pod, if any.
func (p *Entity) GetGatingPlugin() string { return p.gate }

// GetGatingPluginEvents returns nil: the queue looks the events of the gating
// plugin up in the rules of the running profile, which may have changed since the
// pod was gated.
func (p *Entity) GetGatingPluginEvents() []fwk.ClusterEvent { return nil }
