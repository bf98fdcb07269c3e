package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Queue holds the waiting pods of all profiles. It is safe for concurrent use;
// Pop has one caller, the loop.
type Queue struct {
	clock  clock.WithTicker
	wait   framework.Wait
	onHold func(pod *v1.Pod, hold Hold)

	mu    sync.Mutex
	pods  map[types.UID]*Pod
	rules map[string]*Rules
	// abandoned says for names that were served once why their pods wait now.
	abandoned map[string]Hold
	lanes     []*lane
	turn      int
	flights   flights

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
}

// New returns an empty queue that serves no profile yet.
func New(o Options) *Queue {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	return &Queue{
		clock:     o.Clock,
		wait:      o.Wait,
		onHold:    o.OnHold,
		pods:      map[types.UID]*Pod{},
		rules:     map[string]*Rules{},
		abandoned: map[string]Hold{},
		flights:   newFlights(),
		ready:     make(chan struct{}, 1),
	}
}

// Add takes a pod that waits for a profile the queue serves; others are none
// of its business. A pod that is known already is updated.
func (q *Queue) Add(ctx context.Context, pod *v1.Pod) {
	q.mu.Lock()
	if known, ok := q.pods[pod.UID]; ok {
		old := known.pod
		q.mu.Unlock()
		q.Update(ctx, old, pod)
		return
	}
	if _, served := q.rules[pod.Spec.SchedulerName]; !served {
		q.mu.Unlock()
		return
	}
	p := newPod(pod, q.clock.Now())
	q.pods[pod.UID] = p
	q.flights.begin(p)
	q.mu.Unlock()
	q.place(ctx, p, immediately, "PodAdd")
}

// Update gives the queue a newer version of a waiting pod, or the pod if it is
// new. changes are the events that the change amounts to, as seen by the pod
// itself.
func (q *Queue) Update(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) {
	if !q.Renew(ctx, oldPod, newPod, changes...) {
		q.Add(ctx, newPod)
	}
}

// Renew is Update for a pod that may be on its way to a node: one that the
// queue does not hold any more is bound and stays out. It reports whether the
// queue holds the pod.
func (q *Queue) Renew(ctx context.Context, oldPod, newPod *v1.Pod, changes ...fwk.ClusterEvent) bool {
	q.mu.Lock()
	p, ok := q.pods[newPod.UID]
	if !ok {
		q.mu.Unlock()
		return false
	}
	// A parked pod is asked about again from the start: what held it may have
	// been in its spec. A pod in flight hears of the change when it is put
	// down; others that sit in a heap need their order mended only.
	var reconsider bool
	strategy := skip
	switch {
	case p.where == InFlight || p.flight != nil:
	case p.where == Parked:
		reconsider, strategy = true, immediately
		q.flights.begin(p)
	case p.where == Unschedulable, p.where == Gated:
		reconsider = true
		q.flights.begin(p)
	}
	for _, change := range changes {
		q.flights.record(event{ClusterEvent: change, oldObj: oldPod, newObj: newPod})
	}
	// The informer's store is ahead of what it tells: who came from the store may
	// be told of here as it was before.
	if order, err := resourceversion.CompareResourceVersion(newPod.ResourceVersion, p.pod.ResourceVersion); err != nil || order >= 0 {
		p.pod = newPod
	}
	if p.heap != nil {
		p.heap.fix(p)
	}
	q.mu.Unlock()
	if reconsider {
		q.place(ctx, p, strategy, "PodUpdate")
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
	p.leave()
	q.flights.end(p)
	p.gone = true
	delete(q.pods, p.pod.UID)
}

// Event tells the queue that something happened in the cluster. Pods that the
// event may concern are asked about, with their profile's hints, before Event
// returns. only, where it is not nil, limits the event to some pods.
func (q *Queue) Event(ctx context.Context, happened fwk.ClusterEvent, oldObj, newObj any, only func(*v1.Pod) bool) {
	e := event{ClusterEvent: happened, oldObj: oldObj, newObj: newObj}
	var concerned []*Pod
	q.mu.Lock()
	for _, p := range q.pods {
		if p.where != Unschedulable && p.where != Gated || p.flight != nil {
			continue
		}
		if rules := q.rules[p.profile]; rules != nil && rules.interested(p, e) && (only == nil || only(p.pod)) {
			concerned = append(concerned, p)
		}
	}
	sortPods(concerned)
	for _, p := range concerned {
		q.flights.begin(p)
	}
	q.flights.record(e)
	q.mu.Unlock()
	for _, p := range concerned {
		q.place(ctx, p, skip, happened.Label())
	}
}

// Activate makes the given pods active without their backoff, as plugins may
// ask. Pods in flight are woken when they come back; unknown ones are ignored.
func (q *Queue) Activate(ctx context.Context, pods map[string]*v1.Pod) {
	for _, key := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[key]
		q.mu.Lock()
		p, ok := q.pods[pod.UID]
		if !ok || p.where == Active || p.where == Parked {
			q.mu.Unlock()
			continue
		}
		if p.flight != nil {
			q.flights.record(event{ClusterEvent: ForceActivate, newObj: p.pod})
			q.mu.Unlock()
			continue
		}
		if p.where == InFlight {
			q.mu.Unlock()
			continue
		}
		p.leave()
		q.flights.begin(p)
		q.mu.Unlock()
		q.place(ctx, p, immediately, ForceActivate.CustomLabel)
	}
}

