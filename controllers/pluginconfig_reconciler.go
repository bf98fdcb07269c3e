package controllers

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// +kubebuilder:rbac:groups=berth.dev,resources=pluginconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=pluginconfigs/status,verbs=patch

// pluginConfigReconciler writes the status of PluginConfigs: whether the arguments are
// valid, which profiles reference it, and whether these run this generation of it. It
// reads what a profile runs from the profile's status, so that the two never contradict
// each other. Only the leader runs it.
type pluginConfigReconciler struct {
	reader client.Reader
	status *statusWriter
	// check is compile.Config.
	check    func(*v1alpha1.PluginConfig, framework.Registry) (hash string, rejection *compile.Rejection)
	registry framework.Registry
}

// Reconcile reconciles one PluginConfig.
func (r *pluginConfigReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cfg := &v1alpha1.PluginConfig{}
	if err := r.reader.Get(ctx, req.NamespacedName, cfg); apierrors.IsNotFound(err) {
		r.status.forget(pluginConfigKey(req.Name))
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	var profiles v1alpha1.SchedulingProfileList
	if err := r.reader.List(ctx, &profiles, client.MatchingFields{configRefIndex: cfg.Name}); err != nil {
		return reconcile.Result{}, err
	}
	slices.SortFunc(profiles.Items, func(a, b v1alpha1.SchedulingProfile) int { return strings.Compare(a.Name, b.Name) })
	v := configObservation{config: cfg, profiles: profiles.Items}
	v.hash, v.rejection = r.check(cfg, r.registry)
	s := statusObject{
		Object: cfg, key: pluginConfigKey(cfg.Name), cachedConditions: cfg.Status.Conditions,
		withoutEvents: v1alpha1.ConditionProgrammed, // it is False for a moment after each edit and each new reference
	}
	return reconcile.Result{}, r.status.write(ctx, s, v.conditions(), v.status)
}

func pluginConfigKey(name string) string { return "PluginConfig/" + name }
