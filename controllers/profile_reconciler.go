package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=berth.dev,resources=pluginconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// lookAgain is when a profile is visited again whose swap another one
	// overtook.
	retryInterval = time.Second
	// lookAtHistory is when one is visited again that waits for a word in its
	// history: for what the leader tries to prove itself, or for a user to
	// forgive a crash.
	historyPollInterval = 5 * time.Second
	// lookAtExports is when one is visited again whose export is in somebody's
	// way, or could not be written.
	exportRetryInterval = 10 * time.Second
)

// profileReconciler takes a profile from its spec to what runs, and says in
// its conditions what came of it.
type profileReconciler struct {
	reader  client.Reader
	live    client.Reader // past the cache
	status  *statusWriter
	elected <-chan struct{}
	// compile is compile.Profile.
	compile func(compile.Input) (*compile.Blueprint, *compile.Rejection)
	options Options
	crashes crashRecords
	// otherLease is that of the scheduler which serves default-scheduler.
	otherLease observedLease
	// visited are the names of the profiles that this process, as the leader, ran or
	// could not run.
	reconciled sync.Map
	// unsettled has an unsettled by profile name.
	unsettledChanges sync.Map
}

// Reconcile visits one profile. It returns an error where a later try may end
// better, so that the queue tries again with growing pauses.
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
	configs, err := r.getPluginConfigs(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.options.Ledger.Open(p.Name)
	v, err := r.reconcileProfile(ctx, p, configs)
	if ctx.Err() != nil {
		// The process is ending: what failed now says nothing of the profile.
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
	again := r.updateHistory(ctx, v)
	if r.syncExport(ctx, &v); v.exported != nil && v.exported.Retry && (again == 0 || again > exportRetryInterval) {
		again = exportRetryInterval
	}
	if err := r.writeStatus(ctx, v); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, v.failure
}

// gather reads the PluginConfigs that p names. One that does not exist is left
// out: compile says so with its path.
func (r *profileReconciler) getPluginConfigs(ctx context.Context, p *v1alpha1.SchedulingProfile) (map[string]*v1alpha1.PluginConfig, error) {
	found := map[string]*v1alpha1.PluginConfig{}
	for _, name := range configRefNames(p) {
		cfg := &v1alpha1.PluginConfig{}
		switch err := r.reader.Get(ctx, types.NamespacedName{Name: name}, cfg); {
		case err == nil:
			found[name] = cfg
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("PluginConfig %s of SchedulingProfile %s: %w", name, p.Name, err)
		}
	}
	return found, nil
}

// remove parks the pods of a profile that is gone and forgets its counters.
func (r *profileReconciler) removeProfile(name string) {
	r.options.Applier.Delete(name)
	r.options.Ledger.Close(name)
	r.status.forget(profileKey(name))
	r.reconciled.Delete(name)
	r.unsettledChanges.Delete(name)
	profileMetrics.forget(name)
}

// publish writes the visit's verdict, if this process leads.
func (r *profileReconciler) writeStatus(ctx context.Context, v observation) error {
	if !r.isLeader() {
		return nil
	}
	r.reportLostPods(v)
	r.reportDegraded(v)
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