// Pop waits for the next pod to try and begins its attempt. It returns nil
// when ctx ends.
func (q *Queue) Pop(ctx context.Context) *Attempt {
	for {
		if a := q.TryPop(); a != nil {
			return a
		}
		if q.wait(ctx, q.ready) != nil {
			return nil
		}
	}
}

// TryPop begins the attempt of the next pod, or returns nil when none is to be
// tried now. Lanes take turns. With nothing active, a pod that backs off after
// a refusal is taken before its time: an idle scheduler loses nothing by trying.
func (q *Queue) TryPop() *Attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pick := range []func(*lane) *podHeap{
		func(l *lane) *podHeap { return l.active },
		func(l *lane) *podHeap { return l.refusals },
	} {
		for range q.lanes {
			q.turn = (q.turn + 1) % len(q.lanes)
			if p := pick(q.lanes[q.turn]).take(); p != nil {
				return q.begin(p)
			}
		}
	}
	return nil
}

// Tick does what time alone causes at now: backoffs end, and pods that were
// unschedulable for longer than their profile's flushAfter are tried again.
func (q *Queue) Tick(ctx context.Context) {
	now := q.clock.Now()
	var woken, flushed []*Pod
	q.mu.Lock()
	for _, l := range q.lanes {
		for _, h := range []*podHeap{l.refusals, l.errors} {
			for p := h.peek(); p != nil && !backingOff(p, now); p = h.peek() {
				woken = append(woken, h.take())
			}
		}
	}
	for _, p := range q.pods {
		rules := q.rules[p.profile]
		if (p.where == Unschedulable || p.where == Gated) && p.flight == nil && rules != nil &&
			rules.FlushAfter > 0 && now.Sub(p.timestamp) > rules.FlushAfter {
			flushed = append(flushed, p)
		}
	}
	sortPods(flushed)
	for _, p := range append(woken, flushed...) {
		q.flights.begin(p)
	}
	q.mu.Unlock()
	for _, p := range woken {
		q.place(ctx, p, immediately, "BackoffComplete")
	}
	for _, p := range flushed {
		p.flushed = p.where == Unschedulable
		q.place(ctx, p, afterBackoff, "UnschedulableTimeout")
	}
}

// Run ticks until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	ticker := q.clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			q.Tick(ctx)
		}
	}
}

// wake tells a waiting Pop to look again.
func (q *Queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// The events that the queue itself causes.
var (
	// ForceActivate wakes the pod it carries, or all pods.
	ForceActivate = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ForceActivate"}
	// ProfileSwap wakes the pods in flight when their profile changes.
	ProfileSwap = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ProfileSwap"}
)

func logger(ctx context.Context) klog.Logger { return klog.FromContext(ctx) }
