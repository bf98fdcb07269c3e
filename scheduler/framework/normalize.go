package framework

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// DefaultNormalizeScore scales scores, which must not be negative, so that the
// largest becomes fwk.MaxScore; integer division truncates. If all are zero
// they stay zero. With reverse, each score becomes fwk.MaxScore minus the
// scaled score. The formula is that of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper.
func DefaultNormalizeScore(scores fwk.NodeScoreList, reverse bool) {
	var largest int64
	for i := range scores {
		largest = max(largest, scores[i].Score)
	}
	for i := range scores {
		score := scores[i].Score
		if largest > 0 {
			score = fwk.MaxScore * score / largest
		}
		if reverse {
			score = fwk.MaxScore - score
		}
		scores[i].Score = score
	}
}

// DefaultNormalizeRawScores is DefaultNormalizeScore for scores without node
// names.
func DefaultNormalizeRawScores(scores []int64, reverse bool) {
	var largest int64
	for _, score := range scores {
		largest = max(largest, score)
	}
	if largest == 0 {
		if reverse {
			for i := range scores {
				scores[i] = fwk.MaxScore
			}
		}
		return
	}
	for i, score := range scores {
		score = fwk.MaxScore * score / largest
		if reverse {
			score = fwk.MaxScore - score
		}
		scores[i] = score
	}
}

// Upper bounds of a point of a Shape in the API: percent and score.
const (
	maxShapeUtilization = 100
	maxShapeScore       = 10
)

// Shape is a piecewise linear function from utilization (percent) to score. It
// is constant before the first point and after the last.
type Shape []ShapePoint

// ShapePoint is one point of a Shape.
type ShapePoint struct {
	Utilization int64
	Score       int64
}

// NewShape converts valid points. Scores are 0 to 10 in the API and 0 to
// fwk.MaxScore in the scheduler.
func NewShape(points []configv1.UtilizationShapePoint) Shape {
	shape := make(Shape, len(points))
	for i, point := range points {
		shape[i] = ShapePoint{
			Utilization: int64(point.Utilization),
			Score:       int64(point.Score) * (fwk.MaxScore / maxShapeScore),
		}
	}
	return shape
}

// At returns the score at a utilization in percent. Divisions truncate as in
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper.
func (s Shape) At(utilization int64) int64 {
	for i, point := range s {
		if utilization > point.Utilization {
			continue
		}
		if i == 0 {
			return point.Score
		}
		from := s[i-1]
		return from.Score + (point.Score-from.Score)*(utilization-from.Utilization)/(point.Utilization-from.Utilization)
	}
	return s[len(s)-1].Score
}

// ValidateShape returns errors for an empty list, for utilizations that do not
// increase, and for values out of range.
func ValidateShape(points []configv1.UtilizationShapePoint, path *field.Path) field.ErrorList {
	if len(points) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i := 1; i < len(points); i++ {
		if points[i-1].Utilization >= points[i].Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), points[i].Utilization,
				fmt.Sprintf("must be larger than that of the point before, %d", points[i-1].Utilization)))
			break
		}
	}
	check := func(path *field.Path, value, largest int32) {
		if value < 0 || value > largest {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("must be between 0 and %d", largest)))
		}
	}
	for i, point := range points {
		check(path.Index(i).Child("utilization"), point.Utilization, maxShapeUtilization)
		check(path.Index(i).Child("score"), point.Score, maxShapeScore)
	}
	return errs
}
