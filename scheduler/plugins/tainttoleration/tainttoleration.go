// Package tainttoleration rejects nodes with taints that a pod does not tolerate, and
// prefers nodes with fewer PreferNoSchedule taints that it does not tolerate.
package tainttoleration

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "TaintToleration"

	reasonUntoleratedTaint = "node(s) had untolerated taint(s)"

	// nodeTaintPrefix and cloudProviderTaintPrefix are the prefixes of the taints that
	// Kubernetes and cloud providers set by the state of a node.
	nodeTaintPrefix          = "node.kubernetes.io"
	cloudProviderTaintPrefix = "node.cloudprovider.kubernetes.io"

	preScoreStateKey fwk.StateKey = Name + "/score"
)

// Plugin compares taints with tolerations.
type Plugin struct{}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.PreScorePlugin          = (*Plugin)(nil)
	_ fwk.ScorePlugin             = (*Plugin)(nil)
	_ fwk.ScoreExtensions         = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdicts depend on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodTolerations, Filter: framework.NodeTaints, Score: framework.NodeTaints}
}

// SignPod signs the pod with its tolerations.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.TolerationsSignerName, Value: fwk.TolerationsSigner(pod)}}, nil
}

// EventsToRegister registers nodes that are added or change their taints, and new
// tolerations of the pod.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeTaint},
			QueueingHintFn: isSchedulableAfterNodeChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodToleration},
			QueueingHintFn: isSchedulableAfterPodTolerationChange,
		},
	}, nil
}

// isSchedulableAfterNodeChange requeues the pod when it tolerates the taints of the
// node, and the node is new or had a taint that it does not tolerate.
func isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	wasRejected := before == nil || hasUntoleratedTaint(before, pod)
	if wasRejected && !hasUntoleratedTaint(after, pod) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPodTolerationChange requeues the pod: any new toleration may be the
// one that was missing.
func isSchedulableAfterPodTolerationChange(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
	return fwk.Queue, nil
}

// PreFilter does nothing.
func (*Plugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a node with a NoSchedule or NoExecute taint that the pod does not
// tolerate.
func (*Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if hasUntoleratedTaint(node.Node(), pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonUntoleratedTaint)
	}
	return nil
}

// RejectsPermanently reports whether the pod does not tolerate a taint that a user set
// on the node. Kubernetes itself removes the taints that it sets while a node is not
// ready, under pressure or being initialized.
func (*Plugin) RejectsPermanently(_ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	lasting := slices.DeleteFunc(slices.Clone(node.Node().Spec.Taints), func(taint v1.Taint) bool {
		prefix, _, _ := strings.Cut(taint.Key, "/")
		return prefix == nodeTaintPrefix || prefix == cloudProviderTaintPrefix
	})
	return framework.UntoleratedTaint(lasting, pod.Spec.Tolerations) != nil
}

func hasUntoleratedTaint(node *v1.Node, pod *v1.Pod) bool {
	return framework.UntoleratedTaint(node.Spec.Taints, pod.Spec.Tolerations) != nil
}

// preScoreState holds the tolerations that can cover a PreferNoSchedule taint.
type preScoreState []v1.Toleration

// Clone returns the value itself, which never changes.
func (a preScoreState) Clone() fwk.StateData { return a }

// PreScore selects the tolerations that matter to Score. It never skips Score: a
// skipped Score would give no node the 100 points that a node without such taints gets.
func (*Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	var tolerations preScoreState
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.Effect == "" || toleration.Effect == v1.TaintEffectPreferNoSchedule {
			tolerations = append(tolerations, toleration)
		}
	}
	state.Write(preScoreStateKey, tolerations)
	return nil
}

// Score counts the node's PreferNoSchedule taints that the pod does not tolerate;
// NormalizeScore reverses the count.
func (*Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	tolerations, err := framework.ReadStateData[preScoreState](state, preScoreStateKey, Name, "PreScore")
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return tolerations.countUntolerated(node.Node().Spec.Taints), nil
}

// countUntolerated counts the PreferNoSchedule taints that are not tolerated.
func (a preScoreState) countUntolerated(taints []v1.Taint) int64 {
	var count int64
	for i := range taints {
		if taints[i].Effect == v1.TaintEffectPreferNoSchedule && !framework.Tolerates(a, &taints[i]) {
			count++
		}
	}
	return count
}

// ScoreExtensions returns the plugin, which normalizes the scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives 100 to a node without such taints and 0 to the node with the
// most.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.DefaultNormalizeScore(scores, true)
	return nil
}
