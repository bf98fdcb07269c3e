package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// RunPreBindPreFlights asks which PreBind plugins will have work to do, and
// which of them may work side by side. Skip means that none will.
func (f *Framework) RunPreBindPreFlights(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, at := f.beginPoint(ctx, state, "PreBindPreFlight")
	defer at.end(&status)
	running := ""
	defer f.recoverPanic(pod, state, &running, "PreBindPreFlight", &status)
	skipped, parallel, answer := sets.New[string](), sets.New[string](), fwk.NewStatus(fwk.Skip)
	for _, plugin := range f.preBind {
		running = plugin.Name()
		over := f.trackBindingCall(state, running, "PreBindPreFlight")
		begin := f.callStart(state)
		result, s := plugin.PreBindPreFlight(ctx, state, pod, node)
		f.observePluginDuration(begin, running, "PreBindPreFlight", s)
		over()
		if result != nil && result.AllowParallel {
			parallel.Insert(running)
		}
		switch s.Code() {
		case fwk.Success:
			answer = nil
		case fwk.Skip:
			skipped.Insert(running)
		case fwk.Error:
			return fwk.AsStatus(fmt.Errorf("running PreBindPreFlight %q: %w", running, s.AsError()))
		default:
			return fwk.AsStatus(fmt.Errorf("PreBindPreFlight %s returned %q, which is unsupported. It is supposed to return Success, Skip, or Error status", running, s.Code()))
		}
	}
	state.SetSkipPreBindPlugins(skipped)
	state.SetParallelPreBindPlugins(parallel)
	return answer
}

// RunPreBindPlugins lets the PreBind chain do its work. Neighbours that allow
// it run side by side; the first failure cancels the rest of its group.
func (f *Framework) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, at := f.beginPoint(ctx, state, "PreBind")
	defer at.end(&status)
	run := func(ctx context.Context, plugin fwk.PreBindPlugin) *fwk.Status {
		s := f.callRecovered(pod, plugin.Name(), "PreBind", func() *fwk.Status {
			defer f.trackBindingCall(state, plugin.Name(), "PreBind")()
			begin := f.callStart(state)
			s := plugin.PreBind(ctx, state, pod, node)
			f.observePluginDuration(begin, plugin.Name(), "PreBind", s)
			return s
		})
		if s.IsSuccess() {
			return nil
		}
		if errors.Is(s.AsError(), context.Canceled) && context.Cause(ctx) != nil {
			s = fwk.AsStatus(context.Cause(ctx))
		}
		return attributeStatus(s, plugin.Name(), "PreBind")
	}
	for _, group := range f.preBindGroups(state) {
		if s := f.runPreBindGroup(ctx, group, run); !s.IsSuccess() {
			return s
		}
	}
	return nil
}

// preBindGroups splits the chain into runs of neighbours that may work side by
// side. A plugin that is skipped still parts its neighbours unless it allows
// company.
func (f *Framework) preBindGroups(state fwk.CycleState) [][]fwk.PreBindPlugin {
	skipped, parallel := state.GetSkipPreBindPlugins(), state.GetParallelPreBindPlugins()
	var groups [][]fwk.PreBindPlugin
	open := false
	for _, plugin := range f.preBind {
		name := plugin.Name()
		shares := parallel.Has(name)
		if !skipped.Has(name) {
			if open && shares {
				groups[len(groups)-1] = append(groups[len(groups)-1], plugin)
			} else {
				groups = append(groups, []fwk.PreBindPlugin{plugin})
			}
			open = shares
		} else if !shares {
			open = false
		}
	}
	return groups
}

// together runs the plugins of one group, and returns the first failure.
func (f *Framework) runPreBindGroup(ctx context.Context, group []fwk.PreBindPlugin, run func(context.Context, fwk.PreBindPlugin) *fwk.Status) *fwk.Status {
	if len(group) == 1 {
		return run(ctx, group[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		once  sync.Once
		first *fwk.Status
		left  atomic.Int32
		over  = make(chan struct{})
	)
	left.Store(int32(len(group)))
	for _, plugin := range group {
		f.Go(func() {
			defer func() {
				if left.Add(-1) == 0 {
					close(over)
				}
			}()
			if s := run(ctx, plugin); !s.IsSuccess() {
				once.Do(func() {
					first = s
					cancel(errors.New("some other PreBind operation failed"))
				})
			}
		})
	}
	// The plugins are told to end when ctx ends, and are waited for all the same.
	_ = f.Wait(context.WithoutCancel(ctx), over)
	return first
}

// RunBindPlugins asks the Bind plugins in turn until one takes the pod. Skip
// means that none did.
func (f *Framework) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, at := f.beginPoint(ctx, state, "Bind")
	defer at.end(&status)
	running := ""
	defer f.recoverPanic(pod, state, &running, "Bind", &status)
	for _, plugin := range f.bind {
		running = plugin.Name()
		over := f.trackBindingCall(state, running, "Bind")
		begin := f.callStart(state)
		s := plugin.Bind(ctx, state, pod, node)
		f.observePluginDuration(begin, running, "Bind", s)
		over()
		if s.IsSkip() {
			continue
		}
		if !s.IsSuccess() {
			return attributeStatus(s, running, "Bind")
		}
		return nil
	}
	return fwk.NewStatus(fwk.Skip, "no Bind plugin took the pod")
}

// RunPostBindPlugins tells the PostBind chain that the pod is bound.
func (f *Framework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	var status *fwk.Status
	ctx, at := f.beginPoint(ctx, state, "PostBind")
	defer at.end(&status)
	for _, plugin := range f.postBind {
		_ = f.callRecovered(pod, plugin.Name(), "PostBind", func() *fwk.Status {
			defer f.trackBindingCall(state, plugin.Name(), "PostBind")()
			begin := f.callStart(state)
			plugin.PostBind(ctx, state, pod, node)
			f.observePluginDuration(begin, plugin.Name(), "PostBind", nil)
			return nil
		})
	}
}

// blame names the plugin in a refusal, and wraps anything else as an error of
// that plugin.
func attributeStatus(s *fwk.Status, plugin, point string) *fwk.Status {
	if s.IsRejected() {
		return s.WithPlugin(plugin)
	}
	return fwk.AsStatus(fmt.Errorf("running %s plugin %q: %w", point, plugin, s.AsError()))
}
