package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
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
	if err := r.status.write(ctx, s, v.conditions(), v.status); err != nil {
		log.FromContext(ctx).Error(err, "The status of a PluginConfig could not be written", "retryAfter", statusRetryInterval)
		return reconcile.Result{RequeueAfter: statusRetryInterval}, nil
	}
	return reconcile.Result{}, nil
}

func pluginConfigKey(name string) string { return "PluginConfig/" + name }

// maxNamedProfiles is how many profiles a message names at most.
const maxNamedProfiles = 20

// configObservation is what one reconcile found out about a PluginConfig.
type configObservation struct {
	config *v1alpha1.PluginConfig
	// profiles are the profiles that reference it, sorted by name.
	profiles []v1alpha1.SchedulingProfile
	// hash is the hash of the arguments; rejection is set when they are invalid.
	hash      string
	rejection *compile.Rejection
}

func (v configObservation) conditions() []conditionUpdate {
	return []conditionUpdate{v.acceptedCondition(), v.programmedCondition()}
}

func (v configObservation) acceptedCondition() conditionUpdate {
	if v.rejection == nil {
		return trueCondition(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, v.runningMessage()+"; "+v.specName()+" is understood")
	}
	_, reason := v.rejection.Condition()
	r := falseCondition(v1alpha1.ConditionAccepted, v1alpha1.ConditionReason(reason), v.rejectedMessage())
	r.fieldErrors = v.rejection.Errors
	return r
}

// programmedCondition is True when every profile that references the PluginConfig runs
// this generation of it. So it is True for an accepted one that no profile references,
// since nothing is waited for, and False for a rejected one.
func (v configObservation) programmedCondition() conditionUpdate {
	behind := v.profilesBehind()
	switch {
	case v.rejection != nil && v.runsAnywhere():
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonPreviousRuns, v.rejectedMessage())
	case v.rejection != nil:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonNothingRuns, v.rejectedMessage())
	case len(behind) == 0:
		return trueCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonProgrammed, v.runningMessage())
	case v.runsAnywhere():
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonPreviousRuns, v.runningMessage()+"; "+v.specName()+" does not run in "+joinNames(behind))
	}
	return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonNothingRuns, v.runningMessage()+"; "+v.specName()+" does not run in "+joinNames(behind))
}

func (v configObservation) specName() string {
	return fmt.Sprintf("generation %d", v.config.Generation)
}

func (v configObservation) rejectedMessage() string {
	return v.runningMessage() + "; " + v.specName() + refusedFor + v.rejection.Message()
}

// runningConfig identifies what a profile runs under the name of the PluginConfig.
type runningConfig struct {
	generation int64
	// deleted says that it is of an earlier PluginConfig of the same name, so that the
	// generation may be that of the present one although the arguments differ.
	deleted bool
}

// runningConfig returns what a profile runs under the name of the PluginConfig; the zero
// value for nothing.
func (v configObservation) runningConfig(p *v1alpha1.SchedulingProfile) runningConfig {
	for _, c := range runningConfigs(p) {
		if c.Name == v.config.Name {
			return runningConfig{generation: c.Generation, deleted: !c.SameObject(v.config.UID)}
		}
	}
	return runningConfig{}
}

// current is what a profile runs that is not behind.
func (v configObservation) current() runningConfig {
	return runningConfig{generation: v.config.Generation}
}

func (v configObservation) runsAnywhere() bool {
	return slices.ContainsFunc(v.profiles, func(p v1alpha1.SchedulingProfile) bool { return v.runningConfig(&p).generation > 0 })
}

// profilesBehind returns the names of the profiles that reference the PluginConfig and
// do not run this generation of it.
func (v configObservation) profilesBehind() []string {
	var names []string
	for i := range v.profiles {
		if v.runningConfig(&v.profiles[i]) != v.current() {
			names = append(names, v.profiles[i].Name)
		}
	}
	return names
}

// runningMessage says which generations run in which profiles: those of this
// PluginConfig before those of a deleted one, each the newest first.
func (v configObservation) runningMessage() string {
	if len(v.profiles) == 0 {
		return "no profile names it"
	}
	profiles := map[runningConfig][]string{}
	for i := range v.profiles {
		if running := v.runningConfig(&v.profiles[i]); running.generation > 0 {
			profiles[running] = append(profiles[running], v.profiles[i].Name)
		}
	}
	if len(profiles) == 0 {
		return "runs nowhere"
	}
	var parts []string
	for _, running := range slices.SortedFunc(maps.Keys(profiles), compareRunning) {
		text := fmt.Sprintf("generation %d", running.generation)
		if running.deleted {
			text += " of the deleted " + v.config.Name
		}
		verb := "keeps running"
		if running == v.current() {
			verb = "runs"
		}
		parts = append(parts, fmt.Sprintf("%s %s in %s", text, verb, joinNames(profiles[running])))
	}
	return truncate(strings.Join(parts, ", "), maxMessage/2) // the reason comes after it
}

func compareRunning(a, b runningConfig) int {
	switch {
	case a.deleted == b.deleted:
		return cmp.Compare(b.generation, a.generation)
	case b.deleted:
		return -1
	}
	return 1
}

// joinNames lists names for a message, and counts those beyond maxNamedProfiles.
func joinNames(names []string) string {
	if len(names) <= maxNamedProfiles {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamedProfiles], ", "), len(names)-maxNamedProfiles)
}

// status returns the status to apply, conditions included.
func (v configObservation) status(resourceVersion string, conditions []*metav1ac.ConditionApplyConfiguration) runtime.ApplyConfiguration {
	status := berthac.PluginConfigStatus().
		WithObservedGeneration(v.config.Generation).
		WithConditions(conditions...).
		WithReferenceCount(int64(len(v.profiles)))
	if v.hash != "" {
		status.WithHash(v.hash)
	}
	for _, p := range v.profiles[:min(len(v.profiles), v1alpha1.MaxReferencedBy)] {
		status.WithReferencedBy(berthac.ObjectGeneration().WithName(p.Name).WithGeneration(p.Generation).WithUID(p.UID))
	}
	return berthac.PluginConfig(v.config.Name).WithResourceVersion(resourceVersion).WithStatus(status)
}
