package queue

import (
	"context"
	"runtime"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// Queue holds the pending pods of all profiles. It is safe for concurrent use,
// but Pop and TryPop have one caller, the scheduling loop.
type Queue struct {
	clock     clock.WithTicker
	windows   backoffWindows
	wait      framework.WaitFunc
	yield     func()
	sliceSize int

	mu mutex
	// pods are all pods, podGroups all groups that are queued or in flight.
	pods      map[types.UID]*Entity
	podGroups map[podgroups.Key]*Entity
	groups    *podgroups.Store
	rules     map[string]*Rules
	// profileHolds are the reasons for which the pods of unserved profiles are held,
	// by profile.
	profileHolds map[string]Hold
	// heldProfiles are the unserved profiles whose new pods are added and held, too:
	// the profile exists and does not run.
	heldProfiles map[string]bool
	// unschedulable indexes the unschedulable and gated pods by profile, so that an
	// event looks at none when it concerns none.
	unschedulable map[string]unschedulableIndex
	podsByProfile profileIndex
	subQueues     []*subQueue
	// lastPopped is the index of the sub-queue that was popped from last.
	lastPopped int
	// quarantined are the quarantined pods by the end of their quarantine.
	quarantined *podHeap
	// deficits are those of the profiles that exceeded their time budget.
	deficits map[string]deficit
	inFlight inFlightLog
	// pendingBatches is how many groups of pods are being requeued.
	pendingBatches int
	// turn exists while Pop waits because of pendingBatches. It is closed when Pop has looked
	// again, or has ended.
	turn chan struct{}
	// holdChanges are the pods whose hold or gate changed since TakeHoldChanges; true
	// where the condition is to be written, too.
	holdChanges map[*Entity]bool
	// holdsChanged holds one value while there may be holdChanges.
	holdsChanged chan struct{}

	// ready holds one value while there may be a pod to pop.
	ready chan struct{}
}

// Options are the dependencies and settings of a Queue.
type Options struct {
	Clock clock.WithTicker
	// Wait is how Pop waits for a pod; nil means framework.Block.
	Wait framework.WaitFunc
	// SliceSize is how many pods a change of a profile visits under one hold of the
	// lock, and requeues while nothing is popped; 0 means 32.
	SliceSize int
	// Groups are the groups of pods; nil means that there are none.
	Groups *podgroups.Store
	// Yield is called between two slices, without a lock, to let the loop pop a pod;
	// nil means runtime.Gosched.
	Yield func()
}

// New returns an empty queue that serves no profile.
func New(o Options) *Queue {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	if o.Yield == nil {
		o.Yield = runtime.Gosched
	}
	if o.Groups == nil {
		o.Groups = podgroups.NewStore()
	}
	if o.SliceSize == 0 {
		o.SliceSize = defaultSliceSize
	}
	return &Queue{
		clock:         o.Clock,
		windows:       newBackoffWindows(o.Clock.Now()),
		wait:          o.Wait,
		yield:         o.Yield,
		sliceSize:     o.SliceSize,
		pods:          map[types.UID]*Entity{},
		podGroups:     map[podgroups.Key]*Entity{},
		groups:        o.Groups,
		rules:         map[string]*Rules{},
		profileHolds:  map[string]Hold{},
		heldProfiles:  map[string]bool{},
		unschedulable: map[string]unschedulableIndex{},
		quarantined:   newHeap(func(a, b *Entity) bool { return a.faults.until.Before(b.faults.until) }),
		podsByProfile: profileIndex{profiles: map[string]*profilePods{}},
		inFlight:      newInFlightLog(),
		deficits:      map[string]deficit{},
		holdChanges:   map[*Entity]bool{},
		holdsChanged:  make(chan struct{}, 1),
		ready:         make(chan struct{}, 1),
	}
}

// Add adds a pending pod. It ignores a pod of a profile that is neither served nor
// held by HoldProfile, and updates a pod that it knows.
func (q *Queue) Add(ctx context.Context, pod *v1.Pod) {
	q.mu.Lock()
	if known, ok := q.pods[pod.UID]; ok {
		old := known.pod
		q.mu.Unlock()
		q.Update(ctx, old, pod)
		return
	}
	rules, served := q.rules[pod.Spec.SchedulerName]
	if !served && !q.heldProfiles[pod.Spec.SchedulerName] {
		q.mu.Unlock()
		return
	}
	p := newQueuedPod(pod, q.clock.Now())
	p.rules = rules
	q.pods[pod.UID] = p
	q.podsByProfile.add(p)
	var d detachedEntities
	if key, grouped := rules.groupOf(pod); grouped {
		d.add(q.joinGroup(p, key))
	} else {
		q.inFlight.begin(p)
		d.add(p, queueImmediately)
	}
	q.mu.Unlock()
	q.requeueDetached(ctx, "UnscheduledPodAdd", d)
}

// Update replaces a pending pod by a newer version, and adds a pod that the queue
// does not know. changes are the events that the update amounts to for the pod
// itself.
func (q *Queue) Update(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) {
	if !q.UpdateKnown(ctx, oldPod, newPod, changes...) {
		q.Add(ctx, newPod)
	}
}

// UpdateKnown is Update for a pod that may not be queued any more: it reports
// whether the queue knows the pod and does not add it. A pod in a heap keeps its
// place there and only its order is fixed. A pod in flight, or being requeued, has
// the changes recorded. A held pod is requeued, since its spec may have been the
// reason.
func (q *Queue) UpdateKnown(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) bool {
	q.mu.Lock()
	p, ok := q.pods[newPod.UID]
	if !ok {
		q.mu.Unlock()
		return false
	}
	// The informer's store is ahead of its handlers: a pod that was read from the
	// store may be updated here to an older version afterwards.
	mayBeFixed := false
	before := p.pod
	order, err := resourceversion.CompareResourceVersion(newPod.ResourceVersion, p.pod.ResourceVersion)
	if err != nil || order >= 0 {
		mayBeFixed = p.memberOf == nil && q.podChanged(p, before, newPod)
		p.pod = newPod
	}
	var events []event
	for _, change := range changes {
		events = append(events, event{ClusterEvent: change, oldObj: oldPod, newObj: newPod})
	}
	if p.memberOf != nil {
		d := q.updateMember(p, before, events)
		q.mu.Unlock()
		q.requeueDetached(ctx, "TargetPodUpdate", d)
		return true
	}
	_, joins := q.rules[p.profile].groupOf(newPod)
	if p.heap != nil && !mayBeFixed {
		p.heap.fix(p)
	}
	strategy, detached, cause := queueSkip, false, "TargetPodUpdate"
	switch {
	case !p.isPlaced():
	case p.place == Held || joins:
		strategy, detached = queueImmediately, true
	case p.place == Unschedulable || p.place == Gated:
		if detached = len(changes) > 0; detached {
			cause = changes[0].Label()
		}
	}
	if detached {
		q.detach(p)
	}
	if p.marker != nil {
		for _, e := range events {
			q.inFlight.record(e)
		}
	}
	q.mu.Unlock()
	if detached {
		q.requeueAll(ctx, cause, constantStrategy(strategy), p)
	}
	return true
}

// Delete removes a pod that was deleted or assigned to a node. An attempt that
// holds the pod goes on, but the pod does not come back.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	var d detachedEntities
	if p, ok := q.pods[uid]; ok {
		if p.memberOf != nil {
			d.add(q.leaveGroup(p))
		}
		q.deletePod(p)
	}
	q.mu.Unlock()
	// A group that lost a member may have too few.
	q.requeueDetached(context.Background(), "UnscheduledPodDelete", d)
}

