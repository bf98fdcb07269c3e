// Package serviceaffinity keeps the pods of a Service on nodes that have labels in
// common, and spreads them over the values of others. kube-scheduler dropped the
// plugin in 1.23; no profile runs it that does not name it.
//
// It declares nothing of what it reads, so that it is asked about each node anew.
package serviceaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "ServiceAffinity"

	reasonNotMatched  = "node(s) didn't match service affinity"
	preFilterStateKey = "PreFilter" + Name
)

// Plugin knows which pods belong together by Services and by their own labels.
type Plugin struct {
	args     ServiceAffinityArgs
	nodes    fwk.SharedLister
	services corelisters.ServiceLister
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
)

// New returns the plugin. The error says that the arguments are another's.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*ServiceAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("args: want a ServiceAffinityArgs, is a %T", args)
	}
	return &Plugin{
		args: *typed.DeepCopyObject().(*ServiceAffinityArgs), nodes: handle.SnapshotSharedLister(),
		services: handle.SharedInformerFactory().Core().V1().Services().Lister(),
	}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// EventsToRegister asks for whatever moves the pods of a Service or changes which
// they are, and for nodes with other labels.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.All}},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: framework.Service, ActionType: fwk.All}},
	}, nil
}

// alike are the placed pods that have the pod's own labels, in its namespace, and
// whether a Service selects it.
type preFilterState struct {
	matchingPods []podOnNode
	hasService   bool
}

// placed is a pod and the name of the node that it is on, or is thought of as on:
// the spec of a nominated pod names none.
type podOnNode struct {
	*v1.Pod
	node string
}

func newPodOnNode(pod *v1.Pod, node fwk.NodeInfo) podOnNode {
	if fault.NominatedSiblingNowhere {
		return podOnNode{pod, pod.Spec.NodeName}
	}
	return podOnNode{pod, node.Node().Name}
}

// Clone copies what AddPod and RemovePod change.
func (a *preFilterState) Clone() fwk.StateData {
	return &preFilterState{matchingPods: append([]podOnNode(nil), a.matchingPods...), hasService: a.hasService}
}

// PreFilter looks for the pods that the pod belongs with.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if len(p.args.AffinityLabels) == 0 {
		return nil, nil
	}
	services, err := p.servicesOf(pod)
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("listing services: %w", err))
	}
	nodes, err := p.nodes.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	found := &preFilterState{hasService: len(services) > 0}
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			if hasLabelsOf(pod, other.GetPod()) {
				found.matchingPods = append(found.matchingPods, newPodOnNode(other.GetPod(), node))
			}
		}
	}
	state.Write(preFilterStateKey, found)
	return nil, nil
}

// belongs says whether other has the pod's namespace and all of its labels.
func hasLabelsOf(pod, other *v1.Pod) bool {
	return pod.Namespace == other.Namespace && labels.SelectorFromSet(pod.Labels).Matches(labels.Set(other.Labels))
}

// PreFilterExtensions keep up with what preemption tries.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod in that is thought of as on node: one that preemption puts
// back, or one that is nominated for it. kube-scheduler 1.22 looked for the node in
// the pod's spec; where a nominated pod was the first of its Service, Filter ended
// in an error until that pod was bound.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	found, status := p.getPreFilterState(state)
	if found != nil && hasLabelsOf(pod, added.GetPod()) {
		found.matchingPods = append(found.matchingPods, newPodOnNode(added.GetPod(), node))
	}
	return status
}

// RemovePod counts a pod out.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	found, status := p.getPreFilterState(state)
	if found == nil || !hasLabelsOf(pod, removed.GetPod()) {
		return status
	}
	for i, other := range found.matchingPods {
		if other.Name == removed.GetPod().Name {
			found.matchingPods = append(found.matchingPods[:i:i], found.matchingPods[i+1:]...)
			break
		}
	}
	return nil
}

// read returns what PreFilter found; nil without arguments that ask for it.
func (p *Plugin) getPreFilterState(state fwk.CycleState) (*preFilterState, *fwk.Status) {
	if len(p.args.AffinityLabels) == 0 {
		return nil, nil
	}
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("reading %q: %w", preFilterStateKey, err))
	}
	found, ok := data.(*preFilterState)
	if !ok {
		return nil, fwk.AsStatus(fmt.Errorf("%q holds a %T", preFilterStateKey, data))
	}
	return found, nil
}

// Filter wants the node to have the labels' values that the pod asks for by its
// nodeSelector, and of the others those of the node where the first of its pods
// is, if a Service selects it.
//
// Source: pkg/scheduler/framework/plugins/serviceaffinity of Kubernetes 1.22.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	found, status := p.getPreFilterState(state)
	if found == nil {
		return status
	}
	want := labels.Set{}
	addMissingLabels(want, p.args.AffinityLabels, pod.Spec.NodeSelector)
	if len(want) < len(p.args.AffinityLabels) && found.hasService {
		if first := firstPresent(found.matchingPods, node); first != nil {
			home, err := p.nodes.NodeInfos().Get(first.node)
			if err != nil {
				return fwk.AsStatus(fmt.Errorf("looking for the node of pod %s/%s: %w", first.Namespace, first.Name, err))
			}
			addMissingLabels(want, p.args.AffinityLabels, home.Node().Labels)
		}
	}
	if !labels.SelectorFromSet(want).Matches(labels.Set(node.Node().Labels)) {
		return fwk.NewStatus(fwk.Unschedulable, reasonNotMatched)
	}
	return nil
}

// take adds the labels that want lacks and from has.
func addMissingLabels(want labels.Set, names []string, from map[string]string) {
	for _, name := range names {
		if _, there := want[name]; there {
			continue
		}
		if value, there := from[name]; there {
			want[name] = value
		}
	}
}

// firstOf is the first pod that is still where it was: preemption takes pods from
// the node that is asked about.
func firstPresent(pods []podOnNode, node fwk.NodeInfo) *podOnNode {
	for i, pod := range pods {
		if pod.node != node.Node().Name {
			return &pods[i]
		}
		for _, there := range node.GetPods() {
			if there.GetPod().Namespace == pod.Namespace && there.GetPod().Name == pod.Name {
				return &pods[i]
			}
		}
	}
	return nil
}
