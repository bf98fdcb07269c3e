package noderesources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

func TestDefaultFit(t *testing.T) {
	defaults := []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	for name, c := range map[string]struct {
		args configv1.NodeResourcesFitArgs
		want configv1.ScoringStrategy
	}{
		"no strategy is LeastAllocated over cpu and memory": {
			want: configv1.ScoringStrategy{Type: configv1.LeastAllocated, Resources: defaults},
		},
		"a strategy without resources is over cpu and memory": {
			args: argsWithStrategy(configv1.MostAllocated),
			want: configv1.ScoringStrategy{Type: configv1.MostAllocated, Resources: defaults},
		},
		"a resource without a weight has weight 1": {
			args: argsWithStrategy(configv1.MostAllocated, configv1.ResourceSpec{Name: "cpu"}, configv1.ResourceSpec{Name: "x/y", Weight: 7}),
			want: configv1.ScoringStrategy{Type: configv1.MostAllocated,
				Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "x/y", Weight: 7}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			DefaultFit(&c.args)
			if diff := cmp.Diff(&c.want, c.args.ScoringStrategy); diff != "" {
				t.Errorf("strategy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateFit(t *testing.T) {
	shaped := argsWithRatioStrategy()
	shaped.ScoringStrategy.Type = configv1.LeastAllocated
	badShape := argsWithRatioStrategy()
	badShape.ScoringStrategy.RequestedToCapacityRatio.Shape[1].Score = 11
	for name, c := range map[string]struct {
		args   configv1.NodeResourcesFitArgs
		fields []string
	}{
		"the defaults are valid": {},
		"ignored names are validated": {
			args:   configv1.NodeResourcesFitArgs{IgnoredResources: []string{"example.com/gpu", "no name"}},
			fields: []string{"args.ignoredResources[1]"},
		},
		"ignored groups have no slash": {
			args:   configv1.NodeResourcesFitArgs{IgnoredResourceGroups: []string{"example.com", "example.com/gpu"}},
			fields: []string{"args.ignoredResourceGroups[1]"},
		},
		"an unknown type of strategy is invalid": {
			args: argsWithStrategy("Fullest"), fields: []string{"args.scoringStrategy.type"},
		},
		"a strategy without a type is invalid": {args: argsWithStrategy(""), fields: []string{"args.scoringStrategy.type"}},
		"weights are limited": {
			args: argsWithStrategy(configv1.LeastAllocated,
				configv1.ResourceSpec{Name: "cpu", Weight: -1}, configv1.ResourceSpec{Name: "memory", Weight: 101}),
			fields: []string{"args.scoringStrategy.resources[0].weight", "args.scoringStrategy.resources[1].weight"},
		},
		"RequestedToCapacityRatio needs a shape": {
			args: argsWithStrategy(configv1.RequestedToCapacityRatio), fields: []string{"args.scoringStrategy.requestedToCapacityRatio"},
		},
		"a shape is validated": {
			args: badShape, fields: []string{"args.scoringStrategy.requestedToCapacityRatio.shape[1].score"},
		},
		"a shape is invalid with other types": {args: shaped, fields: []string{"args.scoringStrategy.requestedToCapacityRatio"}},
	} {
		t.Run(name, func(t *testing.T) {
			DefaultFit(&c.args)
			var fields []string
			for _, err := range ValidateFit(&c.args, field.NewPath("args")) {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Errorf("fields with errors (-want +got):\n%s", diff)
			}
			if _, err := NewFit(t.Context(), &c.args, nil); (err != nil) != (len(fields) > 0) {
				t.Errorf("NewFit returns error %v for errors in %v", err, fields)
			}
		})
	}
}
