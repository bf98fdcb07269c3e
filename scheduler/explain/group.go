package explain

import (
	"fmt"

	"github.com/berthdev/berth/api/v1alpha1"
)

// explainedByAnother reports whether the explanation of another pod of the group says why the
// pod waits.
func (a Attempt) explainedByAnother() bool { return pointsToAnother(a.Group) }

// pointsToAnother reports whether the group of a decision names the pod that explains it, and
// has no counts of its own.
func pointsToAnother(group *v1alpha1.DecisionGroup) bool {
	return group != nil && group.ExplainedBy != "" && group.Pods == 0
}

// messageOfMember is the message of a pod that another of its group explains. It has nothing
// that differs between attempts: a gang of a thousand pods is not written again after each.
func messageOfMember(group *v1alpha1.DecisionGroup) string {
	return fmt.Sprintf("the pod is scheduled with the group %s; the SchedulingDecision of pod %s says why the group waits", group.Name, group.ExplainedBy)
}
