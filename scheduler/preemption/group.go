package preemption

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// maxGroupFilters bounds the calls of Filter in one search for the victims of a group, which
// has one for each victim and pod of the group where plugins read more than one node.
const maxGroupFilters = 500_000

// errTooManyFilters ends such a search.
var errTooManyFilters = fmt.Errorf("the search for victims ended after %d calls of Filter: too many pods of lower priority for a group of this size", maxGroupFilters)

// PlanGroup returns the victims whose eviction lets the request's group fit, with the nodes
// of its pods then; see framework.Preemptor. The whole cluster is searched: all pods of lower
// priority are removed from the snapshot, the group is decided once, and as many victims as
// possible are added back, the most important first.
//
// The slices of the state of the group's attempt, where it has some, are those of the search. If
// what happens between them takes what the group was decided for, the search begins again, and is
// not interrupted any more.
//
// Source: PodGroupEvaluator of k8s.io/kubernetes/pkg/scheduler/framework/preemption.
func (p *Planner) PlanGroup(ctx context.Context, r framework.GroupPreemptionRequest) (*framework.GroupPreemptionPlan, *fwk.Status) {
	plan, status := p.planGroup(ctx, r, slicesOf(r))
	if errors.Is(status.AsError(), errTaken) {
		return p.planGroup(ctx, r, nil)
	}
	return plan, status
}

// planGroup is one search.
func (p *Planner) planGroup(ctx context.Context, r framework.GroupPreemptionRequest, slices *searchSlices) (plan *framework.GroupPreemptionPlan, status *fwk.Status) {
	snapshot := r.Handle.MutableSnapshotSharedLister()
	if err := snapshot.StartMutations(); err != nil {
		return nil, fwk.AsStatus(err)
	}
	defer func() {
		if err := snapshot.EndMutations(); err != nil {
			plan, status = nil, fwk.AsStatus(err)
		}
	}()
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	for _, pod := range r.Group.GetUnscheduledPods() {
		if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
			return nil, fwk.NewStatus(fwk.Unschedulable, "not eligible due to preemptionPolicy=Never.")
		}
	}
	g := &groupDryRun{planner: p, request: r, slices: slices, snapshot: snapshot, below: podgroups.PriorityOf(r.Group.GetPodGroup())}
	if current, terminating := g.ongoing(); len(terminating) > 0 {
		return &framework.GroupPreemptionPlan{Nominations: current, Terminating: terminating}, nil
	}
	return g.plan(ctx, nodes)
}

// groupDryRun is one search for the victims of a group, in a session of mutations.
type groupDryRun struct {
	planner  *Planner
	request  framework.GroupPreemptionRequest
	slices   *searchSlices
	snapshot fwk.MutableSnapshotSharedLister
	below    int32
	// assigned are the pods of the group with their nodes, and on has their indexes by node.
	assigned []fwk.ProposedAssignment
	on       map[string][]int
	// nodeLocal says that no Filter plugin of these pods reads more than its node.
	nodeLocal bool
	// filters is the number of calls of Filter.
	filters int
}

// ongoing returns the victims of an earlier plan that still terminate on nodes that pods of the
// group are nominated for, and the nominations.
func (g *groupDryRun) ongoing() (map[types.NamespacedName]*fwk.NominatingInfo, []*v1.Pod) {
	nominations, seen := map[types.NamespacedName]*fwk.NominatingInfo{}, sets.New[string]()
	var terminating []*v1.Pod
	for _, pod := range g.request.Group.GetUnscheduledPods() {
		name := g.planner.options.NominatedNode(pod.UID)
		if name == "" {
			name = pod.Status.NominatedNodeName
		}
		nominations[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = nominationOf(name)
		if name == "" || seen.Has(name) {
			continue
		}
		seen.Insert(name)
		if node, err := g.snapshot.NodeInfos().Get(name); err == nil {
			terminating = append(terminating, g.planner.terminatingVictims(node, g.below)...)
		}
	}
	return nominations, terminating
}

func nominationOf(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

// plan makes the plan.
func (g *groupDryRun) plan(ctx context.Context, nodes []fwk.NodeInfo) (*framework.GroupPreemptionPlan, *fwk.Status) {
	options := g.planner.options
	all, err := options.Budgets()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("failed to get pod disruption budgets: %w", err))
	}
	search := victimSearch{groups: options.Groups, nodes: g.snapshot.NodeInfos(), below: g.below, now: options.Clock.Now()}
	var evictable []*victim
	for _, node := range nodes {
		evictable = append(evictable, search.on(node)...)
	}
	if len(evictable) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming preemptor")
	}
	for _, v := range evictable {
		if err := g.remove(ctx, v, nil); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	assignments, status := g.schedule(ctx)
	if !status.IsSuccess() {
		return nil, status
	}
	if err := g.setAssigned(ctx, assignments.ProposedAssignments); err != nil {
		return nil, fwk.AsStatus(err)
	}
	left, _, err := reprieve(ctx, evictable, g.planner.dryRuns.budgetsOf(all), g.putBack)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	sortByImportance(left)
	return g.planWith(left), nil
}

