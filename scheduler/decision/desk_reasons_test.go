package decision

import (
	"testing"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestReasonsExcludeCountsNodesAndTimes(t *testing.T) {
	base := explanationOf("web", "cpu", func(e *Explanation) {
		e.Status.Rejections = append(e.Status.Rejections, Rejection{Plugin: "TaintToleration", Code: "Unschedulable", Reason: "tainted", Nodes: 2})
		e.Status.Preemption = &PreemptionResult{Outcome: v1alpha1.PreemptionNoCandidates}
	})
	for sentence, tc := range map[string]struct {
		change func(*Status)
		fresh  bool
	}{
		"the result":       {func(s *Status) { s.Result = v1alpha1.ResultError }, true},
		"the hash":         {func(s *Status) { s.Profile.Hash = "other" }, true},
		"a plugin":         {func(s *Status) { s.Rejections[0].Plugin = "Other" }, true},
		"a code":           {func(s *Status) { s.Rejections[0].Code = "Pending" }, true},
		"a reason":         {func(s *Status) { s.Rejections[0].Reason = "memory" }, true},
		"one reason less":  {func(s *Status) { s.Rejections = s.Rejections[:1] }, true},
		"the gate":         {func(s *Status) { s.Queue.Gate = "SchedulingGates" }, true},
		"where it waits":   {func(s *Status) { s.Queue.Where = "Backoff" }, true},
		"the outcome":      {func(s *Status) { s.Preemption.Outcome = v1alpha1.PreemptionUnderWay }, true},
		"a count":          {func(s *Status) { s.Rejections[0].Nodes++; s.Message = "0/4" }, false},
		"an example":       {func(s *Status) { s.Rejections[0].ExampleNode = "n7" }, false},
		"their order":      {func(s *Status) { s.Rejections[0], s.Rejections[1] = s.Rejections[1], s.Rejections[0] }, false},
		"since when":       {func(s *Status) { s.Queue.Since.Time = s.Queue.Since.Add(time.Hour) }, false},
		"what is nearest":  {func(s *Status) { s.ClosestNodes = []ClosestNode{{Node: "n1"}} }, false},
		"the number found": {func(s *Status) { s.Preemption.Candidates++ }, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newQueueTest(t)
			c.Put(base)
			other := base
			other.Status = *base.Status.DeepCopy()
			tc.change(&other.Status)
			if got := c.WouldWrite(other); got != tc.fresh {
				t.Errorf("fresh: %t, want %t", got, tc.fresh)
			}
		})
	}
	t.Run("the message, where nothing was asked", func(t *testing.T) {
		c := newQueueTest(t)
		held := func(message string) Explanation {
			return explanationOf("web", "", func(e *Explanation) { e.Status.Rejections, e.Status.Message = nil, message })
		}
		c.Put(held("the profile is paused"))
		if !c.WouldWrite(held("the profile is deleted")) {
			t.Error("another message is not fresh")
		}
	})
}
