package controllers

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// defaultScheduler is the name that pods ask for which name no scheduler.
const defaultScheduler = "default-scheduler"

// kubeScheduler is the Lease by which kube-scheduler says that it runs.
var kubeScheduler = types.NamespacedName{Namespace: "kube-system", Name: "kube-scheduler"}

// elsewherePause is how often that Lease is looked at while it is renewed.
const elsewherePause = 10 * time.Second

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=kube-scheduler,verbs=get

// servedElsewhere rejects the profile whose pods kube-scheduler schedules: two
// schedulers that each believe a node's room to be theirs overcommit it. nil
// when nobody renews the Lease, or the profile says that it takes over.
func (r *profileReconciler) servedElsewhere(ctx context.Context, p *v1alpha1.SchedulingProfile) (*compile.Rejection, error) {
	if p.Name != defaultScheduler || p.Annotations[v1alpha1.AnnotationTakeOver] == "true" {
		return nil, nil
	}
	var lease coordinationv1.Lease
	if err := r.live.Get(ctx, kubeScheduler, &lease); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("looking for another scheduler, Lease %s: %w", kubeScheduler, err)
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Spec.RenewTime
	if holder == "" || renewed == nil {
		return nil, nil
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
	if !r.options.Clock.Now().Before(renewed.Add(lasts)) {
		return nil, nil
	}
	return &compile.Rejection{Faults: []compile.Fault{{
		Condition: string(v1alpha1.ConditionAccepted), Reason: string(v1alpha1.ReasonNameServedElsewhere), Path: "metadata.name",
		Detail: fmt.Sprintf("pods of this name are scheduled by %s, which renews the Lease %s; stop it, or take over with: "+
			"kubectl annotate sprof %s %s=true", holder, kubeScheduler, p.Name, v1alpha1.AnnotationTakeOver),
	}}}, nil
}
