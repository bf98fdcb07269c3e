package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxPermitWait is the longest time that a Permit plugin can make a pod wait,
// as in kube-scheduler.
const maxPermitWait = 15 * time.Minute

// RunReservePluginsReserve calls Reserve of every plugin until one fails. After
// a failure the caller calls RunReservePluginsUnreserve.
func (f *Framework) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "Reserve")
	defer point.end(&status)
	running := ""
	defer f.recoverPanic(pod, state, &running, "Reserve", &status)
	for _, plugin := range f.reserve {
		running = plugin.Name()
		call := f.beginCall(state, running, "Reserve")
		s := plugin.Reserve(ctx, state, pod, node)
		if abandoned := call.end(s); abandoned != nil {
			return abandoned
		}
		if !s.IsSuccess() {
			return attributeStatus(s, running, "Reserve")
		}
	}
	return nil
}

// RunReservePluginsUnreserve calls Unreserve of every plugin in reverse order,
// also of plugins whose Reserve was not called. A panic of one plugin does not
// stop the others.
func (f *Framework) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	var status *fwk.Status
	ctx, point := f.beginPoint(ctx, state, "Unreserve")
	defer point.end(&status)
	for i := len(f.reserve) - 1; i >= 0; i-- {
		plugin := f.reserve[i]
		s := f.callRecovered(pod, state, plugin.Name(), "Unreserve", func() *fwk.Status {
			call := f.beginCall(state, plugin.Name(), "Unreserve")
			plugin.Unreserve(ctx, state, pod, node)
			return call.end(nil)
		})
		if !s.IsSuccess() {
			status = s
		}
	}
}

// RunPermitPlugins calls Permit of every plugin until one rejects the pod. With
// a Wait status, waits holds the longest time to wait for each plugin.
func (f *Framework) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (timeouts map[string]time.Duration, status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "Permit")
	defer point.end(&status)
	running := ""
	defer f.recoverPanic(pod, state, &running, "Permit", &status)
	var wait *fwk.Status
	for _, plugin := range f.permit {
		running = plugin.Name()
		call := f.beginCall(state, running, "Permit")
		s, timeout := plugin.Permit(ctx, state, pod, node)
		call.end(s)
		switch {
		case s.IsSuccess():
		case s.IsWait():
			if timeouts == nil {
				timeouts = map[string]time.Duration{}
			}
			timeouts[running], wait = min(timeout, maxPermitWait), s
		default:
			return nil, attributeStatus(s, running, "Permit").WithPlugin(running)
		}
	}
	if wait != nil {
		wait.AppendReason("one or more plugins asked to wait and no plugin rejected pod")
	}
	return timeouts, wait
}

// RunPreBindPreFlights calls PreBindPreFlight of every PreBind plugin and
// stores in state which plugins to skip and which may run in parallel. Skip
// means that no PreBind plugin has work to do, as for most pods: their states share
// the set of all PreBind plugins, which is read-only.
func (f *Framework) RunPreBindPreFlights(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "PreBindPreFlight")
	defer point.end(&status)
	var parallel, needed []string
	status = f.runRecovered(pod, state, "PreBindPreFlight", f.HasOutOfTreePlugins(), func(running *string) *fwk.Status {
		for _, plugin := range f.preBind {
			*running = plugin.Name()
			call := f.beginCall(state, *running, "PreBindPreFlight")
			result, s := plugin.PreBindPreFlight(ctx, state, pod, node)
			call.end(s)
			if result != nil && result.AllowParallel {
				parallel = append(parallel, *running)
			}
			switch s.Code() {
			case fwk.Success:
				needed = append(needed, *running)
			case fwk.Skip:
			case fwk.Error:
				return fwk.AsStatus(fmt.Errorf("running PreBindPreFlight %q: %w", *running, s.AsError()))
			default:
				return fwk.AsStatus(fmt.Errorf("PreBindPreFlight %s returned %q, which is unsupported. It is supposed to return Success, Skip, or Error status", *running, s.Code()))
			}
		}
		return nil
	})
	if !status.IsSuccess() {
		return status
	}
	state.SetParallelPreBindPlugins(sets.New(parallel...))
	if len(needed) == 0 {
		state.SetSkipPreBindPlugins(f.preBindNames)
		return fwk.NewStatus(fwk.Skip)
	}
	state.SetSkipPreBindPlugins(f.preBindNames.Difference(sets.New(needed...)))
	return nil
}

