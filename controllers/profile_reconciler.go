package controllers

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles/status,verbs=patch;update
// +kubebuilder:rbac:groups=berth.dev,resources=pluginconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// lookAgain is when a profile is visited again whose swap another one overtook.
const lookAgain = time.Second

// profileReconciler takes a profile from its spec to what runs, and says in
// its conditions what came of it.
type profileReconciler struct {
	reader  client.Reader
	status  *statusWriter
	elected <-chan struct{}
	// compile is compile.Profile.
	compile func(compile.Input) (*compile.Blueprint, *compile.Rejection)
	options Options
}

// Reconcile visits one profile. It returns an error where a later try may end
// better, so that the queue tries again with growing pauses.
func (r *profileReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.SchedulingProfile{}
	if err := r.reader.Get(ctx, req.NamespacedName, p); apierrors.IsNotFound(err) {
		r.remove(req.Name)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	configs, err := r.gather(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.options.Ledger.Open(p.Name)
	v := r.bring(ctx, p, configs)
	if ctx.Err() != nil {
		// The process is ending: what failed now says nothing of the profile.
		return reconcile.Result{}, ctx.Err()
	}
	if err := r.publish(ctx, v); err != nil {
		return reconcile.Result{}, err
	}
	if v.rejection == nil && v.failure == nil && !v.programmed() {
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	return reconcile.Result{}, v.failure
}

// gather reads the PluginConfigs that p names. One that does not exist is left
// out: compile says so with its path.
func (r *profileReconciler) gather(ctx context.Context, p *v1alpha1.SchedulingProfile) (map[string]*v1alpha1.PluginConfig, error) {
	found := map[string]*v1alpha1.PluginConfig{}
	for _, name := range configsOf(p) {
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

// bring makes the spec run, as far as it can be understood and built. A pause
// comes before the swap and its end after it, so that no pod is placed by a
// Blueprint that was meant to wait; it is obeyed even where the rest of the
// spec is refused, since it says nothing about how to schedule.
func (r *profileReconciler) bring(ctx context.Context, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) visit {
	v := visit{profile: p, configs: configs}
	if v.paused() {
		r.options.Applier.Pause(p.Name, true)
	}
	v.blueprint, v.rejection = r.compile(compile.Input{
		Profile: p, Configs: configs, Registry: r.options.Registry, Version: r.options.Version,
	})
	if v.rejection == nil {
		v.failure = r.options.Applier.Apply(ctx, v.blueprint)
	}
	if !v.paused() {
		r.options.Applier.Pause(p.Name, false)
	}
	if running, ok := r.options.Applier.Running(p.Name); ok {
		v.running = &running
	}
	v.now = r.options.Clock.Now()
	return v
}

// remove parks the pods of a profile that is gone and forgets its counters.
func (r *profileReconciler) remove(name string) {
	r.options.Applier.Delete(name)
	r.options.Ledger.Close(name)
	r.status.forget(profileKey(name))
}

// publish writes the visit's verdict, if this process leads.
func (r *profileReconciler) publish(ctx context.Context, v visit) error {
	if !r.leads() {
		return nil
	}
	s := subject{Object: v.profile, key: profileKey(v.profile.Name), stored: v.profile.Status.Conditions}
	return r.status.write(ctx, s, v.rulings(), v.status)
}

func (r *profileReconciler) leads() bool {
	select {
	case <-r.elected:
		return true
	default:
		return false
	}
}

func profileKey(name string) string { return "SchedulingProfile/" + name }
