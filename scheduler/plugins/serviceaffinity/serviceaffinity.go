// Package serviceaffinity places the pods of a Service on nodes with equal values of
// some labels, and spreads them over the values of others. kube-scheduler removed the
// plugin in 1.23. It runs only in profiles that name it.
//
// The plugin does not declare what it reads, so it is called for each node in each
// attempt.
package serviceaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "ServiceAffinity"

	reasonNotMatched  = "node(s) didn't match service affinity"
	preFilterStateKey = "PreFilter" + Name
)

// Plugin finds pods that belong together by Services and by their labels.
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

// New returns the plugin. It returns an error when args has another type.
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

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// EventsToRegister registers events that change the nodes of a Service's pods or the
// pods that a Service selects, and nodes that are added or relabeled. Unlike kube-scheduler 1.22 it
// also registers deletions of nodes, whose pods no longer count.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.All}},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: framework.Service, ActionType: fwk.All}},
	}, nil
}

// preFilterState holds the placed pods in the pod's namespace that have all of its
// labels, and whether a Service selects the pod.
type preFilterState struct {
	matchingPods []podOnNode
	hasService   bool
}

// podOnNode is a pod and the name of the node that it is on or is assumed to be on: the
// spec of a nominated pod names no node.
type podOnNode struct {
	*v1.Pod
	node string
}

func newPodOnNode(pod *v1.Pod, node fwk.NodeInfo) podOnNode {
	return podOnNode{pod, node.Node().Name}
}

// Clone returns a copy that AddPod and RemovePod can change.
func (a *preFilterState) Clone() fwk.StateData {
	return &preFilterState{matchingPods: append([]podOnNode(nil), a.matchingPods...), hasService: a.hasService}
}

// PreFilter finds the placed pods with the pod's labels.
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

// hasLabelsOf reports whether other is in the pod's namespace and has all of its
// labels.
func hasLabelsOf(pod, other *v1.Pod) bool {
	return pod.Namespace == other.Namespace && labels.SelectorFromSet(pod.Labels).Matches(labels.Set(other.Labels))
}

// PreFilterExtensions returns the plugin, which adds and removes pods during
// preemption.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod adds a pod that is assumed to be on node: one that preemption adds back, or
// one that is nominated for node. kube-scheduler 1.22 read the node from the pod's
// spec: if the first pod of a Service was nominated, Filter returned an error until
// that pod was bound.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	found, status := p.getPreFilterState(state)
	if found != nil && hasLabelsOf(pod, added.GetPod()) {
		found.matchingPods = append(found.matchingPods, newPodOnNode(added.GetPod(), node))
	}
	return status
}

// RemovePod removes a pod that is assumed to be removed from its node.
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

// getPreFilterState returns what PreFilter stored; nil if the arguments have no
// affinity labels.
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

// Filter requires the values of the affinity labels that the pod's nodeSelector names.
// For the other labels it requires the values of the node of the first pod with the
// same labels, if a Service selects the pod.
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
			firstNode, err := p.nodes.NodeInfos().Get(first.node)
			if err != nil {
				return fwk.AsStatus(fmt.Errorf("looking for the node of pod %s/%s: %w", first.Namespace, first.Name, err))
			}
			addMissingLabels(want, p.args.AffinityLabels, firstNode.Node().Labels)
		}
	}
	if !labels.SelectorFromSet(want).Matches(labels.Set(node.Node().Labels)) {
		return fwk.NewStatus(fwk.Unschedulable, reasonNotMatched)
	}
	return nil
}

// addMissingLabels copies to want the labels in names that it lacks and from has.
func addMissingLabels(want labels.Set, names []string, from map[string]string) {
	for _, name := range names {
		if _, ok := want[name]; ok {
			continue
		}
		if value, ok := from[name]; ok {
			want[name] = value
		}
	}
}

// firstPresent returns the first pod that is still on its node: preemption removes pods
// from the node that is evaluated.
func firstPresent(pods []podOnNode, node fwk.NodeInfo) *podOnNode {
	for i, pod := range pods {
		if pod.node != node.Node().Name {
			return &pods[i]
		}
		for _, ok := range node.GetPods() {
			if ok.GetPod().Namespace == pod.Namespace && ok.GetPod().Name == pod.Name {
				return &pods[i]
			}
		}
	}
	return nil
}

// ServiceAffinityArgs are the plugin's arguments: the fields that kube-scheduler had
// last. It no longer has such a type.
type ServiceAffinityArgs struct {
	metav1.TypeMeta `json:",inline"`
	// AffinityLabels are labels of nodes: all pods of a Service go to nodes that have
	// the same values of them.
	AffinityLabels []string `json:"affinityLabels,omitempty"`
	// AntiAffinityLabelsPreference are labels of nodes: the pods of a Service are
	// preferably spread over their values.
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// DeepCopyObject returns a deep copy.
func (a *ServiceAffinityArgs) DeepCopyObject() runtime.Object {
	return &ServiceAffinityArgs{
		TypeMeta:                     a.TypeMeta,
		AffinityLabels:               append([]string(nil), a.AffinityLabels...),
		AntiAffinityLabelsPreference: append([]string(nil), a.AntiAffinityLabelsPreference...),
	}
}

// Validate returns the labels that are not valid label keys.
func Validate(args *ServiceAffinityArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name   string
		labels []string
	}{{"affinityLabels", args.AffinityLabels}, {"antiAffinityLabelsPreference", args.AntiAffinityLabelsPreference}} {
		for i, label := range list.labels {
			for _, wrong := range validation.IsQualifiedName(label) {
				errs = append(errs, field.Invalid(path.Child(list.name).Index(i), label, wrong))
			}
		}
	}
	return errs
}
