package preemption

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// maxClasses is the number of classes whose dry runs are kept; that of a node takes about 200
// bytes.
const maxClasses = 8

// dryRuns keeps what dry runs found. Most attempts to preempt differ from the one before in a
// node or two: that of the last nomination, and that of the last victims. A dry run depends on
// the node and its pods, the pods that are nominated for it, the class of the preemptor, its
// priority, and the budgets. The reference implementation is candidateSearch.dryRun.
type dryRuns struct {
	// classes are those of the preemptors, the one that was used last first.
	classes []*classDryRuns
	// budgets are made of listed.
	budgets *budgets
	listed  map[*policyv1.PodDisruptionBudget]bool
}

// classDryRuns are the dry runs for the pods of one class and priority, under the current budgets.
type classDryRuns struct {
	class    uint64
	priority int32
	byNode   map[string]dryRunResult
}

// dryRunResult is the plan for a node, without its Preemptor, or the status that says why there is
// none.
type dryRunResult struct {
	// generation is that of the node, nominations the version of the pods that are nominated
	// for it.
	generation  int64
	nominations uint64
	// notBefore is zero unless a pod of the node has not started: such a pod counts as started
	// now, which is after all others from this time on.
	notBefore time.Time
	plan      *framework.PreemptionPlan
	status    *fwk.Status
}

// budgetsOf returns the budgets of a cluster, the same as before while none has changed. A change
// ends all dry runs.
func (d *dryRuns) budgetsOf(all []*policyv1.PodDisruptionBudget) *budgets {
	same := d.budgets != nil && len(all) == len(d.listed)
	for i := 0; same && i < len(all); i++ {
		same = d.listed[all[i]]
	}
	if !same {
		d.classes = nil
		d.budgets, d.listed = newBudgets(all), make(map[*policyv1.PodDisruptionBudget]bool, len(all))
		for _, pdb := range all {
			d.listed[pdb] = true
		}
	}
	return d.budgets
}

// of returns the dry runs for the pods of a class and priority; nil where the class is 0, for
// none. nodes is the number of nodes.
func (d *dryRuns) of(class uint64, priority int32, nodes int) *classDryRuns {
	if class == 0 {
		return nil
	}
	at := slices.IndexFunc(d.classes, func(c *classDryRuns) bool { return c.class == class })
	if at < 0 {
		at = min(len(d.classes), maxClasses-1)
		d.classes = append(d.classes[:at], &classDryRuns{class: class})
	}
	found := d.classes[at]
	copy(d.classes[1:at+1], d.classes[:at])
	d.classes[0] = found
	// Nodes that were removed stay until there are as many as others.
	if found.byNode == nil || found.priority != priority || len(found.byNode) > 2*nodes {
		found.priority, found.byNode = priority, map[string]dryRunResult{}
	}
	return found
}

// isValidFor reports whether r is what a dry run would find now on a node with this generation and
// version of nominations.
func (r *dryRunResult) isValidFor(generation int64, nominations uint64, now time.Time) bool {
	return r.generation == generation && r.nominations == nominations && !now.Before(r.notBefore)
}

// validFrom returns from when on the order in which the pods of a node started stays as it is at
// now. ok is false where it may change, and where a pod belongs to a group, whose priority and pods
// elsewhere may change.
func validFrom(node fwk.NodeInfo, now time.Time) (notBefore time.Time, ok bool) {
	inFuture := false
	for _, info := range node.GetPods() {
		pod := framework.OriginalPod(info)
		switch start := pod.Status.StartTime; {
		case pod.Spec.SchedulingGroup != nil:
			return time.Time{}, false
		case start == nil:
			notBefore = now
		case start.After(now):
			inFuture = true
		}
	}
	return notBefore, !inFuture || notBefore.IsZero()
}

// planFor returns the plan of r for a pod.
func (r *dryRunResult) planFor(pod *v1.Pod) *framework.PreemptionPlan {
	if r.plan == nil {
		return nil
	}
	plan := *r.plan
	plan.Preemptor = pod
	return &plan
}
