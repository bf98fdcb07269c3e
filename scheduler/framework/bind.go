package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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

// RunPreBindPreFlights asks which PreBind plugins will have work to do, and
// which of them may work side by side. Skip means that none will.
func (f *Framework) RunPreBindPreFlights(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, at := f.visit(ctx, state, "PreBindPreFlight")
	defer at.over(&status)
	running := ""
	defer f.rescue(pod, state, &running, "PreBindPreFlight", &status)
	skipped, parallel, answer := sets.New[string](), sets.New[string](), fwk.NewStatus(fwk.Skip)
	for _, plugin := range f.preBind {
		running = plugin.Name()
		over := f.lands(state, running, "PreBindPreFlight")
		begin := f.begins(state)
		result, s := plugin.PreBindPreFlight(ctx, state, pod, node)
		f.took(begin, running, "PreBindPreFlight", s)
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
	ctx, at := f.visit(ctx, state, "PreBind")
	defer at.over(&status)
	run := func(ctx context.Context, plugin fwk.PreBindPlugin) *fwk.Status {
		s := f.guard(pod, plugin.Name(), "PreBind", func() *fwk.Status {
			defer f.lands(state, plugin.Name(), "PreBind")()
			begin := f.begins(state)
			s := plugin.PreBind(ctx, state, pod, node)
			f.took(begin, plugin.Name(), "PreBind", s)
			return s
		})
		if s.IsSuccess() {
			return nil
		}
		if errors.Is(s.AsError(), context.Canceled) && context.Cause(ctx) != nil {
			s = fwk.AsStatus(context.Cause(ctx))
		}
		return blame(s, plugin.Name(), "PreBind")
	}
	for _, group := range f.preBindGroups(state) {
		if s := together(ctx, group, run); !s.IsSuccess() {
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
func together(ctx context.Context, group []fwk.PreBindPlugin, run func(context.Context, fwk.PreBindPlugin) *fwk.Status) *fwk.Status {
	if len(group) == 1 {
		return run(ctx, group[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first *fwk.Status
	)
	for _, plugin := range group {
		wg.Go(func() {
			if s := run(ctx, plugin); !s.IsSuccess() {
				once.Do(func() {
					first = s
					cancel(errors.New("some other PreBind operation failed"))
				})
			}
		})
	}
	wg.Wait()
	return first
}

// RunBindPlugins asks the Bind plugins in turn until one takes the pod. Skip
// means that none did.
func (f *Framework) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, at := f.visit(ctx, state, "Bind")
	defer at.over(&status)
	running := ""
	defer f.rescue(pod, state, &running, "Bind", &status)
	for _, plugin := range f.bind {
		running = plugin.Name()
		over := f.lands(state, running, "Bind")
		begin := f.begins(state)
		s := plugin.Bind(ctx, state, pod, node)
		f.took(begin, running, "Bind", s)
		over()
		if s.IsSkip() {
			continue
		}
		if !s.IsSuccess() {
			return blame(s, running, "Bind")
		}
		return nil
	}
	return fwk.NewStatus(fwk.Skip, "no Bind plugin took the pod")
}

// RunPostBindPlugins tells the PostBind chain that the pod is bound.
func (f *Framework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	var status *fwk.Status
	ctx, at := f.visit(ctx, state, "PostBind")
	defer at.over(&status)
	for _, plugin := range f.postBind {
		_ = f.guard(pod, plugin.Name(), "PostBind", func() *fwk.Status {
			defer f.lands(state, plugin.Name(), "PostBind")()
			begin := f.begins(state)
			plugin.PostBind(ctx, state, pod, node)
			f.took(begin, plugin.Name(), "PostBind", nil)
			return nil
		})
	}
}

// blame names the plugin in a refusal, and wraps anything else as an error of
// that plugin.
func blame(s *fwk.Status, plugin, point string) *fwk.Status {
	if s.IsRejected() {
		return s.WithPlugin(plugin)
	}
	return fwk.AsStatus(fmt.Errorf("running %s plugin %q: %w", point, plugin, s.AsError()))
}
