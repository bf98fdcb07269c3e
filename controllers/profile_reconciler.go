package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
)

// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=berth.dev,resources=pluginconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// retryInterval is after what time a profile is reconciled again whose swap was
	// superseded by another one or was put off.
	retryInterval = time.Second
	// historyPollInterval is how often a profile is reconciled again that waits for a
	// change of its history: for a revision that the leader proves, or for a user's
	// retry.
	historyPollInterval = 5 * time.Second
	// historyRetryInterval is after what time a profile is reconciled again whose history
	// could not be stored or brought up to date. What refuses the write, such as a quota or
	// a missing permission, may last for hours, and the history matters only to a restart
	// and to standbys.
	historyRetryInterval = time.Minute
	// historyCheckInterval is how often a profile that runs is reconciled again because its
	// revision may be missing. ControllerRevisions are not watched, and others may delete them.
	historyCheckInterval = 10 * time.Minute
	// statusRetryInterval is after what time a profile is reconciled again whose status could
	// not be written. The delay of the work queue grows with each change of the spec
	// meanwhile, and would outlast the cause by minutes.
	statusRetryInterval = 5 * time.Second
	// exportRetryInterval is after what time a profile is reconciled again whose export
	// conflicts with another object or could not be written.
	exportRetryInterval = 10 * time.Second
)

// profileReconciler compiles and applies profiles, and writes the result as conditions.
type profileReconciler struct {
	reader  client.Reader
	live    client.Reader // reads from the API server, not from the cache
	status  *statusWriter
	elected <-chan struct{}
	// compile is compile.Profile.
	compile func(compile.Input) (*compile.Blueprint, *compile.Rejection)
	options Options
	crashes crashRecords
	// otherLease is the Lease of the scheduler that serves default-scheduler.
	otherLease observedLease
	// reconciled holds the names of the profiles that this process, as the leader,
	// applied or could not apply.
	reconciled sync.Map
	// handled has what this process acted on last of each profile, see inputOf, by its name.
	handled sync.Map
	// unsettledChanges holds an unsettledChange by profile name.
	unsettledChanges sync.Map
	// applied holds the history.RevisionSpec that was applied last, by profile name.
	applied sync.Map
	// failedAttempts holds the *attempt of a profile that failed last, by profile name.
	failedAttempts sync.Map
	// retryDelays has the delay until the next attempt of a profile, by its name.
	retryDelays workqueue.TypedRateLimiter[string]
}

// NewProfileReconciler returns the reconciler of SchedulingProfiles. Its caller queues a
// profile after each change that ProfileChanged passes, at its deletion, when the process
// is elected, and when Applier reports that plugins became degraded. The fields of o that
// SetupWithManager sets by default are required.
func NewProfileReconciler(cluster Cluster, o Options) reconcile.Reconciler {
	return newProfileReconciler(cluster, o)
}

func newProfileReconciler(cluster Cluster, o Options) *profileReconciler {
	r := &profileReconciler{
		reader: cluster.Cache, live: cluster.Live, elected: cluster.Elected, compile: compile.Profile, options: o,
		status:      &statusWriter{client: cluster.Status, live: cluster.Live, recorder: o.Recorder, clock: o.Clock},
		retryDelays: workqueue.NewTypedItemExponentialFailureRateLimiter[string](initialRetryDelay, maxAttemptDelay),
	}
	if o.ProfileCache != nil {
		o.ProfileCache.reconciler.Store(r)
	}
	return r
}

