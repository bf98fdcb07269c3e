package controllers

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/scheduler/compile"
)

// syncExport writes the ConfigMap for other programs from what runs, also when the spec
// was rejected. Only the leader writes.
func (r *profileReconciler) syncExport(ctx context.Context, v *observation) {
	if !r.isLeader() {
		return
	}
	configMap := exportConfigMap(v.profile)
	if r.options.Exporter == nil {
		if configMap != "" {
			v.exported = &export.Outcome{Reason: v1alpha1.ReasonExportFailed, Message: "this manager writes no exports: it has no namespace of its own"}
		}
		return
	}
	v.exported = r.options.Exporter.Sync(ctx, v.profile.Name, configMap, v.blueprintToExport(), func(ctx context.Context) error {
		return r.checkCurrent(ctx, v.profile, v.configs)
	})
}

// deleteExport deletes the exports of a profile that does not exist any more. It
// reports whether it has to be called again.
func (r *profileReconciler) deleteExport(ctx context.Context, name string) (retry bool) {
	if r.options.Exporter == nil || !r.isLeader() {
		return false
	}
	left := r.options.Exporter.Sync(ctx, name, "", nil, func(ctx context.Context) error {
		err := r.live.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.SchedulingProfile{})
		if err == nil {
			return errCacheBehind
		}
		return client.IgnoreNotFound(err)
	})
	if left != nil {
		log.FromContext(ctx).Info("The export of a deleted profile could not be deleted", "schedulingProfile", name, "reason", left.Message)
	}
	return left != nil
}

// errCacheBehind says that the cache has a profile, or a PluginConfig that it references, as it was
// before.
var errCacheBehind = errors.New("the cache does not have the newest version of the profile and of its PluginConfigs yet")

// checkCurrent returns errCacheBehind unless the API server has the profile and its PluginConfigs as
// they were reconciled. The cache of a new leader may lag behind that of its predecessor.
func (r *profileReconciler) checkCurrent(ctx context.Context, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) error {
	live := &v1alpha1.SchedulingProfile{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(p), live); apierrors.IsNotFound(err) {
		return errCacheBehind
	} else if err != nil {
		return err
	}
	liveConfigs, err := getPluginConfigs(ctx, r.live, live)
	if err == nil && inputOf(live, liveConfigs) != inputOf(p, configs) {
		err = errCacheBehind
	}
	return err
}

// blueprintToExport returns what the export holds; nil when nothing runs.
func (v *observation) blueprintToExport() *compile.Blueprint {
	if v.running == nil {
		return nil
	}
	return v.runningBlueprint()
}

// exportConfigMap returns the name of the ConfigMap that the profile names for its
// export; empty for none.
func exportConfigMap(p *v1alpha1.SchedulingProfile) string {
	if p.Spec.Exports.Autoscaler == nil {
		return ""
	}
	return p.Spec.Exports.Autoscaler.ConfigMap
}

// exportedCondition returns the condition Exported; false when the profile has no
// export.
func (v observation) exportedCondition() (conditionUpdate, bool) {
	switch {
	case v.exported == nil:
		return conditionUpdate{}, false
	case v.exported.Exported():
		return trueCondition(v1alpha1.ConditionExported, v.exported.Reason, v.exported.Message), true
	}
	return falseCondition(v1alpha1.ConditionExported, v.exported.Reason, v.exported.Message), true
}

// requeueOnExportChange requeues a profile when one of its ConfigMaps changes, once
// this process leads.
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
			log.FromContext(ctx).Error(err, "Exports are not watched: an edit of one is reverted at the next change of its profile")
		}
	}()
	return nil
}
