package controllers

import (
	"context"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berthdev/berth/api/v1alpha1"
)

// configRefIndex is the index of profiles by the PluginConfigs that they reference.
const configRefIndex = "spec.pluginConfig.configRef.name"

const (
	// maxConcurrentProfiles is how many profiles are reconciled at the same time. A
	// build waits for informers, and should delay no other profile.
	maxConcurrentProfiles = 4
	// A failed reconcile, or a spec that failed, is retried after initialRetryDelay, then after
	// twice as long each time, up to maxReconcileDelay or maxAttemptDelay. An edit is reconciled
	// at once.
	initialRetryDelay = time.Second
	maxAttemptDelay   = 5 * time.Minute
	// maxReconcileDelay is short, since a reconcile that fails does not look for another scheduler.
	maxReconcileDelay = otherSchedulerPollInterval
)

// ReconcileDelays returns the delays after which failed reconciles of profiles are retried.
func ReconcileDelays() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](initialRetryDelay, maxReconcileDelay)
}

func indexProfiles(mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.SchedulingProfile{}, configRefIndex,
		func(object client.Object) []string { return configRefNames(object.(*v1alpha1.SchedulingProfile)) })
}

// configRefNames returns the names of the PluginConfigs that p references, each once,
// sorted.
func configRefNames(p *v1alpha1.SchedulingProfile) []string {
	var names []string
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef != nil {
			names = append(names, entry.ConfigRef.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// specChanged passes an update that changes the spec, or that replaces the object by
// another one with the same name: after a lost watch, a deletion and a creation arrive
// as one update, and both objects may have generation 1. A write of the status is
// neither.
var specChanged = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
})

// differs passes an update after which of returns something else.
func differs[T client.Object, R any](of func(T) R) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !apiequality.Semantic.DeepEqual(of(e.ObjectOld.(T)), of(e.ObjectNew.(T)))
	}}
}

// reportChanged passes an update of what the reconciler reports, messages and times left
// out. A report of an earlier leader may arrive late, at a version that this process did not
// change since it had nothing else to report. A report of this process passes as well, and
// the reconcile after it changes nothing.
var reportChanged = differs(reportOf)

// reportOf returns the parts of a status that reportChanged compares.
func reportOf(p *v1alpha1.SchedulingProfile) []any {
	report := conditionsReport(p.Status.Conditions)
	if running := p.Status.Programmed; running != nil {
		report = append(report, running.Hash, running.Generation)
	}
	return append(report, p.Status.ObservedGeneration)
}

// configReportChanged is reportChanged for PluginConfigs.
var configReportChanged = differs(configReportOf)

// configReportOf returns the parts of a status that configReportChanged compares.
func configReportOf(c *v1alpha1.PluginConfig) []any {
	s := c.Status
	return append(conditionsReport(s.Conditions), s.Hash, s.ReferenceCount, s.ReferencedBy, s.ObservedGeneration)
}

// conditionsReport returns the parts of conditions that are compared.
func conditionsReport(conditions []metav1.Condition) (report []any) {
	for _, c := range conditions {
		report = append(report, c.Type, c.Status, c.Reason, c.ObservedGeneration)
	}
	return report
}

// permissionAnnotations are the annotations that permit something. They are not part of the
// spec.
var permissionAnnotations = []string{v1alpha1.AnnotationApprovedHash, v1alpha1.AnnotationTakeOver, v1alpha1.AnnotationRetry}

// permissionChanged passes an update of these annotations.
var permissionChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		return slices.ContainsFunc(permissionAnnotations, func(name string) bool { return before[name] != after[name] })
	},
}

// runningConfigsChanged passes an update after which the profile runs other generations
// of PluginConfigs.
var runningConfigsChanged = differs(runningConfigs)

// ProfileChanged passes the updates of a SchedulingProfile after which it is reconciled.
var ProfileChanged = predicate.Or[client.Object](specChanged, permissionChanged, reportChanged)

// configChanged passes the updates of a PluginConfig after which it is reconciled.
var configChanged = predicate.Or[client.Object](specChanged, configReportChanged)

func (r *profileReconciler) setup(mgr ctrl.Manager) error {
	everyReplica := false
	return ctrl.NewControllerManagedBy(mgr).
		Named("schedulingprofile").
		For(&v1alpha1.SchedulingProfile{}, builder.WithPredicates(ProfileChanged)).
		Watches(&v1alpha1.PluginConfig{}, handler.EnqueueRequestsFromMapFunc(r.profilesThatReference), builder.WithPredicates(specChanged)).
		WatchesRawSource(source.Func(r.requeueOnElection)).
		WatchesRawSource(source.Func(r.requeueOnDegradedChange)).
		WatchesRawSource(source.Func(r.requeueOnExportChange)).
		WithOptions(controller.Options{
			NeedLeaderElection:      &everyReplica,
			MaxConcurrentReconciles: maxConcurrentProfiles,
			RateLimiter:             ReconcileDelays(),
		}).
		Complete(r)
}

func (r *profileReconciler) profilesThatReference(ctx context.Context, config client.Object) []reconcile.Request {
	var profiles v1alpha1.SchedulingProfileList
	if err := r.reader.List(ctx, &profiles, client.MatchingFields{configRefIndex: config.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "Profiles that name a PluginConfig could not be listed", "pluginConfig", config.GetName())
		return nil
	}
	return requestsFor(profiles.Items)
}

// requeueOnElection requeues every profile once this process leads: as a follower it
// wrote no status.
func (r *profileReconciler) requeueOnElection(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-r.elected:
		}
		var profiles v1alpha1.SchedulingProfileList
		if err := r.reader.List(ctx, &profiles); err != nil {
			log.FromContext(ctx).Error(err, "Profiles could not be listed after the election")
			return
		}
		for _, request := range requestsFor(profiles.Items) {
			queue.Add(request)
		}
	}()
	return nil
}

// requeueOnDegradedChange requeues a profile whose plugins become degraded or recover.
func (r *profileReconciler) requeueOnDegradedChange(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.options.Applier.DegradedChanged():
			}
			for _, name := range r.options.Applier.TakeDegradedChanges() {
				queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
		}
	}()
	return nil
}

func (r *pluginConfigReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("pluginconfig").
		For(&v1alpha1.PluginConfig{}, builder.WithPredicates(configChanged)).
		Watches(&v1alpha1.SchedulingProfile{}, handler.EnqueueRequestsFromMapFunc(configsReferencedBy),
			builder.WithPredicates(predicate.Or[client.Object](specChanged, runningConfigsChanged))).
		Complete(r)
}

// configsReferencedBy returns requests for the PluginConfigs that a profile references
// or still runs. For an update, the handler calls it with the old and with the new
// profile.
func configsReferencedBy(_ context.Context, object client.Object) []reconcile.Request {
	p := object.(*v1alpha1.SchedulingProfile)
	names := configRefNames(p)
	for _, c := range runningConfigs(p) {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	var requests []reconcile.Request
	for _, name := range slices.Compact(names) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

func requestsFor(profiles []v1alpha1.SchedulingProfile) []reconcile.Request {
	requests := make([]reconcile.Request, len(profiles))
	for i := range profiles {
		requests[i].Name = profiles[i].Name
	}
	return requests
}
