package preemption

import (
	"math"
	"time"

	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/berthdev/berth/scheduler/framework"
)

// criteria say which of two plans is the lesser loss: the higher number. Each
// is asked only about those that all before it found equal.
var criteria = []func(plan *framework.PreemptionPlan, now time.Time) int64{
	// A budget is a promise to somebody: it outranks every priority.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 { return -int64(plan.Violations) },
	// The most important victim, who stands first.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 {
		return -int64(corev1.PodPriority(plan.Victims[0]))
	},
	// All victims together.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 { return -prioritySum(plan) },
	// Fewer victims; the sum hides their number only where priorities differ.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 { return -int64(len(plan.Victims)) },
	// The least work lost: among the most important victims the oldest counts.
	func(plan *framework.PreemptionPlan, now time.Time) int64 { return earliestStart(plan, now).UnixNano() },
}

// best returns the plan that is the least loss, the first of equals. plans is
// not empty; now counts as the start of pods that have not started.
func pickPlan(plans []*framework.PreemptionPlan, now time.Time) *framework.PreemptionPlan {
	for _, score := range criteria {
		if len(plans) == 1 {
			break
		}
		var top []*framework.PreemptionPlan
		highest := int64(math.MinInt64)
		for _, plan := range plans {
			switch s := score(plan, now); {
			case s > highest:
				highest, top = s, []*framework.PreemptionPlan{plan}
			case s == highest:
				top = append(top, plan)
			}
		}
		plans = top
	}
	return plans[0]
}

// prioritySum adds the victims' priorities, each lifted above zero, so that
// more victims of negative priority are not the lesser loss.
func prioritySum(plan *framework.PreemptionPlan) int64 {
	sum := int64(0)
	for _, pod := range plan.Victims {
		sum += int64(corev1.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return sum
}

// firstStart is when the first of the most important victims started.
func earliestStart(plan *framework.PreemptionPlan, now time.Time) time.Time {
	first := startTime(plan.Victims[0], now)
	for _, pod := range plan.Victims[1:] {
		if corev1.PodPriority(pod) != corev1.PodPriority(plan.Victims[0]) {
			break
		}
		if start := startTime(pod, now); start.Before(first) {
			first = start
		}
	}
	return first
}
