package framework

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// maxPermitWait is the longest that a Permit plugin may let a pod wait,
// upstream's bound.
const maxPermitWait = 15 * time.Minute

// RunReservePluginsReserve lets the Reserve chain claim what the pod needs.
// On a refusal the caller runs RunReservePluginsUnreserve.
func (f *Framework) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, at := f.visit(ctx, state, "Reserve")
	defer at.over(&status)
	running := ""
	defer f.rescue(pod, state, &running, "Reserve", &status)
	w := watch(state)
	for _, plugin := range f.reserve {
		running = plugin.Name()
		outer := f.enter(w, running, "Reserve")
		begin := f.begins(state)
		s := plugin.Reserve(ctx, state, pod, node)
		f.took(begin, running, "Reserve", s)
		if f.leave(w, running, outer) {
			// The pod holds its room until the claim, if there is one, is taken back.
			return fwk.AsStatus(&LateError{Call{running, "Reserve"}}).WithPlugin(running)
		}
		if !s.IsSuccess() {
			return blame(s, running, "Reserve")
		}
	}
	return nil
}

// RunReservePluginsUnreserve takes the claims back, last made first. Every
// plugin is called, those that claimed nothing too; one that panics does not
// keep the others from it.
func (f *Framework) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	var status *fwk.Status
	ctx, at := f.visit(ctx, state, "Unreserve")
	defer at.over(&status)
	w := watch(state)
	for i := len(f.reserve) - 1; i >= 0; i-- {
		plugin := f.reserve[i]
		if fault.UnreserveInOrder {
			plugin = f.reserve[len(f.reserve)-1-i]
		}
		s := f.guard(pod, plugin.Name(), "Unreserve", func() *fwk.Status {
			outer := f.enter(w, plugin.Name(), "Unreserve")
			defer f.leave(w, plugin.Name(), outer)
			defer f.lands(state, plugin.Name(), "Unreserve")()
			begin := f.begins(state)
			plugin.Unreserve(ctx, state, pod, node)
			f.took(begin, plugin.Name(), "Unreserve", nil)
			return nil
		})
		if !s.IsSuccess() {
			status = s
		}
	}
}

// RunPermitPlugins asks whether the pod may be bound now. With a Wait status
// it returns how long each plugin wants to be waited for at most.
func (f *Framework) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (waits map[string]time.Duration, status *fwk.Status) {
	ctx, at := f.visit(ctx, state, "Permit")
	defer at.over(&status)
	running := ""
	defer f.rescue(pod, state, &running, "Permit", &status)
	var wait *fwk.Status
	w := watch(state)
	for _, plugin := range f.permit {
		running = plugin.Name()
		outer := f.enter(w, running, "Permit")
		begin := f.begins(state)
		s, timeout := plugin.Permit(ctx, state, pod, node)
		f.took(begin, running, "Permit", s)
		f.leave(w, running, outer)
		switch {
		case s.IsSuccess():
		case s.IsWait():
			if waits == nil {
				waits = map[string]time.Duration{}
			}
			waits[running], wait = min(timeout, maxPermitWait), s
		default:
			return nil, blame(s, running, "Permit").WithPlugin(running)
		}
	}
	if wait != nil {
		wait.AppendReason("one or more plugins asked to wait and no plugin rejected pod")
	}
	return waits, wait
}
