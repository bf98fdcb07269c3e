package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/scheduler/compile"
)

// export keeps what other programs read of the profile: of what runs, whatever
// became of the spec. Only the leader writes.
func (r *profileReconciler) export(ctx context.Context, v *visit) {
	if !r.leads() {
		return
	}
	asked := exportOf(v.profile)
	if r.options.Exports == nil {
		if asked != "" {
			v.exported = &export.Outcome{Reason: v1alpha1.ReasonExportFailed, Message: "this Berth keeps no exports: it has no namespace of its own"}
		}
		return
	}
	v.exported = r.options.Exports.Keep(ctx, v.profile.Name, asked, v.exports())
}

// unexport deletes what was exported of a profile that is gone.
func (r *profileReconciler) unexport(ctx context.Context, name string) (again bool) {
	if r.options.Exports == nil || !r.leads() {
		return false
	}
	left := r.options.Exports.Keep(ctx, name, "", nil)
	if left != nil {
		log.FromContext(ctx).Info("What was exported of a profile that is gone is still there", "schedulingProfile", name, "why", left.Message)
	}
	return left != nil
}

// exports is what there is to export.
func (v *visit) exports() *compile.Blueprint {
	if v.running == nil {
		return nil
	}
	return v.programme()
}

// exportOf names the ConfigMap that a profile asks for; empty: none.
func exportOf(p *v1alpha1.SchedulingProfile) string {
	if p.Spec.Exports.Autoscaler == nil {
		return ""
	}
	return p.Spec.Exports.Autoscaler.ConfigMap
}

// exportRuling rules on Exported; false where nothing was asked for.
func (v visit) exportRuling() (ruling, bool) {
	switch {
	case v.exported == nil:
		return ruling{}, false
	case v.exported.Exported():
		return yes(v1alpha1.ConditionExported, v.exported.Reason, v.exported.Message), true
	}
	return no(v1alpha1.ConditionExported, v.exported.Reason, clip(v.exported.Message, maxMessage)), true
}

// whenExportsChange visits a profile when one of its ConfigMaps does, once this
// process leads.
func (r *profileReconciler) whenExportsChange(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if r.options.Exports == nil {
		return nil
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-r.elected:
		}
		err := r.options.Exports.Watch(ctx, func(profile string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: profile}})
		})
		if err != nil {
			log.FromContext(ctx).Error(err, "Exports are not watched: an edit of one is put back with the next change of its profile")
		}
	}()
	return nil
}