// deletePod removes p from the queue. The caller holds q.mu.
func (q *Queue) deletePod(p *Entity) {
	q.remove(p)
	q.inFlight.end(p)
	p.gone = true
	delete(q.pods, p.pod.UID)
	delete(q.holdChanges, p)
	q.podsByProfile.remove(p)
	q.cleanUpProfile(p.profile)
}

// Pop waits for the next pod and begins its attempt. It returns nil once ctx has
// ended.
func (q *Queue) Pop(ctx context.Context) *Attempt {
	for ctx.Err() == nil {
		if a := q.popOrWaitForBatch(); a != nil {
			return a
		}
		if q.wait(ctx, q.ready) != nil {
			break
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endTurn()
	return nil
}

// popOrWaitForBatch is TryPop for a caller that looks again as soon as q.ready has a value, or
// calls endTurn: no walk over the pods of a profile begins another slice before.
func (q *Queue) popOrWaitForBatch() *Attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batchPending() {
		if q.turn == nil {
			q.turn = make(chan struct{})
		}
		return nil
	}
	q.endTurn()
	return q.popFirst(q.picks()...)
}

// TryPop begins the attempt of the next pod, or returns nil when no pod is to be
// tried now. The sub-queues are popped in turn, and pods of throttled profiles only
// where no other pod is active. With nothing active, a pod that backs off after a
// refusal is popped before its backoff ends: an idle scheduler loses nothing by
// trying.
func (q *Queue) TryPop() *Attempt { return q.tryPop(q.picks()...) }

// picks find the next pod of a sub-queue, the first of them that finds one.
func (q *Queue) picks() []func(*subQueue) *Entity {
	return []func(*subQueue) *Entity{q.popActive, q.popThrottled, func(l *subQueue) *Entity { return l.backoff.popFirst() }}
}

// TryPopPod is TryPop for the loop while it decides about a group: it begins the attempt of
// an active pod, and returns nil where no pod is first in order.
func (q *Queue) TryPopPod() *Attempt { return q.tryPop(q.popActivePod) }

// tryPop begins the attempt of the pod that the first of picks finds in a sub-queue.
func (q *Queue) tryPop(picks ...func(*subQueue) *Entity) *Attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batchPending() {
		return nil
	}
	return q.popFirst(picks...)
}

// batchPending reports whether pods are being requeued of which one may be the first in order.
// The caller holds q.mu.
func (q *Queue) batchPending() bool { return q.pendingBatches > 0 }

// popFirst is tryPop without regard to the batches that are being requeued. The caller holds
// q.mu.
func (q *Queue) popFirst(picks ...func(*subQueue) *Entity) *Attempt {
	for _, pick := range picks {
		for range q.subQueues {
			q.lastPopped = (q.lastPopped + 1) % len(q.subQueues)
			if p := pick(q.subQueues[q.lastPopped]); p != nil {
				if p.place == Backoff {
					countIncoming(p, "active", "PopFromBackoffQ")
				}
				return q.beginAttempt(p)
			}
		}
	}
	return nil
}

// HasActivePod reports whether TryPopPod may find a pod.
func (q *Queue) HasActivePod() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.subQueues, func(l *subQueue) bool {
		first := q.activeHeap(l).peek()
		return first != nil && first.podGroup == nil
	})
}

// signal has a waiting Pop look again.
func (q *Queue) signal() { framework.Notify(q.ready) }
