// Package podtopologyspread spreads pods over topology domains: hard constraints reject
// a node whose domain has too many of the pods already, soft constraints prefer domains
// that have fewer.
//
// Formulas, reasons and defaults are those of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread.
package podtopologyspread

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "PodTopologySpread"

	reasonSkew  = "node(s) didn't match pod topology spread constraints"
	reasonLabel = reasonSkew + " (missing required label)"

	preFilterStateKey fwk.StateKey = Name + "/filter"
	preScoreStateKey  fwk.StateKey = Name + "/score"
)

// Plugin compares the numbers of pods in topology domains.
type Plugin struct {
	counts counts.Counts
	nodes  fwk.NodeInfoLister
	// defaults are the constraints of pods without constraints of their own.
	// systemDefaulting is true when they are the system defaults, under which a node
	// may lack a label.
	defaults         []v1.TopologySpreadConstraint
	systemDefaulting bool
	owners           ownerListers
}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.PreFilterExtensions     = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.PreScorePlugin          = (*Plugin)(nil)
	_ fwk.ScorePlugin             = (*Plugin)(nil)
	_ fwk.ScoreExtensions         = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
)

// New builds the plugin from *configv1.PodTopologySpreadArgs. It returns an error when
// they are invalid or when handle offers no counts.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.PodTopologySpreadArgs)
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
	p := &Plugin{counts: counts, nodes: handle.SnapshotSharedLister().NodeInfos(), defaults: typed.DefaultConstraints}
	if typed.DefaultingType == configv1.SystemDefaulting {
		p.defaults, p.systemDefaulting = systemDefaultConstraints, true
	}
	if len(p.defaults) > 0 {
		p.owners = newOwnerListers(handle.SharedInformerFactory())
	}
	return p, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdicts depend on. Even before
// normalizing, a score depends on the other scored nodes: on the number of their
// domains.
func (*Plugin) Reads() framework.Reads {
	shared := framework.NodeLabels | framework.DomainCounts | framework.PodOwners
	return framework.Reads{
		Pod: framework.PodNamespace | framework.PodLabels | framework.PodOwner | framework.PodSpread |
			framework.PodNodeAffinity | framework.PodTolerations,
		Filter: shared,
		Score:  shared | framework.NodeName | framework.NodePods | framework.ScoredTogether,
	}
}

// SignPod does not sign pods with constraints, because other pods decide where these
// fit.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	switch {
	case len(pod.Spec.TopologySpreadConstraints) > 0:
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with topology constraints are not signable")
	case len(p.defaults) > 0:
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with default topology constraints are not signable")
	}
	return nil, nil
}
