package framework

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// NormalizeScores stretches scores, none of them negative, so that the largest
// becomes fwk.MaxScore; integers are truncated after the multiplication. When
// all are zero they stay so. With reverse a small score becomes a large one,
// and all zero becomes all fwk.MaxScore. The formula is that of
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

// NormalizeAll is NormalizeScores of scores without the names of their nodes.
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

// What a point of a Shape may say, in percent and in the users' score.
const (
	maxShapeUtilization = 100
	maxShapeScore       = 10
)

// Shape is a function from utilisation (percent) to score: straight lines
// between its points, level before the first and after the last.
type Shape []ShapePoint

// ShapePoint is a corner of a Shape.
type ShapePoint struct {
	// Utilization is in percent.
	Utilization int64
	// Score is between fwk.MinScore and fwk.MaxScore.
	Score int64
}

// NewShape takes points that ValidateShape found no fault with. Users score
// from 0 to 10; the scheduler from 0 to fwk.MaxScore.
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

// At returns the score at a utilisation in percent. Divisions truncate as in
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

// ValidateShape says what is wrong with points: none at all, utilisations out
// of order, or a value out of range.
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
