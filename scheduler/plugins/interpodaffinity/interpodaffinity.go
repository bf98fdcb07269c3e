// Package interpodaffinity places pods near the pods that they want to be with
// and away from those that they do not, and keeps the wishes of pods that are
// placed already. Domains of a topology say what is near.
//
// The API server merges matchLabelKeys and mismatchLabelKeys into the label
// selectors of a pod's terms; here they are not looked at.
//
// Rules, reasons and defaults are those of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity.
package interpodaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corelisters "k8s.io/client-go/listers/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "InterPodAffinity"

	reasonAffinity             = "node(s) didn't match pod affinity rules"
	reasonAntiAffinity         = "node(s) didn't match pod anti-affinity rules"
	reasonExistingAntiAffinity = "node(s) didn't satisfy existing pods anti-affinity rules"

	preFilterStateKey fwk.StateKey = Name + "/filter"
	preScoreStateKey  fwk.StateKey = Name + "/score"
)

// Plugin weighs the affinity terms of pods, the one to be placed and those
// that are.
type Plugin struct {
	counts     framework.Counts
	namespaces corelisters.NamespaceLister
	// hardWeight is what a required affinity of a placed pod adds to the score
	// of the nodes near it; 0: nothing.
	hardPodAffinityWeight int64
	// ownOnly leaves pods without preferences unscored.
	ignorePreferredTermsOfExistingPods bool
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ScoreExtensions     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
	_ framework.ReadsDeclarer = (*Plugin)(nil)
)

// New builds the plugin from *configv1.InterPodAffinityArgs. The error says
// what is wrong with them, or that handle does not count pods.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.InterPodAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := Validate(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	counts, err := framework.CountsOf(handle)
	if err != nil {
		return nil, err
	}
	return &Plugin{
		counts:                             counts,
		namespaces:                         handle.SharedInformerFactory().Core().V1().Namespaces().Lister(),
		hardPodAffinityWeight:              int64(*typed.HardPodAffinityWeight),
		ignorePreferredTermsOfExistingPods: typed.IgnorePreferredTermsOfExistingPods,
	}, nil
}

// Default fills in a weight of 1 for required affinity of placed pods.
func Default(args *configv1.InterPodAffinityArgs) {
	if args.HardPodAffinityWeight == nil {
		weight := int32(1)
		args.HardPodAffinityWeight = &weight
	}
}

// Validate says what is wrong with defaulted args.
func Validate(args *configv1.InterPodAffinityArgs, path *field.Path) field.ErrorList {
	at := path.Child("hardPodAffinityWeight")
	switch weight := args.HardPodAffinityWeight; {
	case weight == nil:
		return field.ErrorList{field.Required(at, "must be between 0 and 100")}
	case *weight < 0 || *weight > 100:
		return field.ErrorList{field.Invalid(at, *weight, "must be between 0 and 100")}
	}
	return nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdicts depend on.
func (*Plugin) Reads() framework.Reads {
	reads := framework.NodeLabels | framework.DomainCounts | framework.NamespaceLabels
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodLabels | framework.PodAffinity,
		Filter: reads, Score: reads,
	}
}

// SignPod signs the pod with its labels, which the terms of others may match.
// It signs no pod with terms of its own: where it fits moves with other pods.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if affinity := pod.Spec.Affinity; affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with InterPodAffinity are not signable")
	}
	if p.ignorePreferredTermsOfExistingPods {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: fwk.LabelsSignerName, Value: pod.Labels}}, nil
}
