package controllers

import (
	"context"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
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

// byConfig indexes profiles by the PluginConfigs that they name.
const configRefIndex = "spec.pluginConfig.configRef.name"

const (
	// profilesAtOnce bounds the profiles that are compiled and built at one
	// time: a build waits for informers, and should hold up no other profile.
	maxConcurrentProfiles = 4
	// A build that failed is tried again after firstRetry, then after twice
	// as long each time, at last every lastRetry. An edit is tried at once.
	initialRetryDelay = time.Second
	maxRetryDelay     = 5 * time.Minute
)

func indexProfiles(mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.SchedulingProfile{}, configRefIndex,
		func(object client.Object) []string { return configRefNames(object.(*v1alpha1.SchedulingProfile)) })
}

// configsOf are the names of the PluginConfigs that p names, each once, in
// order.
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

// specChanged lets an update pass when the spec changed, or when the object is
// another one under the same name: after a lost watch, deletion and creation
// arrive as one update, and both may be generation 1. Writes of status do
// neither.
var specChanged = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
})

// permitted lets an update pass that changes what the annotations permit: they
// are no part of the spec.
var permissionChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		return before[v1alpha1.AnnotationApprovedHash] != after[v1alpha1.AnnotationApprovedHash] ||
			before[v1alpha1.AnnotationTakeOver] != after[v1alpha1.AnnotationTakeOver] ||
			before[v1alpha1.AnnotationRetry] != after[v1alpha1.AnnotationRetry]
	},
}

// programmeChanged lets an update pass when the profile runs other
// generations of PluginConfigs than before.
var runningConfigsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.SchedulingProfile), e.ObjectNew.(*v1alpha1.SchedulingProfile)
		return !apiequality.Semantic.DeepEqual(runningConfigs(before), runningConfigs(after))
	},
}

func (r *profileReconciler) setup(mgr ctrl.Manager) error {
	everyReplica := false
	return ctrl.NewControllerManagedBy(mgr).
		Named("schedulingprofile").
		For(&v1alpha1.SchedulingProfile{}, builder.WithPredicates(predicate.Or[client.Object](specChanged, permissionChanged))).
		Watches(&v1alpha1.PluginConfig{}, handler.EnqueueRequestsFromMapFunc(r.profilesThatReference), builder.WithPredicates(specChanged)).
		WatchesRawSource(source.Func(r.requeueOnElection)).
		WatchesRawSource(source.Func(r.requeueOnDegradedChange)).
		WatchesRawSource(source.Func(r.requeueOnExportChange)).
		WithOptions(controller.Options{
			NeedLeaderElection:      &everyReplica,
			MaxConcurrentReconciles: maxConcurrentProfiles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](initialRetryDelay, maxRetryDelay),
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

// whenElected visits every profile once this process leads: what it built as
// a follower it wrote nowhere.
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

// whenAiling visits a profile whose plugins fare worse than before, or better.
func (r *profileReconciler) requeueOnDegradedChange(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.options.Applier.OnDegradedChange(func(name string) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	})
	return nil
}

func (r *pluginConfigReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("pluginconfig").
		For(&v1alpha1.PluginConfig{}, builder.WithPredicates(specChanged)).
		Watches(&v1alpha1.SchedulingProfile{}, handler.EnqueueRequestsFromMapFunc(configsReferencedBy),
			builder.WithPredicates(predicate.Or[client.Object](specChanged, runningConfigsChanged))).
		Complete(r)
}

// configsNamedBy wakes the PluginConfigs that a profile names, or that it
// still runs. The handler asks for the profile before and after an update.
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
