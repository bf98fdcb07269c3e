package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// HasFilterPlugins says whether anything filters nodes.
func (f *Framework) HasFilterPlugins() bool { return len(f.filter) > 0 }

// HasScorePlugins says whether anything scores nodes.
func (f *Framework) HasScorePlugins() bool { return len(f.score) > 0 }

// HasPostFilterPlugins says whether anything may make room for a refused pod.
func (f *Framework) HasPostFilterPlugins() bool { return len(f.postFilter) > 0 }

// RunFilterPlugins asks the Filter chain about one node. The first plugin that
// refuses decides.
func (f *Framework) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return f.runFilterChain(ctx, state, pod, node, f.filter)
}

// filterBy is RunFilterPlugins by some of the chain.
func (f *Framework) runFilterChain(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, chain []countedFilter) (status *fwk.Status) {
	running := ""
	defer f.recoverPanic(pod, state, &running, "Filter", &status)
	skipped, w := state.GetSkipFilterPlugins(), callWatchOf(state)
	for _, plugin := range chain {
		running = plugin.Name()
		if skipped.Has(running) {
			continue
		}
		f.trial.recordCall(running, "Filter")
		outer := f.beginCall(w, running, "Filter")
		begin := f.callStart(state)
		s := plugin.Filter(ctx, state, pod, node)
		f.observePluginDuration(begin, running, "Filter", s)
		plugin.evaluations.Inc()
		f.endCall(w, running, outer)
		if !s.IsSuccess() {
			return filterStatus(running, s)
		}
	}
	return nil
}

// refusalOf is what Filter ends with when a plugin lets a node down.
func filterStatus(plugin string, s *fwk.Status) *fwk.Status {
	if !s.IsRejected() {
		s = fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", plugin, s.AsError()))
	}
	return s.WithPlugin(plugin)
}

// RunFilterPluginsWithNominatedPods asks the Filter chain about one node to
// which other pods may be nominated. The node has to do with those of equal or
// higher priority there, since the pod must not take their room, and without
// them, since they may end elsewhere.
func (f *Framework) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	crowded, crowdedState, status := f.addNominatedPods(ctx, state, pod, node)
	if !status.IsSuccess() {
		return status
	}
	if crowded != nil {
		if s := f.RunFilterPlugins(ctx, crowdedState, pod, crowded); !s.IsSuccess() {
			return s
		}
	}
	return f.RunFilterPlugins(ctx, state, pod, node)
}

// crowded returns node and state with the pods on it that are nominated for it
// and go before pod; nil where there are none.
func (f *Framework) addNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (fwk.NodeInfo, fwk.CycleState, *fwk.Status) {
	nominated := slices.DeleteFunc(f.Nominator.NominatedPodsForNode(node.Node().Name), func(other fwk.PodInfo) bool {
		return other.GetPod().UID == pod.UID || corev1.PodPriority(other.GetPod()) < corev1.PodPriority(pod)
	})
	if len(nominated) == 0 {
		return nil, nil, nil
	}
	crowded, crowdedState := node.Snapshot(), state.Clone()
	for _, other := range nominated {
		crowded.AddPodInfo(other)
		if s := f.RunPreFilterExtensionAddPod(ctx, crowdedState, pod, other, crowded); !s.IsSuccess() {
			return nil, nil, fwk.AsStatus(s.AsError())
		}
	}
	return crowded, crowdedState, nil
}

// RunPostFilterPlugins asks who could make room for a pod that fits nowhere.
// The first that can decides; the reasons of the others add up.
func (f *Framework) RunPostFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, refusals fwk.NodeToStatusReader) (result *fwk.PostFilterResult, status *fwk.Status) {
	ctx, at := f.beginPoint(ctx, state, "PostFilter")
	defer at.end(&status)
	if state.ShouldSkipAllPostFilterPlugins() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "All PostFilter plugins are skipped")
	}
	running, rejector := "", ""
	defer f.recoverPanic(pod, state, &running, "PostFilter", &status)
	var reasons []string
	w := callWatchOf(state)
	for _, plugin := range f.postFilter {
		running = plugin.Name()
		outer := f.beginCall(w, running, "PostFilter")
		begin := f.callStart(state)
		r, s := plugin.PostFilter(ctx, state, pod, refusals)
		f.observePluginDuration(begin, running, "PostFilter", s)
		f.endCall(w, running, outer)
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
