package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// maxNamed bounds the profiles that one message names.
const maxNamed = 20

// configVisit is all that one look at a PluginConfig found out.
type configVisit struct {
	config *v1alpha1.PluginConfig
	// users are the profiles that name it, by name.
	users []v1alpha1.SchedulingProfile
	// hash names the arguments; rejection is set where they are wrong.
	hash      string
	rejection *compile.Rejection
}

func (v configVisit) rulings() []ruling { return []ruling{v.accepted(), v.programmed()} }

func (v configVisit) accepted() ruling {
	if v.rejection == nil {
		return yes(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, v.standing()+"; "+v.title()+" is understood")
	}
	_, reason := v.rejection.Condition()
	r := no(v1alpha1.ConditionAccepted, v1alpha1.ConditionReason(reason), v.refusal())
	r.faults = v.rejection.Faults
	return r
}

// programmed holds when every profile that names the config runs this
// generation of it, so of an accepted one that no profile names, too: nothing
// is left to wait for. Of a refused one it never holds.
func (v configVisit) programmed() ruling {
	behind := v.behind()
	switch {
	case v.rejection != nil && v.runsAnywhere():
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonPreviousRuns, v.refusal())
	case v.rejection != nil:
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonNothingRuns, v.refusal())
	case len(behind) == 0:
		return yes(v1alpha1.ConditionProgrammed, v1alpha1.ReasonProgrammed, v.standing())
	case v.runsAnywhere():
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonPreviousRuns, v.standing()+"; "+v.title()+" does not run in "+list(behind))
	}
	return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonNothingRuns, v.standing()+"; "+v.title()+" does not run in "+list(behind))
}

func (v configVisit) title() string { return fmt.Sprintf("generation %d", v.config.Generation) }

func (v configVisit) refusal() string {
	return clip(v.standing()+"; "+v.title()+refusedFor+v.rejection.Message(), maxMessage)
}

// runs is the generation of the config that a profile runs; 0 for none.
func (v configVisit) runs(p *v1alpha1.SchedulingProfile) int64 {
	for _, c := range runningConfigs(p) {
		if c.Name == v.config.Name {
			return c.Generation
		}
	}
	return 0
}

func (v configVisit) runsAnywhere() bool {
	return slices.ContainsFunc(v.users, func(p v1alpha1.SchedulingProfile) bool { return v.runs(&p) > 0 })
}

// behind are the profiles that name this config and do not run this
// generation of it.
func (v configVisit) behind() []string {
	var names []string
	for i := range v.users {
		if v.runs(&v.users[i]) != v.config.Generation {
			names = append(names, v.users[i].Name)
		}
	}
	return names
}

// standing says what runs where, newest generation first.
func (v configVisit) standing() string {
	if len(v.users) == 0 {
		return "no profile names it"
	}
	where := map[int64][]string{}
	for i := range v.users {
		if generation := v.runs(&v.users[i]); generation > 0 {
			where[generation] = append(where[generation], v.users[i].Name)
		}
	}
	if len(where) == 0 {
		return "runs nowhere"
	}
	var parts []string
	for _, generation := range slices.Backward(slices.Sorted(maps.Keys(where))) {
		verb := "keeps running"
		if generation == v.config.Generation {
			verb = "runs"
		}
		parts = append(parts, fmt.Sprintf("generation %d %s in %s", generation, verb, list(where[generation])))
	}
	return strings.Join(parts, ", ")
}

// list names things, some of them when there are many.
func list(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// status is what the visit says of its PluginConfig.
func (v configVisit) status(resourceVersion string, conditions []*metav1ac.ConditionApplyConfiguration) runtime.ApplyConfiguration {
	status := berthac.PluginConfigStatus().
		WithObservedGeneration(v.config.Generation).
		WithConditions(conditions...).
		WithReferenceCount(int64(len(v.users)))
	if v.hash != "" {
		status.WithHash(v.hash)
	}
	for _, p := range v.users[:min(len(v.users), v1alpha1.MaxReferencedBy)] {
		status.WithReferencedBy(berthac.ObjectGeneration().WithName(p.Name).WithGeneration(p.Generation))
	}
	return berthac.PluginConfig(v.config.Name).WithResourceVersion(resourceVersion).WithStatus(status)
}
