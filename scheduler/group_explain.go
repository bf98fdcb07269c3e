package scheduler

import (
	"context"
	"errors"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/scheduler/queue"
)

// decisionGroup returns what the explanations of all pods of a group have. An annotation may
// hold a longer name than an object has.
func decisionGroup(key podgroups.Key) v1alpha1.DecisionGroup {
	return v1alpha1.DecisionGroup{Source: v1alpha1.GroupSource(key.Source), Name: decision.Truncate(key.Name, v1alpha1.MaxName)}
}

// explainMember explains the first pod of a group that fits no node, as it is found with the
// pods before it on their nodes. What is missing for the others is the same or more.
func (s *Scheduler) explainMember(g *groupCycle, t *schedulingCycle, m *cycle.GroupMember) {
	var fitErr *framework.FitError
	if g.explained != nil || !errors.As(m.Err, &fitErr) {
		return
	}
	g.explained = t
	// The counts, which are no reasons to write the explanation again, are not known yet.
	group := decisionGroup(g.group.Key)
	t.group = &group
	s.explainInCycle(context.Background(), t, g.request.MemberRequest(m), m.Err)
}

// explainGroup sets what the explanations of the pods that go to no node say about their group,
// whose attempt ended with err. The first of them counts the pods and names the one that the
// search found no node for, which has the reasons; the others name the first. So the number of
// explanations that change with each attempt does not grow with the group.
func (s *Scheduler) explainGroup(g *groupCycle, err error) {
	if !s.explains(g.generation.Blueprint()) {
		return
	}
	if failed := err != nil && !cycle.IsUnschedulable(err); g.explained != nil && (failed || g.waiting) {
		// What the pod lacked was found before the attempt failed, or the plugins made room.
		g.explained.explanation, g.explained = nil, nil
	}
	var preemption *v1alpha1.PreemptionResult
	if g.waiting {
		preemption = groupPreemptionResult(g.request.GroupState)
	}
	counts := g.counts()
	cause, first := g.explained, (*schedulingCycle)(nil)
	for i, t := range g.cycles {
		memberErr := g.members[i].Err
		if err == nil && memberErr == nil {
			continue // the pod goes to its node
		}
		if cause == nil && memberErr != nil && !cycle.IsUnschedulable(memberErr) {
			cause = t // the attempt ended with its error
		}
		if first == nil {
			first = t
		}
		group := counts
		if t != first && t != cause {
			group = decisionGroup(g.group.Key)
			group.ExplainedBy = first.Pod.Name
		}
		t.group, t.groupPreemption = &group, preemption
	}
	if first != nil && cause != nil && first != cause {
		first.group.ExplainedBy = cause.Pod.Name
	}
}

// counts returns the group with the number of its pods, and of those that fit, as the attempt
// found them.
func (g *groupCycle) counts() v1alpha1.DecisionGroup {
	group := decisionGroup(g.group.Key)
	group.Pods = int32(g.group.All)
	if g.group.PodGroup != nil {
		group.MinCount = int32(g.group.MinCount())
	}
	fit, tried := int32(len(g.group.Scheduled)), false
	for _, m := range g.members {
		switch {
		case m.Placement != nil:
			fit++
		case !m.Tried():
			group.NotTried++
		}
		tried = tried || m.Tried()
	}
	if tried {
		group.Fit = &fit
	}
	return group
}

// gatedGroup returns what the explanation of a gated pod says about the group that it waits
// with, and what that lacks so that it may be tried; nil for a pod on its own. Where another
// pod of the group is gated, that one explains it.
func (s *Scheduler) gatedGroup(c queue.HoldChange) (group *v1alpha1.DecisionGroup, missing string) {
	key, ok := podgroups.KeyOf(c.Pod)
	if !ok || c.GatedMember == nil {
		return nil, ""
	}
	described := decisionGroup(key)
	if c.GatedMember.UID != c.Pod.UID {
		described.ExplainedBy = c.GatedMember.Name
		return &described, ""
	}
	quorum, _ := s.cache.Groups().QuorumOf(c.Pod)
	described.MinCount, described.Pods = int32(quorum.MinCount), int32(quorum.All)
	return &described, quorum.Missing(key)
}
