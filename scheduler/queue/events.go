package queue

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// The events that the queue itself causes.
var (
	// ForceActivate wakes the pod it carries, or all pods.
	ForceActivate = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ForceActivate"}
	// gateOpened asks the gates of the pod it carries again, and wakes nobody else.
	gateOpened = fwk.ClusterEvent{Resource: fwk.TargetPod, CustomLabel: "GateOpened"}
	// ProfileSwap is why a pod is asked about again when its profile changes.
	ProfileSwap = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ProfileSwap"}
)

// Event tells the queue that something happened in the cluster. Pods that the
// event may concern are asked about, with their profile's hints, before Event
// returns. only, where it is not nil, limits the event to some pods; it is
// called with a lock held and must look at the pod alone.
func (q *Queue) Event(ctx context.Context, happened fwk.ClusterEvent, oldObj, newObj any, only func(*v1.Pod) bool) {
	e := event{ClusterEvent: happened, oldObj: oldObj, newObj: newObj, only: only}
	var concerned []*Pod
	q.mu.Lock()
	for profile, asleep := range q.unschedulable {
		rules := q.rules[profile]
		listeners := rules.registeredPlugins(e)
		for _, d := range asleep {
			if rules != nil && !e.isWildcard() && !d.blockedByAny(listeners) {
				continue
			}
			for p := range d.pods {
				switch {
				case rules == nil:
					// It is about to be parked: nobody can say what this is to it.
					p.rules = nil
				case e.concerns(p.pod):
					concerned = append(concerned, p)
				}
			}
		}
	}
	sortByTimestamp(concerned)
	for _, p := range concerned {
		q.detach(p)
	}
	q.inFlight.record(e)
	q.mu.Unlock()
	q.requeueAll(ctx, happened.Label(), constantStrategy(queueSkip), concerned...)
}

// GateOpened tells the queue that a gate of the pod with this UID may have
// opened without an event. A pod that it let in is tried: whatever woke it when
// the gate was shut is not said again.
func (q *Queue) GateOpened(ctx context.Context, uid types.UID) {
	q.mu.Lock()
	p, ok := q.pods[uid]
	if !ok {
		q.mu.Unlock()
		return
	}
	gated := p.place == Gated && p.isPlaced()
	if gated {
		q.detach(p)
	}
	q.inFlight.record(event{ClusterEvent: gateOpened, newObj: p.pod})
	q.mu.Unlock()
	if gated {
		q.requeueAll(ctx, gateOpened.CustomLabel, constantStrategy(queueSkip), p)
	}
}

// Activate makes the given pods active without their backoff, as plugins may
// ask. Pods in flight are woken when they come back; unknown ones are ignored.
func (q *Queue) Activate(ctx context.Context, pods map[string]*v1.Pod) {
	var activated []*Pod
	q.mu.Lock()
	for _, pod := range pods {
		p, ok := q.pods[pod.UID]
		switch {
		case !ok, p.place == Active, p.place == Held:
		case p.isPlaced():
			q.detach(p)
			activated = append(activated, p)
		case p.marker != nil:
			q.inFlight.record(event{ClusterEvent: ForceActivate, newObj: p.pod})
		}
	}
	sortByTimestamp(activated)
	q.mu.Unlock()
	q.requeueAll(ctx, ForceActivate.CustomLabel, constantStrategy(queueImmediately), activated...)
}
