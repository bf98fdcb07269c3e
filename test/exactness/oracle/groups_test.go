package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/scheduler/sandbox/log"
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
	// preempting groups chose victims, of which some were groups; ongoing ones waited for
	// those of an earlier attempt.
	preempting, victims, ongoing int
	// unknownNodes are the histories that end where kube-scheduler finds no victims any more.
	unknownNodes int
}

func (c groupCoverage) String() string {
	return fmt.Sprintf("%d groups of %d pods: %d scheduled, %d of them in part, %d refused, %d that are no gangs; %d pods that fit nowhere; %d groups preempted %d pods, %d waited for victims; %d histories end at a pod on a node that is not there",
		c.groups, c.pods, c.scheduled, c.partly, c.refused, c.basic, c.refusedPods, c.preempting, c.victims, c.ongoing, c.unknownNodes)
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
	for name, test := range map[string]struct {
		history func(seed uint64, attempts int) *generate.Groups
		least   func(groupCoverage) int
	}{
		"without preemption": {generate.NewGroups, func(c groupCoverage) int {
			return min(c.scheduled, c.partly, c.refused, c.basic, c.refusedPods)
		}},
		"with preemption": {generate.NewPreemptingGroups, func(c groupCoverage) int {
			return min(c.scheduled, c.refused, c.preempting, c.victims, 10*c.ongoing)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var covered groupCoverage
			for seed := *firstSeed; covered.groups < *groupAttempts && !t.Failed(); seed++ {
				if err := compareGroups(test.history(seed, 3*perHistory), seed, &covered); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			t.Log(covered)
			if least := *groupAttempts / 50; test.least(covered) < least && !t.Failed() {
				t.Errorf("the histories test too little: %v, want each at least %d times", covered, least)
			}
		})
	}
}

// compareGroups runs the history of a seed through both. The error names the first group that
// they decide differently.
func compareGroups(history *generate.Groups, seed uint64, covered *groupCoverage) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
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
		for _, pod := range group.Pods {
			// Pods are known before their group is tried: nominated ones count on their nodes.
			op := log.Op{Kind: log.Apply, Object: pod}
			_, err := here.Do(op)
			_, upstreamErr := there.Do(op)
			if err := errors.Join(err, upstreamErr); err != nil {
				return err
			}
		}
		ours := berth.AttemptGroup(ctx, group.PodGroup, group.Pods)
		other, err := theirs.AttemptGroup(group.PodGroup, group.Pods)
		if err != nil {
			return err
		}
		if findsNoVictims(other) {
			covered.unknownNodes++
			return nil
		}
		outcomes := outcomesOf(ours)
		if err := compareGroup(ours, outcomes, other); err != nil {
			return fmt.Errorf("group %s of %d pods, minCount %v: %w", group.PodGroup.Name, len(group.Pods), group.PodGroup.Spec.SchedulingPolicy.Gang, err)
		}
		covered.add(group, ours, outcomes)
		for _, m := range ours.Members {
			if ours.Err == nil && m.Placement != nil {
				if err := berth.AssumeMember(m); err != nil {
					return err
				}
			}
		}
		history.Observe(group, outcomes)
	}
}

// findsNoVictims reports whether a pod of a group that is disrupted as a whole is on a node that
// is not there: then each search of kube-scheduler for the victims of a group ends with an error.
func findsNoVictims(outcomes []*run.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o *run.Outcome) bool {
		return o.Err != nil && strings.Contains(o.Err.Error(), "failed to create domain: failed to get node info for node")
	})
}

// outcomesOf returns what happens to each pod of a group. The first has the group's victims.
func outcomesOf(o sandbox.GroupOutcome) (outcomes []*run.Outcome) {
	for i, m := range o.Members {
		outcome := &run.Outcome{Pod: m.Pod, Err: m.Err}
		if m.Placement != nil && o.Err == nil {
			outcome.Node = m.Placement.Node
		}
		if m.Nominating.Mode() == fwk.ModeOverride {
			outcome.Nominated = m.Nominating.NominatedNodeName
		}
		if i == 0 && o.Plan != nil {
			// kube-scheduler does not evict a victim that terminates.
			outcome.Victims = run.NamesOf(slices.DeleteFunc(slices.Clone(o.Plan.Victims), func(p *v1.Pod) bool { return p.DeletionTimestamp != nil }))
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes
}

// compareGroup compares what both decided about the pods of a group.
func compareGroup(o sandbox.GroupOutcome, ours, other []*run.Outcome) error {
	for i, m := range o.Members {
		if ours[i].Node != other[i].Node || ours[i].Nominated != other[i].Nominated {
			return fmt.Errorf("pod %d of %d, %s: node %q, nominated %q (%v), kube-scheduler's %q, nominated %q (%v)",
				i, len(ours), m.Pod.Name, ours[i].Node, ours[i].Nominated, m.Err, other[i].Node, other[i].Nominated, other[i].Err)
		}
		// Which victim leaves first is decided by the order of a map there.
		if diff := cmp.Diff(sorted(other[i].Victims), sorted(ours[i].Victims)); diff != "" {
			return fmt.Errorf("the victims (-kube-scheduler's +Berth's), of which Berth's message is %q:\n%s", o.Err, diff)
		}
		if o.Err != nil && !cycle.IsUnschedulable(o.Err) {
			continue // a plugin failed: all pods have its error
		}
		// The messages of pods that the group alone keeps from their nodes are Berth's own, up to
		// what preemption says.
		if fitErr := new(framework.FitError); errors.As(m.Err, &fitErr) && m.Err.Error() != other[i].Err.Error() {
			return fmt.Errorf("pod %d of %d, %s: %q, kube-scheduler says %q", i, len(ours), m.Pod.Name, m.Err, other[i].Err)
		}
		if m.Placement != nil && o.Err != nil && preemptionMessage(o.Err) != preemptionMessage(other[i].Err) {
			return fmt.Errorf("pod %d of %d, %s: fits on %s, its group does not: %q; kube-scheduler says %q", i, len(ours), m.Pod.Name, m.Placement.Node, o.Err, other[i].Err)
		}
	}
	return nil
}

// preemptionMessage returns the part of an error that is about the preemption of a group.
func preemptionMessage(err error) string {
	_, message, found := strings.Cut(err.Error(), "pod group preemption: ")
	if !found || strings.HasPrefix(message, "minCount") {
		return ""
	}
	return message
}

func sorted(names []string) []string {
	return slices.Sorted(slices.Values(names))
}

func (c *groupCoverage) add(group *generate.Group, o sandbox.GroupOutcome, outcomes []*run.Outcome) {
	c.groups++
	c.pods += len(group.Pods)
	without := 0
	for i, m := range o.Members {
		if outcomes[i].Node == "" {
			without++
		}
		if m.Placement == nil && m.Tried() {
			c.refusedPods++
		}
	}
	switch {
	case o.Waiting && o.Plan == nil:
		c.ongoing++
	case o.Waiting:
		c.preempting++
		c.victims += len(o.Plan.Victims)
	case o.Err != nil:
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
