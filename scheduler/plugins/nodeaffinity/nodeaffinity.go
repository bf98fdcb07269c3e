// Package nodeaffinity holds pods to the nodes that their nodeSelector and
// required node affinity select, and prefers those that the preferred terms
// select. A profile can add an affinity that all of its pods have.
package nodeaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "NodeAffinity"

	reasonPod      = "node(s) didn't match Pod's node affinity/selector"
	reasonEnforced = "node(s) didn't match scheduler-enforced node affinity"
	reasonConflict = "pod affinity terms conflict"

	preFilterStateKey fwk.StateKey = Name + "/filter"
	preScoreStateKey  fwk.StateKey = Name + "/score"
)

// Plugin matches nodes against the pod's affinity and the profile's.
type Plugin struct {
	// enforced and favoured come from addedAffinity; nil where it is silent.
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

// New builds the plugin from *configv1.NodeAffinityArgs. The error says what
// in addedAffinity does not parse.
func New(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.NodeAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	enforced, favoured, errs := parseAddedAffinity(typed.AddedAffinity, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &Plugin{addedNodeSelector: enforced, addedPreferredTerms: favoured}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdicts depend on.
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

// required is the pod's parsed nodeSelector and required affinity.
type preFilterState struct {
	nodeaffinity.RequiredNodeAffinity
}

// Clone returns the same value: nothing changes it.
func (r *preFilterState) Clone() fwk.StateData { return r }

// PreFilter parses what the pod requires. It skips Filter when nobody requires
// anything, and narrows the search to named nodes when every term names some.
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

// PreFilterExtensions is nil: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func requiredSelector(pod *v1.Pod) *v1.NodeSelector {
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// namedNodes returns the nodes that terms name. It is nil when some term names
// none, for then all nodes are in play: one term is enough. Within a term all
// requirements hold at once, so a node must be in each list of names.
func namedNodes(terms []v1.NodeSelectorTerm) sets.Set[string] {
	var all sets.Set[string]
	for _, term := range terms {
		var names sets.Set[string]
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != v1.NodeSelectorOpIn {
				continue
			}
			listed := sets.New(field.Values...)
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

// Filter refuses a node that the profile's or the pod's affinity does not
// select. A term of the pod that does not parse selects nothing.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.addedNodeSelector != nil && !p.addedNodeSelector.Match(node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonEnforced)
	}
	if matches, _ := requiredNodeAffinity(state, pod).Match(node.Node()); !matches {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonPod)
	}
	return nil
}

// requiredOf reads PreFilter's note. A profile may have Filter without
// PreFilter; then the affinity is parsed again for each node.
func requiredNodeAffinity(state fwk.CycleState, pod *v1.Pod) nodeaffinity.RequiredNodeAffinity {
	if note, err := state.Read(preFilterStateKey); err == nil {
		if r, ok := note.(*preFilterState); ok {
			return r.RequiredNodeAffinity
		}
	}
	return nodeaffinity.GetRequiredNodeAffinity(pod)
}

// Excludes reports whether Filter refuses the node: labels and names do not
// change while a pod waits.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return !p.Filter(context.Background(), state, pod, node).IsSuccess()
}
