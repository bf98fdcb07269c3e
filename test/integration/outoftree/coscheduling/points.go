package coscheduling

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// preFilterStateKey is the key of the state that PreFilter writes and Permit reads.
const preFilterStateKey fwk.StateKey = Name

// preFilterState holds the group of the pod.
type preFilterState struct {
	group   string
	members int
}

// Clone returns a copy.
func (m *preFilterState) Clone() fwk.StateData {
	c := *m
	return &c
}

// Less orders pods by priority, and pods of equal priority by their time in the queue.
func (*Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// EventsToRegister requeues the pods of a group when one of its pods is added, deleted
// or bound.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
			ownGroup, _ := groupOf(pod)
			for _, obj := range []any{before, after} {
				other, ok := obj.(*v1.Pod)
				if !ok || other == nil {
					continue
				}
				if group, _ := groupOf(other); group == ownGroup {
					return fwk.Queue, nil
				}
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}

// PreFilter rejects a pod whose group is not complete.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	group, members := groupOf(pod)
	if group == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if known, _ := p.countMembers(group); known < members {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("%d of %d members exist", known, members))
	}
	state.Write(preFilterStateKey, &preFilterState{group, members})
	return nil, nil
}

// PreFilterExtensions returns nil.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter rejects the waiting pods of the group of a pod that fits on no node.
func (p *Plugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	group, _ := groupOf(pod)
	if group != "" {
		p.rejectWaitingPods(group, pod.Name+" fits on no node")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve does nothing.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve rejects the waiting pods of the group of a pod that was not bound.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if m, err := state.Read(preFilterStateKey); err == nil {
		p.rejectWaitingPods(m.(*preFilterState).group, pod.Name+" was rejected")
	}
}

// Permit makes a pod wait until the last pod of its group arrives, and then allows all
// of them. Meanwhile it activates the others.
func (p *Plugin) Permit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil, 0
	}
	m := data.(*preFilterState)
	_, known := p.countMembers(m.group)
	var waiting []fwk.WaitingPod
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if group, _ := groupOf(w.GetPod()); group == m.group && p.handle.GetWaitingPod(w.GetPod().UID) != nil {
			waiting = append(waiting, w)
		}
	})
	if known+len(waiting)+1 < m.members {
		// What made this pod fit may be no event of the plugin's: its siblings are tried too.
		p.handle.Activate(klog.FromContext(ctx), p.unassignedPods(m.group, pod.UID))
		return fwk.NewStatus(fwk.Wait), p.permitTimeout
	}
	for _, w := range waiting {
		w.Allow(Name)
	}
	return nil, 0
}

// PostBind records an Event that says how many other pods were bound.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if data, err := state.Read(preFilterStateKey); err == nil {
		p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, "BoundTogether", "Binding", "with %d others, on %s", data.(*preFilterState).members-1, node)
	}
}

func (p *Plugin) rejectWaitingPods(group, why string) {
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if other, _ := groupOf(w.GetPod()); other == group {
			w.Reject(Name, why)
		}
	})
}
