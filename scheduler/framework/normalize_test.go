package framework_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

func TestNormalizeScores(t *testing.T) {
	for name, c := range map[string]struct {
		scores  []int64
		reverse bool
		want    []int64
	}{
		"no nodes":                              {},
		"the largest becomes 100":               {scores: []int64{0, 1, 3}, want: []int64{0, 33, 100}},
		"all zero stays zero":                   {scores: []int64{0, 0}, want: []int64{0, 0}},
		"with reverse the smallest is the best": {scores: []int64{0, 1, 3}, reverse: true, want: []int64{100, 67, 0}},
		"with reverse all zero becomes 100":     {scores: []int64{0, 0}, reverse: true, want: []int64{100, 100}},
		"scores above 100 are scaled down":      {scores: []int64{150, 300}, want: []int64{50, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			list := make(fwk.NodeScoreList, len(c.scores))
			for i, score := range c.scores {
				list[i].Score = score
			}
			framework.DefaultNormalizeScore(list, c.reverse)
			var got []int64
			for _, node := range list {
				got = append(got, node.Score)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShape(t *testing.T) {
	shape := framework.NewShape([]configv1.UtilizationShapePoint{
		{Utilization: 10, Score: 10}, {Utilization: 40, Score: 0}, {Utilization: 90, Score: 7},
	})
	for name, c := range map[string]struct{ at, want int64 }{
		"constant before the first point":                   {at: 0, want: 100},
		"at a point the point's score":                      {at: 40, want: 0},
		"a falling line truncates towards the higher score": {at: 11, want: 97},
		"a rising line truncates towards the lower score":   {at: 41, want: 1},
		"constant after the last point":                     {at: 100, want: 70},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shape.At(c.at); got != c.want {
				t.Errorf("score %d at %d%%, want %d", got, c.at, c.want)
			}
		})
	}
}

func TestValidateShape(t *testing.T) {
	for name, c := range map[string]struct {
		points []configv1.UtilizationShapePoint
		fields []string
	}{
		"two increasing points are valid": {points: []configv1.UtilizationShapePoint{{}, {Utilization: 100, Score: 10}}},
		"at least one point is required":  {fields: []string{"shape"}},
		"utilizations must increase": {
			points: []configv1.UtilizationShapePoint{{Utilization: 5}, {Utilization: 5}},
			fields: []string{"shape[1].utilization"},
		},
		"values have bounds": {
			points: []configv1.UtilizationShapePoint{{Utilization: -1, Score: -1}, {Utilization: 101, Score: 11}},
			fields: []string{"shape[0].utilization", "shape[0].score", "shape[1].utilization", "shape[1].score"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, err := range framework.ValidateShape(c.points, field.NewPath("shape")) {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Errorf("fields with errors (-want +got):\n%s", diff)
			}
		})
	}
}
