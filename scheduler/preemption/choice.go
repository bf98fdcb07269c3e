package preemption

import (
	"math"
	"time"

	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/berthdev/berth/scheduler/framework"
)

// criteria score a plan: the plan with the highest score is chosen. Each criterion
// decides only between plans that are equal in all before it.
var criteria = []func(plan *framework.PreemptionPlan, now time.Time) int64{
	// Violated budgets count more than any priority.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 { return -int64(plan.Violations) },
	// The priority of the most important victim, which is the first one.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 {
		return -int64(corev1.PodPriority(plan.Victims[0]))
	},
	// The priorities of all victims.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 { return -prioritySum(plan) },
	// The number of victims: the sum above reflects it only where priorities
	// differ.
	func(plan *framework.PreemptionPlan, _ time.Time) int64 { return -int64(len(plan.Victims)) },
	// The start of the most important victims, of which the earliest counts: the
	// later it is, the less work is lost.
	func(plan *framework.PreemptionPlan, now time.Time) int64 { return earliestStart(plan, now).UnixNano() },
}

// pickPlan returns the plan with the best scores, the first of equals. plans must not
// be empty. A pod that has not started counts as started now.
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

// prioritySum returns the sum of the victims' priorities, each shifted above zero:
// otherwise more victims of negative priority would be better than fewer.
func prioritySum(plan *framework.PreemptionPlan) int64 {
	sum := int64(0)
	for _, pod := range plan.Victims {
		sum += int64(corev1.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return sum
}

// earliestStart returns the earliest start of the victims with the highest priority. That need not
// be the priority of the first: the pods of a PodGroup are in the order of its priority.
func earliestStart(plan *framework.PreemptionPlan, now time.Time) time.Time {
	first, highest := startTime(plan.Victims[0], now), corev1.PodPriority(plan.Victims[0])
	for _, pod := range plan.Victims[1:] {
		start, priority := startTime(pod, now), corev1.PodPriority(pod)
		if priority > highest || priority == highest && start.Before(first) {
			first, highest = start, priority
		}
	}
	return first
}
