package compile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// testRegistry registers some names and extension points of kube-scheduler's plugins,
// so that the tests do not need the plugins themselves, and four more plugins.
func testRegistry() framework.Registry {
	reg := framework.Registry{}
	for name, points := range map[string][]framework.Point{
		"SchedulingGates":  {framework.PreEnqueue},
		"PrioritySort":     {framework.QueueSort},
		"NodeName":         {framework.PreFilter, framework.Filter},
		"TaintToleration":  {framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		"ImageLocality":    {framework.Score},
		"DefaultBinder":    {framework.Bind},
		"ArrivalSort":      {framework.QueueSort},
		"Everywhere":       framework.Points[2:10],
		"NodeResourcesFit": {framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		"InterPodAffinity": {framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		"Fragile":          {framework.PostBind},
		"GangScheduling":   {framework.Permit},
		"GroupPreemption":  {framework.PostFilter},
	} {
		reg[name] = framework.Registration{Name: name, Points: points}
	}
	for name, point := range map[string]framework.Point{"GangScheduling": framework.PlacementFeasible, "GroupPreemption": framework.PodGroupPostFilter} {
		registration := reg[name]
		registration.GroupPoints = []framework.Point{point}
		reg[name] = registration
	}
	takesArguments(reg, "NodeResourcesFit", framework.Registration{
		NewArgs:  func() runtime.Object { return &configv1.NodeResourcesFitArgs{} },
		Default:  defaultFit,
		Validate: validateFit,
	})
	takesArguments(reg, "InterPodAffinity", framework.Registration{
		NewArgs: func() runtime.Object { return &configv1.InterPodAffinityArgs{} },
	})
	takesArguments(reg, "Fragile", framework.Registration{
		NewArgs: func() runtime.Object { return &configv1.DynamicResourcesArgs{} },
		Default: func(runtime.Object) { panic("glass") },
	})
	return reg
}

func takesArguments(reg framework.Registry, name string, with framework.Registration) {
	r := reg[name]
	r.NewArgs, r.Default, r.Validate = with.NewArgs, with.Default, with.Validate
	reg[name] = r
}

func defaultFit(args runtime.Object) {
	fit := args.(*configv1.NodeResourcesFitArgs)
	if fit.ScoringStrategy == nil {
		fit.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	}
	if len(fit.ScoringStrategy.Resources) == 0 {
		fit.ScoringStrategy.Resources = []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	}
}

func validateFit(args runtime.Object, path *field.Path) field.ErrorList {
	strategy := args.(*configv1.NodeResourcesFitArgs).ScoringStrategy
	if t := strategy.Type; t != configv1.LeastAllocated && t != configv1.MostAllocated {
		return field.ErrorList{field.NotSupported(path.Child("scoringStrategy", "type"), t,
			[]configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated})}
	}
	var errs field.ErrorList
	for i, r := range strategy.Resources {
		if r.Weight < 0 {
			errs = append(errs, field.Invalid(path.Child("scoringStrategy", "resources").Index(i).Child("weight"), r.Weight, "must be positive"))
		}
	}
	return errs
}

// chainsText returns chains as "filter: NodeName NodeResourcesFit*5", one line per
// point, in the order in which the framework runs the points.
func chainsText(chains framework.Chains) string {
	var text string
	for _, point := range framework.AllPoints {
		if len(chains[point]) == 0 {
			continue
		}
		text += string(point) + ":"
		for _, e := range chains[point] {
			text += " " + e.Name
			if e.Weight != 0 {
				text += fmt.Sprintf("*%d", e.Weight)
			}
		}
		text += "\n"
	}
	return text
}
