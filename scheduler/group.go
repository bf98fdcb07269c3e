package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
)

// groupCycle is one attempt to schedule a group of pods.
type groupCycle struct {
	attempt    *queue.Attempt
	generation *profile.Generation
	group      *podgroups.Group
	start      time.Time
	// cycles and members are those of the pods, in the order in which they are decided.
	cycles  []*schedulingCycle
	members []*cycle.GroupMember
	request cycle.GroupRequest
	// explained is the first pod of the group that fits nowhere: no other one is explained.
	explained *schedulingCycle
	// waiting says that a PodGroupPostFilter plugin makes room for the group.
	waiting bool
	slices  *groupSlices
}

// scheduleGroup takes one group through steps 2 to 6. All its pods are decided before the
// first of them is assumed; then each of those that go to a node has a binding cycle of its
// own, as single pods have. No other pod is tried in between once loop has ended.
//
// Source: scheduleOnePodGroup of k8s.io/kubernetes/pkg/scheduler.
func (s *Scheduler) scheduleGroup(loop context.Context, attempt *queue.Attempt) {
	first, ctx := attempt.Group.Members[0].Pod, s.inFlight.ctx
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "podGroup", attempt.Group.Key.String(), "profile", first.Spec.SchedulerName))
	heartbeat := s.progress.begin(first, s.options.Clock.Now())
	defer s.progress.end()

	// 2. The profile's generation: all pods of the group are decided, and bound, by one.
	generation, ok := s.acquireGeneration(first.Spec.SchedulerName, attempt.AdmittedBy)
	if !ok {
		attempt.Return(ctx)
		return
	}
	defer generation.Release()

	// 3. The snapshot changes here, and by the pods of the group that are decided.
	snapshot := s.cache.UpdateSnapshot()
	g := &groupCycle{attempt: attempt, generation: generation, group: s.cache.Groups().BeginAttempt(attempt.Group.Key), start: heartbeat.start}
	g.slices = s.newGroupSlices(loop, heartbeat)
	invalid := validateGroup(g.group, attempt.Group.Members)
	s.addMembers(ctx, g, heartbeat)
	if len(g.members) == 0 {
		attempt.FinishGroup(ctx, queue.GroupScheduled)
		return
	}

	// 4. A node for each pod.
	err := invalid
	if err == nil {
		s.prepareGroupRequest(g, snapshot)
		err = s.decideGroup(ctx, g)
		groupAlgorithmDuration.Observe(g.slices.took(g.start).Seconds())
	}
	s.queue.RecordLoopTime(first.Spec.SchedulerName, g.slices.took(g.start), len(g.members))

	// 5 and 6. The pods are assumed, or their failures recorded.
	s.submitGroup(ctx, g, err)
}

// addMembers makes a scheduling cycle for each pod of the group that is still to be
// scheduled, and ends the attempts of the others.
func (s *Scheduler) addMembers(ctx context.Context, g *groupCycle, h *heartbeat) {
	for _, attempt := range g.attempt.Group.Members {
		g.generation.Retain()
		t := newSchedulingCycle(attempt, g.generation, h)
		if s.skipPodSchedule(t) {
			attempt.Done()
			g.generation.Release()
			continue
		}
		g.cycles = append(g.cycles, t)
		g.members = append(g.members, &cycle.GroupMember{Pod: t.Pod, State: t.state})
	}
}

// prepareGroupRequest sets the request of the group's cycle.
func (s *Scheduler) prepareGroupRequest(g *groupCycle, snapshot *cache.Snapshot) {
	byMember := map[*cycle.GroupMember]*schedulingCycle{}
	for i, m := range g.members {
		byMember[m] = g.cycles[i]
	}
	blueprint, seen := g.generation.Blueprint(), snapshot.ResourceVersions()
	g.request = cycle.GroupRequest{
		Request: cycle.Request{
			Framework: g.generation.Framework, PercentageOfNodesToScore: blueprint.PercentageOfNodesToScore,
			Snapshot: snapshot,
		},
		CurrentCache: g.generation.EquivalenceCache,
		Group:        g.group, Members: g.members, Nominations: s.cache, GroupState: &framework.GroupCycleState{},
	}
	g.request.GroupState.SetSlices(g.slices)
	g.request.Before = func(m *cycle.GroupMember) {
		t := byMember[m]
		t.start, t.nodeCount = s.options.Clock.Now(), snapshot.Len()
		s.numberAttempt(t)
		t.walk.Start, t.walk.Order, t.walk.Nodes, t.walk.Pods = s.cycle.NextStartNodeIndex(), snapshot.NodeOrderChecksum(), seen.Nodes, seen.Pods
	}
	g.request.Deleted = func(m *cycle.GroupMember) bool {
		// The queue may have a pod that the informer's store has no more: one that was listed
		// when its profile came.
		_, queued := byMember[m].Current()
		return !queued || !s.pendingPods.Exists(m.Pod)
	}
	g.request.Decided = func(m *cycle.GroupMember) {
		t := byMember[m]
		algorithmDuration.Observe(s.options.Clock.Since(t.start).Seconds())
		t.podInfo, t.placement = m.Info, m.Placement
		switch {
		case m.Placement == nil:
			s.explainMember(g, t, m)
		case blueprint.Decisions.Nodes:
			t.topNodes = m.Placement.Top(blueprint.Decisions.TopScores)
		}
	}
}

