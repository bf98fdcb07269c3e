package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// RunPreFilterPlugins calls PreFilter of every plugin. It returns the nodes to
// consider (nil: all), the rejection if there is one, and the plugins that
// excluded nodes. After Unschedulable the remaining plugins still run, because
// preemption needs their state; after UnschedulableAndUnresolvable they do not.
func (f *Framework) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (result *fwk.PreFilterResult, status *fwk.Status, narrowedBy sets.Set[string]) {
	ctx, point := f.beginPoint(ctx, state, "PreFilter")
	defer point.end(&status)
	return f.runPreFilterChain(ctx, state, pod, f.preFilter)
}

// runPreFilterChain is RunPreFilterPlugins for some of the plugins.
func (f *Framework) runPreFilterChain(ctx context.Context, state fwk.CycleState, pod *v1.Pod, chain []fwk.PreFilterPlugin) (result *fwk.PreFilterResult, status *fwk.Status, narrowedBy sets.Set[string]) {
	skipped := sets.New[string]()
	defer func() {
		state.SetSkipFilterPlugins(skipped)
		if own, ok := state.(*CycleState); ok && own != nil {
			own.readOnly = f.filterLeavesStateUnchanged(skipped)
		}
	}()
	running := ""
	defer f.recoverPanic(pod, state, &running, "PreFilter", &status)

	nodes, err := f.Lister.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("getting all nodes: %w", err)), nil
	}
	narrowedBy = sets.New[string]()
	var rejection *fwk.Status
	for _, plugin := range chain {
		running = plugin.Name()
		call := f.beginCall(state, running, "PreFilter")
		r, s := plugin.PreFilter(ctx, state, pod, nodes)
		if abandoned := call.end(s); abandoned != nil {
			return nil, abandoned, nil
		}
		code := s.Code()
		if code == fwk.Skip {
			skipped.Insert(running)
			continue
		}
		f.EvaluationCounter(running, "PreFilter").Inc()
		switch code {
		case fwk.Success:
		case fwk.Unschedulable:
			rejection = s.WithPlugin(running)
			continue
		case fwk.UnschedulableAndUnresolvable:
			return nil, s.WithPlugin(running), nil
		default:
			return nil, fwk.AsStatus(fmt.Errorf("running PreFilter plugin %q: %w", running, s.AsError())).WithPlugin(running), nil
		}
		if !r.AllNodes() {
			narrowedBy.Insert(running)
		}
		if result = result.Merge(r); !result.AllNodes() && len(result.NodeNames) == 0 {
			return result, noNodesStatus(narrowedBy), narrowedBy
		}
	}
	return result, rejection, narrowedBy
}

// filterLeavesStateUnchanged reports whether no plugin changes its state data
// during Filter, AddPod and RemovePod: none has PreFilterExtensions, and all
// are in-tree.
func (f *Framework) filterLeavesStateUnchanged(skipped sets.Set[string]) bool {
	if f.HasOutOfTreePlugins() {
		return false
	}
	for _, plugin := range f.preFilter {
		if !skipped.Has(plugin.Name()) && plugin.PreFilterExtensions() != nil {
			return false
		}
	}
	return true
}

func noNodesStatus(narrowedBy sets.Set[string]) *fwk.Status {
	names := sets.List(narrowedBy)
	if len(names) == 1 {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin %v", names[0]))
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", names))
}

// RunPreFilterExtensionAddPod updates the plugins' state as if added were on
// node.
func (f *Framework) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return f.runPreFilterExtension(state, pod, "AddPod", func(e fwk.PreFilterExtensions) *fwk.Status {
		return e.AddPod(ctx, state, pod, added, node)
	})
}

// RunPreFilterExtensionRemovePod updates the plugins' state as if removed were
// not on node.
func (f *Framework) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return f.runPreFilterExtension(state, pod, "RemovePod", func(e fwk.PreFilterExtensions) *fwk.Status {
		return e.RemovePod(ctx, state, pod, removed, node)
	})
}

func (f *Framework) runPreFilterExtension(state fwk.CycleState, pod *v1.Pod, operation string, call func(fwk.PreFilterExtensions) *fwk.Status) (status *fwk.Status) {
	running := ""
	defer f.recoverPanic(pod, state, &running, operation, &status)
	if abandoned := abandonedStatus(callWatchOf(state)); abandoned != nil {
		return abandoned
	}
	for _, plugin := range f.preFilter {
		running = plugin.Name()
		extensions := plugin.PreFilterExtensions()
		if extensions == nil || state.GetSkipFilterPlugins().Has(running) {
			continue
		}
		begun := f.beginCall(state, running, operation)
		s := call(extensions)
		if abandoned := begun.end(s); abandoned != nil {
			return abandoned
		}
		if !s.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running %s on PreFilter plugin %q: %w", operation, running, s.AsError()))
		}
	}
	return nil
}

// HasScorePlugins reports whether there are Score plugins.
func (f *Framework) HasScorePlugins() bool { return len(f.score) > 0 }

// HasPostFilterPlugins reports whether there are PostFilter plugins.
func (f *Framework) HasPostFilterPlugins() bool { return len(f.postFilter) > 0 }

