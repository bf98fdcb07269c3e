package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var groupAttempts = flag.Int("groups", 1000, "number of generated groups of pods")

// groupCoverage is what the groups of the histories were.
type groupCoverage struct {
	groups, pods                      int
	scheduled, partly, refused, basic int
	refusedPods                       int
}

func (c groupCoverage) String() string {
	return fmt.Sprintf("%d groups of %d pods: %d scheduled, %d of them in part, %d refused, %d that are no gangs; %d pods that fit nowhere",
		c.groups, c.pods, c.scheduled, c.partly, c.refused, c.basic, c.refusedPods)
}

// Groups are decided as by kube-scheduler's own ScheduleOne with the feature gate
// GenericWorkload: the node of each pod, and which fits nowhere and why.
func TestGeneratedGroups(t *testing.T) {
	if err := upstream.SetGenericWorkload(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := upstream.SetGenericWorkload(false); err != nil {
			t.Error(err)
		}
	})
	var covered groupCoverage
	for seed := *firstSeed; covered.groups < *groupAttempts && !t.Failed(); seed++ {
		if err := compareGroups(seed, &covered); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	t.Log(covered)
	if least := *groupAttempts / 50; min(covered.scheduled, covered.partly, covered.refused, covered.basic, covered.refusedPods) < least && !t.Failed() {
		t.Errorf("the histories test too little: %v, want each at least %d times", covered, least)
	}
}

// compareGroups runs the history of a seed through both. The error names the first group that
// they decide differently.
func compareGroups(seed uint64, covered *groupCoverage) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	history := generate.NewGroups(seed, 3*perHistory)
	config := history.Config()
	config.Reference, config.Opaque = modeOf(seed)
	berth, berthErr := run.NewBerth(ctx, config)
	theirs, upstreamErr := upstream.NewForGroups(ctx, config)
	if err := errors.Join(berthErr, upstreamErr); err != nil {
		return err
	}
	defer theirs.Close()
	here, there := run.NewCluster(berth), run.NewCluster(theirs)
	for {
		ops, group, ok := history.Next()
		for _, op := range ops {
			_, err := here.Do(op)
			_, upstreamErr := there.Do(op)
			if err := errors.Join(err, upstreamErr); err != nil {
				return err
			}
		}
		if !ok {
			return nil
		}
		ours := berth.AttemptGroup(ctx, group.PodGroup, group.Pods)
		other, err := theirs.AttemptGroup(group.PodGroup, group.Pods)
		if err != nil {
			return err
		}
		nodes, err := compareGroup(group, ours.Err, ours.Members, other)
		if err != nil {
			return fmt.Errorf("group %s of %d pods, minCount %v: %w", group.PodGroup.Name, len(group.Pods), group.PodGroup.Spec.SchedulingPolicy.Gang, err)
		}
		covered.add(group, ours.Err, nodes, ours.Members)
		for _, m := range ours.Members {
			if ours.Err == nil && m.Placement != nil {
				if err := berth.AssumeMember(m); err != nil {
					return err
				}
			}
		}
		history.Observe(group, nodes)
	}
}

// compareGroup compares what both decided about the pods of a group, and returns their nodes.
func compareGroup(group *generate.Group, groupErr error, members []*cycle.GroupMember, other []*run.Outcome) (nodes []string, err error) {
	for i, m := range members {
		node := ""
		if groupErr == nil && m.Placement != nil {
			node = m.Placement.Node
		}
		nodes = append(nodes, node)
		if node != other[i].Node {
			return nil, fmt.Errorf("pod %d of %d, %s: node %q (%v), kube-scheduler's %q (%v)", i, len(members), m.Pod.Name, node, m.Err, other[i].Node, other[i].Err)
		}
		if groupErr != nil && !cycle.IsUnschedulable(groupErr) {
			continue // a plugin failed: all pods have its error
		}
		// The messages of pods that the group alone keeps from their nodes are Berth's own.
		if fitErr := new(framework.FitError); errors.As(m.Err, &fitErr) && m.Err.Error() != other[i].Err.Error() {
			return nil, fmt.Errorf("pod %d of %d, %s: %q, kube-scheduler says %q", i, len(members), m.Pod.Name, m.Err, other[i].Err)
		}
		if m.Placement != nil && groupErr != nil && !strings.Contains(other[i].Err.Error(), "pod group is unschedulable") {
			return nil, fmt.Errorf("pod %d of %d, %s: fits on %s, kube-scheduler says %q", i, len(members), m.Pod.Name, m.Placement.Node, other[i].Err)
		}
	}
	return nodes, nil
}

func (c *groupCoverage) add(group *generate.Group, groupErr error, nodes []string, members []*cycle.GroupMember) {
	c.groups++
	c.pods += len(group.Pods)
	without := 0
	for i, m := range members {
		if nodes[i] == "" {
			without++
		}
		if m.Placement == nil && m.Tried() {
			c.refusedPods++
		}
	}
	switch {
	case groupErr != nil:
		c.refused++
	case without > 0:
		c.scheduled++
		c.partly++
	default:
		c.scheduled++
	}
	if group.PodGroup.Spec.SchedulingPolicy.Gang == nil {
		c.basic++
	}
}
