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
	clock  clock.WithTicker
	wait   framework.Wait
	onHold func(pod *v1.Pod, hold Hold)
	onGate func(pod *v1.Pod, gate string)
	yield  func()
	slice  int

	mu    sync.Mutex
	pods  map[types.UID]*Pod
	rules map[string]*Rules
	// abandoned says for names that were served once why their pods wait now.
	abandoned map[string]Hold
	// withheld are those of them whose new pods are taken, too: their profile is
	// there, and does not run.
	withheld map[string]bool
	// dormant indexes by profile the pods that only an event wakes, so that an
	// event costs nothing while nobody waits for it.
	dormant map[string]dorms
	// roster are the pods by profile.
	roster roster
	lanes  []*lane
	// popped is the lane that was popped from last.
	popped int
	// asides are the pods that are set aside, by when they are tried again.
	asides *podHeap
	// debts are the profiles whose attempts take long.
	debts   map[string]debt
	flights flights
	// batches is how many groups of pods are being put down.
	batches int

	// ready holds one value while there may be something to pop.
	ready chan struct{}
}

// Options are what a Queue is built from.
type Options struct {
	// Clock is the source of time.
	Clock clock.WithTicker
	// Wait is how Pop waits; nil means framework.Block.
	Wait framework.Wait
	// OnHold is told of each pod that is parked, and why. It is called
	// without a lock and must not block; may be nil.
	OnHold func(pod *v1.Pod, hold Hold)
	// OnGate is told of each pod that is put among the gated, and of the plugin
	// that keeps it there. It is called as OnHold is; may be nil.
	OnGate func(pod *v1.Pod, gate string)
	// Slice is how many pods a change of their profile looks at under one hold of
	// the lock, and asks about while nothing is popped; 0 means 32.
	Slice int
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
	if o.Slice == 0 {
		o.Slice = sliceOfPods
	}
	return &Queue{
		clock:     o.Clock,
		wait:      o.Wait,
		onHold:    o.OnHold,
		onGate:    o.OnGate,
		yield:     o.Yield,
		slice:     o.Slice,
		pods:      map[types.UID]*Pod{},
		rules:     map[string]*Rules{},
		abandoned: map[string]Hold{},
		withheld:  map[string]bool{},
		dormant:   map[string]dorms{},
		asides:    newHeap(func(a, b *Pod) bool { return a.poison.until.Before(b.poison.until) }),
		roster:    roster{profiles: map[string]*profilePods{}},
		flights:   newFlights(),
		debts:     map[string]debt{},
		ready:     make(chan struct{}, 1),
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
	if !served && !q.withheld[pod.Spec.SchedulerName] {
		q.mu.Unlock()
		return
	}
	p := newPod(pod, q.clock.Now())
	p.by = rules
	q.pods[pod.UID] = p
	q.roster.add(p)
	q.flights.begin(p)
	q.mu.Unlock()
	q.place(ctx, "UnscheduledPodAdd", always(immediately), p)
}

// Update gives the queue a newer version of a waiting pod. changes are the
// events that the change amounts to, as seen by the pod itself. A pod that the
// queue does not know is added.
func (q *Queue) Update(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) {
	if !q.Renew(ctx, oldPod, newPod, changes...) {
		q.Add(ctx, newPod)
	}
}

// Renew is Update for a pod that may be none of the queue's business any more:
// it reports whether the pod is known. A pod in a heap is tried in any case,
// so that only its order is mended; one that is under way hears of the change
// when it is put down; a parked one is asked about from the start, since what
// held it may have been in its spec.
func (q *Queue) Renew(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) bool {
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
		better = q.renewed(p, newPod)
		p.pod = newPod
	}
	if p.heap != nil && !better {
		p.heap.fix(p)
	}
	want, lifted, cause := skip, false, "TargetPodUpdate"
	switch {
	case !p.rests():
	case p.where == Parked:
		want, lifted = immediately, true
	case p.where == Unschedulable || p.where == Gated:
		if lifted = len(changes) > 0; lifted {
			cause = changes[0].Label()
		}
	}
	if lifted {
		q.lift(p)
	}
	if p.flight != nil {
		for _, change := range changes {
			q.flights.record(event{ClusterEvent: change, oldObj: oldPod, newObj: newPod})
		}
	}
	q.mu.Unlock()
	if lifted {
		q.place(ctx, cause, always(want), p)
	}
	return true
}

// Delete forgets a pod: it is gone, or assigned to a node. An attempt that
// holds it goes on, but the pod does not come back.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p, ok := q.pods[uid]; ok {
		q.forget(p)
	}
}

// forget removes p from everywhere. Called with the lock.
func (q *Queue) forget(p *Pod) {
	q.leave(p)
	q.flights.end(p)
	p.gone = true
	delete(q.pods, p.pod.UID)
	q.roster.remove(p)
	q.closeAccount(p.profile)
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
	if q.batches > 0 && !fault.PoppedFromABatch {
		return nil
	}
	for _, pick := range []func(*lane) *Pod{
		q.takeActive, q.takeSlow,
		func(l *lane) *Pod { return l.refusals.take() },
	} {
		if fault.LanesTakeNoTurns {
			q.popped = 0
		}
		for range q.lanes {
			q.popped = (q.popped + 1) % len(q.lanes)
			if p := pick(q.lanes[q.popped]); p != nil {
				if p.where == Backoff {
					incoming.WithLabelValues("active", "PopFromBackoffQ").Inc()
				}
				return q.begin(p)
			}
		}
	}
	return nil
}

// wake tells a waiting Pop to look again.
func (q *Queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func logger(ctx context.Context) klog.Logger { return klog.FromContext(ctx) }