// RunFilterPlugins calls Filter of one plugin after the other for a node, and
// returns the status of the first that rejects it.
func (f *Framework) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return f.runFilterChain(ctx, state, pod, node, f.filter)
}

// runFilterChain is RunFilterPlugins for some of the plugins.
func (f *Framework) runFilterChain(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, chain []CountedFilter) (status *fwk.Status) {
	running := ""
	defer f.recoverPanic(pod, state, &running, "Filter", &status)
	if abandoned := abandonedStatus(callWatchOf(state)); abandoned != nil {
		return abandoned
	}
	skipped := state.GetSkipFilterPlugins()
	for _, plugin := range chain {
		running = plugin.Name()
		if skipped.Has(running) {
			continue
		}
		call := f.beginCall(state, running, "Filter")
		s := plugin.Filter(ctx, state, pod, node)
		plugin.Evaluations.Inc()
		if abandoned := call.end(s); abandoned != nil {
			return abandoned
		}
		if !s.IsSuccess() {
			return filterStatus(running, s)
		}
	}
	return nil
}

// filterStatus is the result of the Filter chain after status s of a plugin.
func filterStatus(plugin string, s *fwk.Status) *fwk.Status {
	if !s.IsRejected() {
		s = fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", plugin, s.AsError()))
	}
	return s.WithPlugin(plugin)
}

// RunFilterPluginsWithNominatedPods runs the Filter plugins for a node to which
// other pods may be nominated. The node must pass with the nominated pods of
// equal or higher priority, since the pod must not take their resources, and
// without them, since they may be bound elsewhere.
func (f *Framework) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	withNominated, withNominatedState, status := f.addNominatedPods(ctx, state, pod, node)
	if !status.IsSuccess() {
		return status
	}
	if withNominated != nil {
		if s := f.RunFilterPlugins(ctx, withNominatedState, pod, withNominated); !s.IsSuccess() {
			return s
		}
	}
	return f.RunFilterPlugins(ctx, state, pod, node)
}

// addNominatedPods returns copies of node and state to which the pods are added
// that are nominated to node and have at least the priority of pod; nil if
// there are none.
func (f *Framework) addNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (fwk.NodeInfo, fwk.CycleState, *fwk.Status) {
	nominated := slices.DeleteFunc(f.Nominator.NominatedPodsForNode(node.Node().Name), func(other fwk.PodInfo) bool {
		return other.GetPod().UID == pod.UID || corev1.PodPriority(other.GetPod()) < corev1.PodPriority(pod)
	})
	if len(nominated) == 0 {
		return nil, nil, nil
	}
	withNominatedState, status := f.cloneState(pod, state)
	if !status.IsSuccess() {
		return nil, nil, status
	}
	withNominated := node.Snapshot()
	for _, other := range nominated {
		withNominated.AddPodInfo(other)
		if s := f.RunPreFilterExtensionAddPod(ctx, withNominatedState, pod, other, withNominated); !s.IsSuccess() {
			return nil, nil, fwk.AsStatus(s.AsError())
		}
	}
	return withNominated, withNominatedState, nil
}

// stateData stands for a plugin in errors of Clone: any plugin may have written the data.
const stateData = "StateData"

// cloneState returns a clone of state, or the status of an attempt in which the Clone of what a
// plugin wrote panicked, or was abandoned.
func (f *Framework) cloneState(pod *v1.Pod, state fwk.CycleState) (clone fwk.CycleState, status *fwk.Status) {
	running := stateData
	defer f.recoverPanic(pod, state, &running, "Clone", &status)
	w := callWatchOf(state)
	if w == nil {
		return state.Clone(), nil
	}
	w.Watch(Call{stateData, "Clone"}, func() { clone = state.Clone() })
	return clone, abandonedStatus(w)
}

// RunPostFilterPlugins calls PostFilter of one plugin after the other until one
// succeeds. The reasons of the others are combined.
func (f *Framework) RunPostFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeToStatus fwk.NodeToStatusReader) (result *fwk.PostFilterResult, status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "PostFilter")
	defer point.end(&status)
	if state.ShouldSkipAllPostFilterPlugins() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "All PostFilter plugins are skipped")
	}
	running, rejector := "", ""
	defer f.recoverPanic(pod, state, &running, "PostFilter", &status)
	var reasons []string
	for _, plugin := range f.postFilter {
		running = plugin.Name()
		call := f.beginCall(state, running, "PostFilter")
		r, s := plugin.PostFilter(ctx, state, pod, nodeToStatus)
		if abandoned := call.end(s); abandoned != nil {
			return nil, abandoned
		}
		switch {
		case s.IsSuccess():
			if s == nil {
				s = fwk.NewStatus(fwk.Success)
			}
			return r, s.WithPlugin(running)
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return r, s.WithPlugin(running)
		case !s.IsRejected():
			return nil, fwk.AsStatus(s.AsError()).WithPlugin(running)
		case r != nil && r.Mode() != fwk.ModeNoop:
			result = r
		}
		reasons = append(reasons, s.Reasons()...)
		if rejector == "" {
			rejector = running
		}
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(rejector)
}
