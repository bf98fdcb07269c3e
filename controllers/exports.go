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
func (r *profileReconciler) syncExport(ctx context.Context, v *observation) {
	if !r.isLeader() {
		return
	}
	asked := exportConfigMap(v.profile)
	if r.options.Exporter == nil {
		if asked != "" {
			v.exported = &export.Outcome{Reason: v1alpha1.ReasonExportFailed, Message: "this Berth keeps no exports: it has no namespace of its own"}
		}
		return
	}
	v.exported = r.options.Exporter.Sync(ctx, v.profile.Name, asked, v.blueprintToExport())
}

// unexport deletes what was exported of a profile that is gone.
func (r *profileReconciler) deleteExport(ctx context.Context, name string) (again bool) {
	if r.options.Exporter == nil || !r.isLeader() {
		return false
	}
	left := r.options.Exporter.Sync(ctx, name, "", nil)
	if left != nil {
		log.FromContext(ctx).Info("What was exported of a profile that is gone is still there", "schedulingProfile", name, "why", left.Message)
	}
	return left != nil
}

// exports is what there is to export.
func (v *observation) blueprintToExport() *compile.Blueprint {
	if v.running == nil {
		return nil
	}
	return v.runningBlueprint()
}

// exportOf names the ConfigMap that a profile asks for; empty: none.
func exportConfigMap(p *v1alpha1.SchedulingProfile) string {
	if p.Spec.Exports.Autoscaler == nil {
		return ""
	}
	return p.Spec.Exports.Autoscaler.ConfigMap
}

// exportRuling rules on Exported; false where nothing was asked for.
func (v observation) exportedCondition() (conditionUpdate, bool) {
	switch {
	case v.exported == nil:
		return conditionUpdate{}, false
	case v.exported.Exported():
		return trueCondition(v1alpha1.ConditionExported, v.exported.Reason, v.exported.Message), true
	}
	return falseCondition(v1alpha1.ConditionExported, v.exported.Reason, truncate(v.exported.Message, maxMessage)), true
}

// whenExportsChange visits a profile when one of its ConfigMaps does, once this
// process leads.
func (r *profileReconciler) requeueOnExportChange(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if r.options.Exporter == nil {
		return nil
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-r.elected:
		}
		err := r.options.Exporter.Watch(ctx, func(profile string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: profile}})
		})
		if err != nil {
			log.FromContext(ctx).Error(err, "Exports are not watched: an edit of one is put back with the next change of its profile")
		}
	}()
	return nil
}
