package sandbox

import (
	"context"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// GroupOutcome is the result of an attempt to schedule a group of pods.
type GroupOutcome struct {
	// Err is nil where enough pods fit, and a *cycle.GroupUnschedulableError where they do
	// not.
	Err error
	// Members are what was decided about the pods, in their order. Where Err is set, no pod
	// goes to the node of its placement.
	Members []*cycle.GroupMember
	// Waiting says that the group fits after a preemption: after that of Plan, or after an
	// earlier one where Plan is nil.
	Waiting bool
	Plan    *framework.PreemptionPlan
}

// AttemptGroup is TryGroup for pods that name the PodGroup in spec.schedulingGroup.
func (s *Scheduler) AttemptGroup(ctx context.Context, podGroup *schedulingv1beta1.PodGroup, pods []*v1.Pod) GroupOutcome {
	s.SetPodGroup(podgroups.Native, podGroup)
	s.AddToGroup(pods)
	return s.TryGroup(ctx, podgroups.Key{Source: podgroups.Native, Namespace: podGroup.Namespace, Name: podGroup.Name}, pods, nil)
}

// GroupOf returns the group that a pod names; ok is false where it names none, and for a
// profile that schedules no groups.
func (s *Scheduler) GroupOf(pod *v1.Pod) (key podgroups.Key, ok bool) {
	if !s.framework.SchedulesGroups() {
		return key, false
	}
	return podgroups.KeyOf(pod)
}

// SetPodGroup adds a PodGroup, as podgroups.Store does.
func (s *Scheduler) SetPodGroup(source podgroups.Source, podGroup *schedulingv1beta1.PodGroup) {
	s.cluster.cache.Groups().SetPodGroup(source, podGroup)
}

// AddToGroup adds pending pods to the groups that they name.
func (s *Scheduler) AddToGroup(pods []*v1.Pod) {
	for _, pod := range pods {
		s.cluster.cache.Groups().SetPod(pod)
	}
}

// Group returns what is known of a group.
func (s *Scheduler) Group(key podgroups.Key) *podgroups.Group {
	return s.cluster.cache.Groups().Group(key)
}

// TryGroup runs the cycle of a group, which must have a PodGroup, for pending pods of it, in
// that order, up to the selected nodes, and where too few fit and Options.Preempt is set, the
// PodGroupPostFilter plugins. It changes nothing but nominations. decided may be nil; it is
// called as cycle.GroupRequest.Decided is.
func (s *Scheduler) TryGroup(ctx context.Context, key podgroups.Key, pods []*v1.Pod, decided func(*cycle.GroupMember)) GroupOutcome {
	var o GroupOutcome
	for _, pod := range pods {
		o.Members = append(o.Members, &cycle.GroupMember{Pod: pod, State: framework.NewCycleState()})
	}
	request := cycle.GroupRequest{
		Request: cycle.Request{
			Framework: s.framework, PercentageOfNodesToScore: s.percentageOfNodesToScore,
			Snapshot: s.cluster.cache.UpdateSnapshot(), EquivalenceCache: s.equivalenceCache,
		},
		Group:       s.Group(key),
		Members:     o.Members,
		Nominations: s.cluster.cache,
		GroupState:  &framework.GroupCycleState{},
		Decided:     decided,
	}
	o.Err = s.cycle.RunGroup(ctx, request)
	if o.Err != nil && s.options.Preempt {
		s.preemptor.plan = nil
		o.Waiting, o.Err = s.cycle.RunGroupPostFilter(ctx, request, o.Err)
		o.Plan = s.preemptor.plan
		s.nominate(o)
	}
	return o
}

// nominate keeps the nominations of a group that does not fit.
func (s *Scheduler) nominate(o GroupOutcome) {
	for _, m := range o.Members {
		info := m.Info
		if info == nil {
			info, _ = framework.NewPodInfo(m.Pod)
		}
		s.cluster.cache.AddNominatedPod(klog.Background(), info, m.NominationAfter(o.Err, o.Waiting))
	}
}

// AssumeMember adds a pod of the last AttemptGroup to its node, and ends its nomination.
func (s *Scheduler) AssumeMember(m *cycle.GroupMember) error {
	if err := s.cluster.cache.AssumePod(m.Info, m.Placement.Node); err != nil {
		return err
	}
	s.cluster.cache.DeleteNominatedPodIfExists(m.Pod)
	return nil
}