// decideGroup is step 4. It sets the nodes of the members, or why they have none, and returns why
// the group does not fit.
func (s *Scheduler) decideGroup(ctx context.Context, g *groupCycle) (err error) {
	goexit := s.isolate(g.generation, g.request.GroupState, func() {
		if err = s.cycle.RunGroup(ctx, g.request); err != nil {
			g.waiting, err = s.cycle.RunGroupPostFilter(ctx, g.request, err)
		}
	})
	if goexit == nil {
		return err
	}
	// The pod at which the plugin ended the goroutine: the one that was tried without a result. A
	// plugin that did it in the search for victims has none.
	for _, m := range g.members {
		if m.Tried() && m.Placement == nil && m.Err == nil {
			g.generation.Framework.ReportGoexit(m.Pod, goexit)
			m.Err = goexit
			return fmt.Errorf("failed to schedule other pod from a pod group: %w", goexit)
		}
	}
	g.generation.Framework.ReportGoexit(g.members[0].Pod, goexit)
	return goexit
}

// submitGroup begins the binding cycles of the pods of a group that fits, records the
// failures of the others, and ends the attempt of the group. err is that of the group.
func (s *Scheduler) submitGroup(ctx context.Context, g *groupCycle, err error) {
	var failed []error
	s.explainGroup(g, err)
	for i, t := range g.cycles {
		g.slices.nextStep()
		if err != nil && !g.waiting && g.slices.Over() { // nominated pods count first
			g.slices.TakeOthers(nil, false)
		}
		memberErr := s.submitMember(withPodLogger(ctx, t.Pod), g, i, err)
		if memberErr != nil {
			failed = append(failed, memberErr)
		}
	}
	g.slices.release(ctx)
	result, label := queue.GroupScheduled, "scheduled"
	switch {
	case err == nil && len(failed) == len(g.cycles):
		// The pods fit, and Reserve or Permit refused all that were to go on. At once they
		// would be refused again, without end.
		result, label = queue.GroupUnschedulable, "unschedulable"
		if slices.ContainsFunc(failed, func(err error) bool { return !cycle.IsUnschedulable(err) }) {
			result, label = queue.GroupFailed, "error"
		}
	case err == nil:
		klog.FromContext(ctx).V(1).Info("Scheduled the group", "pods", len(g.cycles)-len(failed), "notScheduled", len(failed))
	case g.waiting:
		result, label = queue.GroupUnschedulable, "waiting_on_preemption"
	case cycle.IsUnschedulable(err):
		result, label = queue.GroupUnschedulable, "unschedulable"
	default:
		result, label = queue.GroupFailed, "error"
		klog.FromContext(ctx).Error(err, "The group's attempt failed; it is tried again")
	}
	name := g.generation.Blueprint().Name
	groupAttempts.WithLabelValues(label, name).Inc()
	groupAttemptDuration.WithLabelValues(label, name).Observe(s.options.Clock.Since(g.start).Seconds())
	s.groupStatus.set(g.group, groupCondition(err))
	g.attempt.FinishGroup(ctx, result)
}

// submitMember is steps 5 and 6 for one pod of a group whose attempt ended with groupErr. It
// returns why the pod does not go to a node.
func (s *Scheduler) submitMember(ctx context.Context, g *groupCycle, i int, groupErr error) error {
	t, m := g.cycles[i], g.members[i]
	err, failed := m.Err, groupErr != nil && !cycle.IsUnschedulable(groupErr)
	if groupErr != nil {
		t.placement = nil // the pod may fit, its group does not
	}
	switch {
	case failed && (err == nil || cycle.IsUnschedulable(err)):
		err = groupErr
	case groupErr != nil && err == nil:
		err = groupErr
	case err == nil:
		t.state.SetGroup(nil)
		t.SetNodeChosen()
		if goexit := s.isolate(t.generation, t.state, func() { err = s.beginBinding(ctx, t) }); goexit != nil {
			t.generation.Framework.ReportGoexit(t.Pod, goexit)
			err = goexit
		}
	}
	if err == nil {
		t.SetBindingBegan()
		s.startBindingCycle(ctx, t)
		return nil
	}
	t.nominatingInfo = m.NominationAfter(groupErr, g.waiting)
	s.handleSchedulingFailure(ctx, t, err)
	s.release(t)
	return err
}

// validateGroup returns why the group cannot be scheduled as one: it has no PodGroup, or its
// pods, also those that have a node, name several profiles, priorities or preemption
// policies.
func validateGroup(group *podgroups.Group, members []*queue.Attempt) error {
	switch {
	case group.Err != nil:
		return group.Err
	case group.PodGroup == nil:
		return fmt.Errorf("the PodGroup %s does not exist", group.Key)
	}
	first := members[0].Pod
	priority := podgroups.PriorityOf(group.PodGroup)
	check := func(pod *v1.Pod) error {
		switch {
		case pod.Spec.SchedulerName != first.Spec.SchedulerName:
			return fmt.Errorf("all pods of a group must have the same spec.schedulerName: pod %s has %q, pod %s has %q",
				first.Name, first.Spec.SchedulerName, pod.Name, pod.Spec.SchedulerName)
		case corev1.PodPriority(pod) != priority:
			return fmt.Errorf("all pods of a group must have the group's priority %d: pod %s has %d", priority, pod.Name, corev1.PodPriority(pod))
		case preemptionPolicy(pod) != preemptionPolicy(first):
			return fmt.Errorf("all pods of a group must have the same spec.preemptionPolicy: pod %s has %s, pod %s has %s",
				first.Name, preemptionPolicy(first), pod.Name, preemptionPolicy(pod))
		}
		return nil
	}
	for _, member := range members {
		if err := check(member.Pod); err != nil {
			return err
		}
	}
	for _, pod := range group.Scheduled {
		if err := check(pod); err != nil {
			return err
		}
	}
	return nil
}

func preemptionPolicy(pod *v1.Pod) v1.PreemptionPolicy {
	if pod.Spec.PreemptionPolicy == nil {
		return v1.PreemptLowerPriority
	}
	return *pod.Spec.PreemptionPolicy
}