// Reconcile reconciles one profile. It returns an error when nothing is known about the
// profile and a later reconcile may succeed, so that the work queue retries it with a growing
// delay. A spec that failed is no such error: see attempt.
func (r *profileReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.SchedulingProfile{}
	if err := r.reader.Get(ctx, req.NamespacedName, p); apierrors.IsNotFound(err) {
		r.removeProfile(req.Name)
		if r.deleteExport(ctx, req.Name) {
			return reconcile.Result{RequeueAfter: exportRetryInterval}, nil
		}
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	configs, err := getPluginConfigs(ctx, r.reader, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.options.Ledger.Open(p.Name, p.UID)
	leads := r.isLeader()
	v, err := r.reconcileProfile(ctx, p, configs)
	if ctx.Err() != nil {
		// The process is shutting down: an error says nothing about the profile.
		return reconcile.Result{}, ctx.Err()
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if v.settleAfter > 0 {
		return reconcile.Result{RequeueAfter: v.settleAfter}, nil
	}
	if r.isLeader() && v.deferred == nil {
		r.reconciled.Store(p.Name, true)
	}
	if v.deferred == nil && (leads || v.verdict != history.Unproven) {
		r.handled.Store(p.Name, inputOf(p, configs))
	}
	return reconcile.Result{RequeueAfter: r.report(ctx, v)}, nil
}

// report writes what a reconcile found out, and returns after what time to reconcile again; 0
// when nothing is waited for.
func (r *profileReconciler) report(ctx context.Context, v observation) time.Duration {
	requeueAfter := r.updateHistory(ctx, v)
	if retryAfter := r.endAttempt(ctx, v); retryAfter > 0 {
		requeueAfter = soonerOf(requeueAfter, retryAfter)
	}
	if r.syncExport(ctx, &v); v.exported != nil && v.exported.Retry {
		requeueAfter = soonerOf(requeueAfter, exportRetryInterval)
	}
	if r.mayBeServedElsewhere(v.profile) {
		requeueAfter = soonerOf(requeueAfter, otherSchedulerPollInterval)
	}
	if err := r.writeStatus(ctx, v); err != nil {
		requeueAfter = soonerOf(requeueAfter, statusRetryInterval)
		log.FromContext(ctx).Error(err, "The status of a profile could not be written", "retryAfter", requeueAfter)
	}
	return requeueAfter
}

// getPluginConfigs returns the PluginConfigs that p references, by name. It leaves out
// those that do not exist: the compiler reports them with their field paths.
func getPluginConfigs(ctx context.Context, reader client.Reader, p *v1alpha1.SchedulingProfile) (map[string]*v1alpha1.PluginConfig, error) {
	found := map[string]*v1alpha1.PluginConfig{}
	for _, name := range configRefNames(p) {
		cfg := &v1alpha1.PluginConfig{}
		switch err := reader.Get(ctx, types.NamespacedName{Name: name}, cfg); {
		case err == nil:
			found[name] = cfg
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("PluginConfig %s of SchedulingProfile %s: %w", name, p.Name, err)
		}
	}
	return found, nil
}

// removeProfile holds the pods of a deleted profile and drops its counters.
func (r *profileReconciler) removeProfile(name string) {
	r.options.Applier.Delete(name)
	r.options.Ledger.Close(name)
	r.status.forget(profileKey(name))
	r.reconciled.Delete(name)
	r.handled.Delete(name)
	r.unsettledChanges.Delete(name)
	r.applied.Delete(name)
	r.forgetAttempt(name)
	profileMetrics.forget(name)
}

// writeStatus writes the conditions and reports Events, if this process leads.
func (r *profileReconciler) writeStatus(ctx context.Context, v observation) error {
	if !r.isLeader() {
		return nil
	}
	r.reportLostPods(v)
	profileMetrics.record(v)
	s := statusObject{Object: v.profile, key: profileKey(v.profile.Name), cachedConditions: v.profile.Status.Conditions}
	return r.status.write(ctx, s, v.conditions(), v.status)
}

func (r *profileReconciler) isLeader() bool {
	select {
	case <-r.elected:
		return true
	default:
		return false
	}
}

func profileKey(name string) string { return "SchedulingProfile/" + name }

// updateHistory writes to the history what this reconcile found out about it, and
// returns after what time to reconcile again; 0 when nothing is waited for.
func (r *profileReconciler) updateHistory(ctx context.Context, v observation) time.Duration {
	if v.servedElsewhere {
		return otherSchedulerPollInterval
	}
	if v.deferred != nil {
		return retryInterval
	}
	if !r.isLeader() {
		if v.verdict == history.Unproven {
			return historyPollInterval
		}
		return 0
	}
	hash, since := "", r.options.Clock.Now()
	if v.running != nil {
		hash, since = v.running.Blueprint.Hash, v.running.Since
	}
	r.restoreRevision(ctx, v)
	requeueAfter, err := r.options.History.Update(ctx, v.history, hash, since)
	switch {
	case v.rebuildAfter > 0:
		requeueAfter = v.rebuildAfter
	case v.verdict == history.Crashed:
		requeueAfter = historyPollInterval
	case v.verdict == history.Run && v.failure == nil && !v.programmed():
		requeueAfter = retryInterval
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "The profile's history could not be brought up to date", "retryAfter", historyRetryInterval)
	}
	switch {
	case err != nil || v.history.StorableLater():
		return soonerOf(requeueAfter, historyRetryInterval)
	case v.running != nil && v.history.Durable():
		return soonerOf(requeueAfter, historyCheckInterval)
	}
	return requeueAfter
}

// soonerOf returns the time after which to reconcile again, at most limit; after is 0 when
// nothing else is waited for.
func soonerOf(after, limit time.Duration) time.Duration {
	if after == 0 {
		return limit
	}
	return min(after, limit)
}
