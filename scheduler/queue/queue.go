package queue

import (
	"context"
	"runtime"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Queue holds the waiting pods of all profiles. It is safe for concurrent use;
// Pop has one caller, the loop.
type Queue struct {
	clock     clock.WithTicker
	wait      framework.WaitFunc
	onHold    func(pod *v1.Pod, hold Hold)
	onGate    func(pod *v1.Pod, gate string)
	yield     func()
	sliceSize int

	mu    sync.Mutex
	pods  map[types.UID]*Pod
	rules map[string]*Rules
	// abandoned says for names that were served once why their pods wait now.
	profileHolds map[string]Hold
	// withheld are those of them whose new pods are taken, too: their profile is
	// there, and does not run.
	heldProfiles map[string]bool
	// dormant indexes by profile the pods that only an event wakes, so that an
	// event costs nothing while nobody waits for it.
	unschedulable map[string]unschedulableIndex
	// roster are the pods by profile.
	podsByProfile profileIndex
	subQueues     []*subQueue
	// popped is the lane that was popped from last.
	lastPopped int
	// asides are the pods that are set aside, by when they are tried again.
	quarantined *podHeap
	// debts are the profiles whose attempts take long.
	deficits map[string]deficit
	inFlight inFlightLog
	// batches is how many groups of pods are being put down.
	pendingBatches int

	// ready holds one value while there may be something to pop.
	ready chan struct{}
}

// Options are what a Queue is built from.
type Options struct {
	// Clock is the source of time.
	Clock clock.WithTicker
	// Wait is how Pop waits; nil means framework.Block.
	Wait framework.WaitFunc
	// OnHold is told of each pod that is parked, and why. It is called
	// without a lock and must not block; may be nil.
	OnHold func(pod *v1.Pod, hold Hold)
	// OnGate is told of each pod that is put among the gated, and of the plugin
	// that keeps it there. It is called as OnHold is; may be nil.
	OnGate func(pod *v1.Pod, gate string)
	// Slice is how many pods a change of their profile looks at under one hold of
	// the lock, and asks about while nothing is popped; 0 means 32.
	SliceSize int
	// Yield is called between two slices, without a lock, so that others may come
	// in between; nil means runtime.Gosched.
	Yield func()
}

// New returns an empty queue that serves no profile yet.
func New(o Options) *Queue {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	if o.Yield == nil {
		o.Yield = runtime.Gosched
	}
	if o.SliceSize == 0 {
		o.SliceSize = defaultSliceSize
	}
	return &Queue{
		clock:         o.Clock,
		wait:          o.Wait,
		onHold:        o.OnHold,
		onGate:        o.OnGate,
		yield:         o.Yield,
		sliceSize:     o.SliceSize,
		pods:          map[types.UID]*Pod{},
		rules:         map[string]*Rules{},
		profileHolds:  map[string]Hold{},
		heldProfiles:  map[string]bool{},
		unschedulable: map[string]unschedulableIndex{},
		quarantined:   newHeap(func(a, b *Pod) bool { return a.faults.until.Before(b.faults.until) }),
		podsByProfile: profileIndex{profiles: map[string]*profilePods{}},
		inFlight:      newInFlightLog(),
		deficits:      map[string]deficit{},
		ready:         make(chan struct{}, 1),
	}
}

// Add takes a pod that waits for a profile that the queue serves, or withholds;
// others are none of its business. A pod that is known already is updated.
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
	p := newPod(pod, q.clock.Now())
	p.rules = rules
	q.pods[pod.UID] = p
	q.podsByProfile.add(p)
	q.inFlight.begin(p)
	q.mu.Unlock()
	q.requeueAll(ctx, "UnscheduledPodAdd", constantStrategy(queueImmediately), p)
}

// Update gives the queue a newer version of a waiting pod. changes are the
// events that the change amounts to, as seen by the pod itself. A pod that the
// queue does not know is added.
func (q *Queue) Update(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) {
	if !q.UpdateKnown(ctx, oldPod, newPod, changes...) {
		q.Add(ctx, newPod)
	}
}

// Renew is Update for a pod that may be none of the queue's business any more:
// it reports whether the pod is known. A pod in a heap is tried in any case,
// so that only its order is mended; one that is under way hears of the change
// when it is put down; a parked one is asked about from the start, since what
// held it may have been in its spec.
func (q *Queue) UpdateKnown(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) bool {
	q.mu.Lock()
	p, ok := q.pods[newPod.UID]
	if !ok {
		q.mu.Unlock()
		return false
	}
	// The informer's store is ahead of what it tells: who came from the store may
	// be told of here as it was before.
	better := false
	order, err := resourceversion.CompareResourceVersion(newPod.ResourceVersion, p.pod.ResourceVersion)
	if err != nil || order >= 0 || fault.OlderVersionTaken {
		better = q.podChanged(p, newPod)
		p.pod = newPod
	}
	if p.heap != nil && !better {
		p.heap.fix(p)
	}
	want, lifted, cause := queueSkip, false, "TargetPodUpdate"
	switch {
	case !p.isPlaced():
	case p.place == Held:
		want, lifted = queueImmediately, true
	case p.place == Unschedulable || p.place == Gated:
		if lifted = len(changes) > 0; lifted {
			cause = changes[0].Label()
		}
	}
	if lifted {
		q.detach(p)
	}
	if p.marker != nil {
		for _, change := range changes {
			q.inFlight.record(event{ClusterEvent: change, oldObj: oldPod, newObj: newPod})
		}
	}
	q.mu.Unlock()
	if lifted {
		q.requeueAll(ctx, cause, constantStrategy(want), p)
	}
	return true
}

// Delete forgets a pod: it is gone, or assigned to a node. An attempt that
// holds it goes on, but the pod does not come back.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p, ok := q.pods[uid]; ok {
		q.deletePod(p)
	}
}

// forget removes p from everywhere. Called with the lock.
func (q *Queue) deletePod(p *Pod) {
	q.remove(p)
	q.inFlight.end(p)
	p.gone = true
	delete(q.pods, p.pod.UID)
	q.podsByProfile.remove(p)
	q.cleanUpProfile(p.profile)
}

// Pop waits for the next pod to try and begins its attempt. It returns nil
// once ctx has ended.
func (q *Queue) Pop(ctx context.Context) *Attempt {
	for ctx.Err() == nil {
		if a := q.TryPop(); a != nil {
			return a
		}
		if q.wait(ctx, q.ready) != nil {
			return nil
		}
	}
	return nil
}

// TryPop begins the attempt of the next pod, or returns nil when none is to be
// tried now. Lanes take turns, and profiles that are slow stand back. With
// nothing active, a pod that backs off after a refusal is taken before its time:
// an idle scheduler loses nothing by trying.
func (q *Queue) TryPop() *Attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pendingBatches > 0 && !fault.PoppedFromABatch {
		return nil
	}
	for _, pick := range []func(*subQueue) *Pod{
		q.popActive, q.popThrottled,
		func(l *subQueue) *Pod { return l.backoff.popFirst() },
	} {
		if fault.LanesTakeNoTurns {
			q.lastPopped = 0
		}
		for range q.subQueues {
			q.lastPopped = (q.lastPopped + 1) % len(q.subQueues)
			if p := pick(q.subQueues[q.lastPopped]); p != nil {
				if p.place == Backoff {
					incomingPods.WithLabelValues("active", "PopFromBackoffQ").Inc()
				}
				return q.beginAttempt(p)
			}
		}
	}
	return nil
}

// wake tells a waiting Pop to look again.
func (q *Queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func logger(ctx context.Context) klog.Logger { return klog.FromContext(ctx) }
