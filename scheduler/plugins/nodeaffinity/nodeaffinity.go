// Package nodeaffinity places pods on nodes that their nodeSelector and required node
// affinity select, and prefers nodes that their preferred terms select. A profile can
// add an affinity that applies to all of its pods.
package nodeaffinity

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "NodeAffinity"

	reasonPod      = "node(s) didn't match Pod's node affinity/selector"
	reasonEnforced = "node(s) didn't match scheduler-enforced node affinity"
	reasonConflict = "pod affinity terms conflict"

	preFilterStateKey fwk.StateKey = Name + "/filter"
	preScoreStateKey  fwk.StateKey = Name + "/score"
)

// Plugin matches nodes against the affinity of the pod and of the profile.
type Plugin struct {
	// addedNodeSelector and addedPreferredTerms are the two parts of addedAffinity; nil
	// where it is unset.
	addedNodeSelector   *nodeaffinity.NodeSelector
	addedPreferredTerms *nodeaffinity.PreferredSchedulingTerms
}

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

// New builds the plugin from *configv1.NodeAffinityArgs. It returns an error when
// addedAffinity does not parse.
func New(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.NodeAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	nodeSelector, preferredTerms, errs := parseAddedAffinity(typed.AddedAffinity, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &Plugin{addedNodeSelector: nodeSelector, addedPreferredTerms: preferredTerms}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdicts depend on.
func (*Plugin) Reads() framework.Reads {
	reads := framework.NodeName | framework.NodeLabels
	return framework.Reads{Pod: framework.PodNodeAffinity, Filter: reads, Score: reads}
}

// SignPod signs the pod with its node affinity and its node selector.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	affinity, err := fwk.NodeAffinitySigner(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return []fwk.SignFragment{
		{Key: fwk.NodeAffinitySignerName, Value: affinity},
		{Key: fwk.NodeSelectorSignerName, Value: pod.Spec.NodeSelector},
	}, nil
}

// preFilterState is the pod's parsed nodeSelector and required affinity.
type preFilterState struct {
	nodeaffinity.RequiredNodeAffinity
}

// Clone returns the value itself, which never changes.
func (r *preFilterState) Clone() fwk.StateData { return r }

// PreFilter parses the pod's requirements. It skips Filter when neither the pod nor the
// profile has any. When every term names nodes it narrows the search to these nodes.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	selector := requiredSelector(pod)
	if selector == nil && p.addedNodeSelector == nil && pod.Spec.NodeSelector == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, &preFilterState{nodeaffinity.GetRequiredNodeAffinity(pod)})
	if selector == nil {
		return nil, nil
	}
	names := namedNodes(selector.NodeSelectorTerms)
	if names == nil {
		return nil, nil
	}
	if len(names) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonConflict)
	}
	return &fwk.PreFilterResult{NodeNames: names}, nil
}

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func requiredSelector(pod *v1.Pod) *v1.NodeSelector {
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// namedNodes returns the nodes that terms name by metadata.name. It returns nil when
// some term names none: one matching term is enough, so all nodes are candidates.
// Within a term all requirements must hold, so a node must be in each list of names.
func namedNodes(terms []v1.NodeSelectorTerm) sets.Set[string] {
	var all sets.Set[string]
	for _, term := range terms {
		var names sets.Set[string]
		for _, requirement := range term.MatchFields {
			if requirement.Key != metav1.ObjectNameField || requirement.Operator != v1.NodeSelectorOpIn {
				continue
			}
			listed := sets.New(requirement.Values...)
			if names == nil {
				names = listed
			} else {
				names = names.Intersection(listed)
			}
		}
		if names == nil {
			return nil
		}
		all = all.Union(names)
	}
	return all
}

// Filter rejects a node that the affinity of the profile or of the pod does not select.
// A term of the pod that does not parse selects no node.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.addedNodeSelector != nil && !p.addedNodeSelector.Match(node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonEnforced)
	}
	if matches, _ := requiredNodeAffinity(state, pod).Match(node.Node()); !matches {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonPod)
	}
	return nil
}

// requiredNodeAffinity returns what PreFilter parsed. A profile may enable Filter
// without PreFilter; then it parses the affinity again for each node.
func requiredNodeAffinity(state fwk.CycleState, pod *v1.Pod) nodeaffinity.RequiredNodeAffinity {
	if data, err := state.Read(preFilterStateKey); err == nil {
		if r, ok := data.(*preFilterState); ok {
			return r.RequiredNodeAffinity
		}
	}
	return nodeaffinity.GetRequiredNodeAffinity(pod)
}

// RejectsPermanently reports whether Filter rejects the node: the names and labels of
// nodes do not change on their own while a pod waits.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return !p.Filter(context.Background(), state, pod, node).IsSuccess()
}

// EventsToRegister registers nodes that are added or relabeled.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: p.isSchedulableAfterNodeChange,
	}}, nil
}

// isSchedulableAfterNodeChange requeues the pod when the node matches now and did not
// match before. Unlike upstream it checks the profile's affinity for both versions of
// the node.
func (p *Plugin) isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	matches, err := p.matches(required, after)
	if err != nil {
		return fwk.Queue, err
	}
	if !matches {
		return fwk.QueueSkip, nil
	}
	if before == nil {
		return fwk.Queue, nil
	}
	matched, err := p.matches(required, before)
	if err != nil || !matched {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// matches reports whether the affinities of the pod and of the profile both select
// node.
func (p *Plugin) matches(required nodeaffinity.RequiredNodeAffinity, node *v1.Node) (bool, error) {
	if p.addedNodeSelector != nil && !p.addedNodeSelector.Match(node) {
		return false, nil
	}
	return required.Match(node)
}

// Validate returns the fields of addedAffinity that do not parse.
func Validate(args *configv1.NodeAffinityArgs, path *field.Path) field.ErrorList {
	_, _, errs := parseAddedAffinity(args.AddedAffinity, path)
	return errs
}

// parseAddedAffinity parses the required and the preferred part of an added affinity; a
// part that is unset is nil. errs lists the fields that do not parse.
func parseAddedAffinity(added *v1.NodeAffinity, path *field.Path) (
	nodeSelector *nodeaffinity.NodeSelector, preferredTerms *nodeaffinity.PreferredSchedulingTerms, errs field.ErrorList,
) {
	if added == nil {
		return nil, nil, nil
	}
	if selector := added.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		at := path.Child("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
		parsed, err := nodeaffinity.NewNodeSelector(selector, field.WithPath(at))
		nodeSelector, errs = parsed, append(errs, fieldErrors(err, at)...)
	}
	if terms := added.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		at := path.Child("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
		parsed, err := nodeaffinity.NewPreferredSchedulingTerms(terms, field.WithPath(at))
		preferredTerms, errs = parsed, append(errs, fieldErrors(err, at)...)
	}
	return nodeSelector, preferredTerms, errs
}

// fieldErrors flattens an aggregate of field errors. It reports an error of another
// type at path.
func fieldErrors(err error, path *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	all := []error{err}
	var aggregate utilerrors.Aggregate
	if errors.As(err, &aggregate) {
		all = utilerrors.Flatten(aggregate).Errors()
	}
	var list field.ErrorList
	for _, one := range all {
		var fieldError *field.Error
		if !errors.As(one, &fieldError) {
			fieldError = field.Invalid(path, field.OmitValueType{}, one.Error())
		}
		list = append(list, fieldError)
	}
	return list
}
