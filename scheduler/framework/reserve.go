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
	ctx, at := f.beginPoint(ctx, state, "Reserve")
	defer at.end(&status)
	running := ""
	defer f.recoverPanic(pod, state, &running, "Reserve", &status)
	w := callWatchOf(state)
	for _, plugin := range f.reserve {
		running = plugin.Name()
		outer := f.beginCall(w, running, "Reserve")
		begin := f.callStart(state)
		s := plugin.Reserve(ctx, state, pod, node)
		f.observePluginDuration(begin, running, "Reserve", s)
		if f.endCall(w, running, outer) {
			// The pod holds its room until the claim, if there is one, is taken back.
			return fwk.AsStatus(&CallTimeoutError{Call{running, "Reserve"}}).WithPlugin(running)
		}
		if !s.IsSuccess() {
			return attributeStatus(s, running, "Reserve")
		}
	}
	return nil
}

// RunReservePluginsUnreserve takes the claims back, last made first. Every
// plugin is called, those that claimed nothing too; one that panics does not
// keep the others from it.
func (f *Framework) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	var status *fwk.Status
	ctx, at := f.beginPoint(ctx, state, "Unreserve")
	defer at.end(&status)
	w := callWatchOf(state)
	for i := len(f.reserve) - 1; i >= 0; i-- {
		plugin := f.reserve[i]
		if fault.UnreserveInOrder {
			plugin = f.reserve[len(f.reserve)-1-i]
		}
		s := f.callRecovered(pod, plugin.Name(), "Unreserve", func() *fwk.Status {
			outer := f.beginCall(w, plugin.Name(), "Unreserve")
			defer f.endCall(w, plugin.Name(), outer)
			defer f.trackBindingCall(state, plugin.Name(), "Unreserve")()
			begin := f.callStart(state)
			plugin.Unreserve(ctx, state, pod, node)
			f.observePluginDuration(begin, plugin.Name(), "Unreserve", nil)
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
	ctx, at := f.beginPoint(ctx, state, "Permit")
	defer at.end(&status)
	running := ""
	defer f.recoverPanic(pod, state, &running, "Permit", &status)
	var wait *fwk.Status
	w := callWatchOf(state)
	for _, plugin := range f.permit {
		running = plugin.Name()
		outer := f.beginCall(w, running, "Permit")
		begin := f.callStart(state)
		s, timeout := plugin.Permit(ctx, state, pod, node)
		f.observePluginDuration(begin, running, "Permit", s)
		f.endCall(w, running, outer)
		switch {
		case s.IsSuccess():
		case s.IsWait():
			if waits == nil {
				waits = map[string]time.Duration{}
			}
			waits[running], wait = min(timeout, maxPermitWait), s
		default:
			return nil, attributeStatus(s, running, "Permit").WithPlugin(running)
		}
	}
	if wait != nil {
		wait.AppendReason("one or more plugins asked to wait and no plugin rejected pod")
	}
	return waits, wait
}