// planWith returns the plan with the given victims.
func (g *groupDryRun) planWith(victims []*victim) *framework.GroupPreemptionPlan {
	plan := &framework.GroupPreemptionPlan{Nominations: map[types.NamespacedName]*fwk.NominatingInfo{}, PreemptionPlan: &framework.PreemptionPlan{
		Preemptor: g.request.Group.GetUnscheduledPods()[0], Group: g.request.Group, Node: framework.ClusterDomain, Candidates: 1,
		Victims: podsOf(victims), Violations: violationsOf(victims), GroupDisruptions: groupsOf(victims),
	}}
	for _, a := range g.assigned {
		pod := a.GetPod()
		plan.Nominations[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = nominationOf(a.GetNodeName())
	}
	return plan
}

// setAssigned sets the pods of the group that got a node while the victims were away.
func (g *groupDryRun) setAssigned(ctx context.Context, all []fwk.ProposedAssignment) (err error) {
	g.on = map[string][]int{}
	reader, ok := g.request.Handle.(interface{ FilterReadsOtherPods(fwk.CycleState) bool })
	nodeLocal := ok
	for _, a := range all {
		if a.GetNodeName() == "" {
			continue
		}
		g.on[a.GetNodeName()] = append(g.on[a.GetNodeName()], len(g.assigned))
		g.assigned = append(g.assigned, a)
		nodeLocal = nodeLocal && !reader.FilterReadsOtherPods(a.GetCycleState())
	}
	// Pods of the group that are nominated for a node and counted there as well may fail
	// without any victim. Then all pods are tried with each victim, as kube-scheduler does.
	if nodeLocal {
		g.nodeLocal, err = g.fits(ctx, g.assigned)
	}
	return err
}

// putBack adds a victim back if the group still fits then.
func (g *groupDryRun) putBack(ctx context.Context, v *victim) (fits bool, err error) {
	if err := g.takeOthers(ctx); err != nil {
		return false, err
	}
	if !g.slices.refresh(v) {
		return true, nil
	}
	// The pods whose Filter may answer differently now.
	affected := g.assigned
	if g.nodeLocal {
		affected = g.assignedOnNodesOf(v)
	}
	if err := g.add(ctx, v, affected); err != nil {
		return false, err
	}
	fits, err = g.fits(ctx, affected)
	if err != nil || fits {
		return fits, err
	}
	return false, g.remove(ctx, v, affected)
}

// assignedOnNodesOf returns the pods of the group on nodes of a victim, node by node.
func (g *groupDryRun) assignedOnNodesOf(v *victim) (assigned []fwk.ProposedAssignment) {
	seen := map[string]bool{}
	for info := range v.pods() {
		name := nodeNameOf(info)
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, at := range g.on[name] {
			assigned = append(assigned, g.assigned[at])
		}
	}
	return assigned
}

// fits reports whether each of the given pods of the group passes Filter on its node, with
// those before it on theirs and what their Reserve plugins claim. All of that is undone.
func (g *groupDryRun) fits(ctx context.Context, assigned []fwk.ProposedAssignment) (fits bool, err error) {
	handle := g.request.Handle
	counted := 0
	defer func() {
		for i := counted - 1; i >= 0; i-- {
			a := assigned[i]
			if !g.nodeLocal {
				handle.RunReservePluginsUnreserve(ctx, a.GetCycleState(), a.GetPod(), a.GetNodeName())
			}
			err = errors.Join(err, g.snapshot.RemovePod(klog.FromContext(ctx), a.GetPod(), a.GetNodeName()))
		}
	}()
	for _, a := range assigned {
		if g.filters++; g.filters > maxGroupFilters {
			return false, errTooManyFilters
		}
		node, err := g.snapshot.NodeInfos().Get(a.GetNodeName())
		if err != nil {
			return false, err
		}
		if !handle.RunFilterPluginsWithNominatedPods(ctx, a.GetCycleState(), a.GetPod(), node).IsSuccess() {
			return false, nil
		}
		if err := g.snapshot.AddPod(a.GetPodInfo(), a.GetNodeName()); err != nil {
			return false, err
		}
		counted++ // before Reserve: a plugin may end the goroutine in it
		if !g.nodeLocal {
			handle.RunReservePluginsReserve(ctx, a.GetCycleState(), a.GetPod(), a.GetNodeName())
		}
	}
	return true, nil
}

// remove takes the pods of a victim off their nodes, and out of the states of these pods of
// the group.
func (g *groupDryRun) remove(ctx context.Context, v *victim, assigned []fwk.ProposedAssignment) error {
	for info := range v.pods() {
		name := nodeNameOf(info)
		if err := g.snapshot.RemovePod(klog.FromContext(ctx), info.GetPod(), name); err != nil {
			return err
		}
		if err := g.updateStates(ctx, info, name, assigned, g.request.Handle.RunPreFilterExtensionRemovePod); err != nil {
			return err
		}
	}
	return nil
}

// add undoes remove.
func (g *groupDryRun) add(ctx context.Context, v *victim, assigned []fwk.ProposedAssignment) error {
	for info := range v.pods() {
		name := nodeNameOf(info)
		if err := g.snapshot.AddPod(info, name); err != nil {
			return err
		}
		if err := g.updateStates(ctx, info, name, assigned, g.request.Handle.RunPreFilterExtensionAddPod); err != nil {
			return err
		}
	}
	return nil
}

// updateStates calls a PreFilter extension for each of these pods of the group.
func (g *groupDryRun) updateStates(ctx context.Context, info fwk.PodInfo, name string, assigned []fwk.ProposedAssignment,
	update func(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status) error {
	if len(assigned) == 0 {
		return nil
	}
	node, err := g.snapshot.NodeInfos().Get(name)
	if err != nil {
		return err
	}
	for _, a := range assigned {
		if err := update(ctx, a.GetCycleState(), a.GetPod(), info, node).AsError(); err != nil {
			return err
		}
	}
	return nil
}