// RunPreBindPlugins calls PreBind of every plugin that is not skipped.
// Neighbors that allow it run in parallel; the first failure cancels the others
// of its group.
func (f *Framework) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "PreBind")
	defer point.end(&status)
	run := func(ctx context.Context, plugin fwk.PreBindPlugin) *fwk.Status {
		s := f.callRecovered(pod, state, plugin.Name(), "PreBind", func() *fwk.Status {
			call := f.beginCall(state, plugin.Name(), "PreBind")
			s := plugin.PreBind(ctx, state, pod, node)
			call.end(s)
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

// preBindGroups splits the PreBind chain into groups of neighbors that may run
// in parallel. A skipped plugin that does not allow parallel runs separates its
// neighbors.
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

// runPreBindGroup runs the plugins of one group in parallel, waits for all of
// them and returns the first failure.
func (f *Framework) runPreBindGroup(ctx context.Context, group []fwk.PreBindPlugin, run func(context.Context, fwk.PreBindPlugin) *fwk.Status) *fwk.Status {
	if len(group) == 1 {
		return run(ctx, group[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		once      sync.Once
		first     *fwk.Status
		remaining atomic.Int32
		end       = make(chan struct{})
	)
	remaining.Store(int32(len(group)))
	for _, plugin := range group {
		f.Go(func() {
			defer func() {
				if remaining.Add(-1) == 0 {
					close(end)
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
	// The plugins should end when ctx ends, but nothing of the pod may be
	// undone while one still runs.
	_ = f.Wait(context.WithoutCancel(ctx), end)
	return first
}

// RunBindPlugins calls Bind of one plugin after the other until one does not
// return Skip. Skip means that no plugin bound the pod. A failure names its plugin.
func (f *Framework) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "Bind")
	defer point.end(&status)
	return f.runRecovered(pod, state, "Bind", f.HasOutOfTreePlugins(), func(running *string) *fwk.Status {
		for _, plugin := range f.bind {
			*running = plugin.Name()
			call := f.beginCall(state, *running, "Bind")
			s := plugin.Bind(ctx, state, pod, node)
			call.end(s)
			if s.IsSkip() {
				continue
			}
			if !s.IsSuccess() {
				return attributeStatus(s, *running, "Bind").WithPlugin(*running)
			}
			return nil
		}
		return fwk.NewStatus(fwk.Skip, "no Bind plugin bound the pod")
	})
}

// RunPostBindPlugins calls PostBind of every plugin.
func (f *Framework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	var status *fwk.Status
	ctx, point := f.beginPoint(ctx, state, "PostBind")
	defer point.end(&status)
	for _, plugin := range f.postBind {
		_ = f.callRecovered(pod, state, plugin.Name(), "PostBind", func() *fwk.Status {
			call := f.beginCall(state, plugin.Name(), "PostBind")
			plugin.PostBind(ctx, state, pod, node)
			return call.end(nil)
		})
	}
}

// attributeStatus adds the plugin's name to a rejection, and turns every other
// status into an error of that plugin.
func attributeStatus(s *fwk.Status, plugin, point string) *fwk.Status {
	if s.IsRejected() {
		return s.WithPlugin(plugin)
	}
	return fwk.AsStatus(fmt.Errorf("running %s plugin %q: %w", point, plugin, s.AsError()))
}

// bindingDataKey is the CycleState key of BindingData.
const bindingDataKey fwk.StateKey = "berth.dev/binding"

// BindingData is what the Binding object of a pod holds besides pod and node.
// The API server merges the annotations into the pod in the same write, and
// rejects the write if the pod has another resource version.
type BindingData struct {
	// Annotations are added to the pod; may be nil.
	Annotations map[string]string
	// ResourceVersion is the newest known one of the pod; empty for no check.
	ResourceVersion string
}

// Clone returns d itself, because it is written once and read once.
func (d *BindingData) Clone() fwk.StateData { return d }

// WriteBindingData stores data in state for the Bind plugin.
func WriteBindingData(state fwk.CycleState, data *BindingData) { state.Write(bindingDataKey, data) }

// ReadBindingData returns the BindingData in state, or the zero value if there
// is none.
func ReadBindingData(state fwk.CycleState) BindingData {
	stored, err := state.Read(bindingDataKey)
	if err != nil {
		return BindingData{}
	}
	if data, ok := stored.(*BindingData); ok {
		return *data
	}
	return BindingData{}
}
