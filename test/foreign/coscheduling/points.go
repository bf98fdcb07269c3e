package coscheduling

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// stateKey is where PreFilter leaves what Permit reads.
const preFilterStateKey fwk.StateKey = Name

// member is what the plugin knows of a pod in its attempt.
type preFilterState struct {
	group   string
	members int
}

// Clone copies it.
func (m *preFilterState) Clone() fwk.StateData {
	c := *m
	return &c
}

// Less puts what matters more first, then who came first.
func (*Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// EventsToRegister wakes the members of a group when one comes, goes or is bound.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
			mine, _ := groupOf(pod)
			for _, obj := range []any{before, after} {
				other, ok := obj.(*v1.Pod)
				if !ok || other == nil {
					continue
				}
				if group, _ := groupOf(other); group == mine {
					return fwk.Queue, nil
				}
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}

// PreFilter refuses a pod whose group is not complete.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	group, members := groupOf(pod)
	if group == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if there, _ := p.countMembers(group); there < members {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("%d of %d members are there", there, members))
	}
	state.Write(preFilterStateKey, &preFilterState{group, members})
	return nil, nil
}

// PreFilterExtensions are none.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter lets the others go whose sibling fits nowhere.
func (p *Plugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	group, _ := groupOf(pod)
	if group != "" {
		p.rejectWaitingPods(group, pod.Name+" fits nowhere")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve holds nothing.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve lets the others go whose sibling does not get its node.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if m, err := state.Read(preFilterStateKey); err == nil {
		p.rejectWaitingPods(m.(*preFilterState).group, pod.Name+" was refused")
	}
}

// Permit lets a pod wait until the last one of its group comes by, which lets all
// go on.
func (p *Plugin) Permit(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil, 0
	}
	m := data.(*preFilterState)
	_, there := p.countMembers(m.group)
	var waiting []fwk.WaitingPod
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if group, _ := groupOf(w.GetPod()); group == m.group && p.handle.GetWaitingPod(w.GetPod().UID) != nil {
			waiting = append(waiting, w)
		}
	})
	if there+len(waiting)+1 < m.members {
		return fwk.NewStatus(fwk.Wait), p.permitTimeout
	}
	for _, w := range waiting {
		w.Allow(Name)
	}
	return nil, 0
}

// PostBind tells the pod that it is bound with others.
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
