// Package interpodaffinity places a pod near or away from other pods, as the affinity
// and anti-affinity terms of the pod and of the placed pods require or prefer. Two pods
// are near each other when their nodes are in the same topology domain.
//
// The API server merges matchLabelKeys and mismatchLabelKeys into the label selectors
// of a pod's terms, so the plugin does not read these fields.
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
	"github.com/berthdev/berth/scheduler/framework/counts"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "InterPodAffinity"

	reasonAffinity             = "node(s) didn't match pod affinity rules"
	reasonAntiAffinity         = "node(s) didn't match pod anti-affinity rules"
	reasonExistingAntiAffinity = "node(s) didn't satisfy existing pods anti-affinity rules"

	preFilterStateKey fwk.StateKey = Name + "/filter"
	preScoreStateKey  fwk.StateKey = Name + "/score"
)

// Plugin evaluates the affinity terms of the incoming pod and of the placed pods.
type Plugin struct {
	counts     counts.Counts
	namespaces corelisters.NamespaceLister
	// hardPodAffinityWeight is what a required affinity term of a placed pod adds to
	// the score of the nodes near it; 0 disables this.
	hardPodAffinityWeight int64
	// ignorePreferredTermsOfExistingPods skips Score for pods without preferred terms.
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

// New builds the plugin from *configv1.InterPodAffinityArgs. It returns an error when
// they are invalid or when handle offers no counts.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.InterPodAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := Validate(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	counts, err := counts.Of(handle)
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

// Default sets hardPodAffinityWeight to 1 where it is unset.
func Default(args *configv1.InterPodAffinityArgs) {
	if args.HardPodAffinityWeight == nil {
		weight := int32(1)
		args.HardPodAffinityWeight = &weight
	}
}

// Validate returns the invalid fields of defaulted args.
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

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdicts depend on.
func (*Plugin) Reads() framework.Reads {
	reads := framework.NodeLabels | framework.DomainCounts | framework.NamespaceLabels
	return framework.Reads{
		Pod:    framework.PodNamespace | framework.PodLabels | framework.PodAffinity,
		Filter: reads, Score: reads,
	}
}

// SignPod signs the pod with its labels, which the terms of other pods may match. It
// does not sign a pod with terms of its own, because other pods decide where that pod
// fits.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if affinity := pod.Spec.Affinity; affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with InterPodAffinity are not signable")
	}
	if p.ignorePreferredTermsOfExistingPods {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: fwk.LabelsSignerName, Value: pod.Labels}}, nil
}
