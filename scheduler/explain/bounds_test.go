package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// outcomesAtStart is the number of outcomes that a new process reports.
var outcomesAtStart int

func init() {
	outcomes := make(chan prometheus.Metric, 10)
	explanationsTotal.Collect(outcomes)
	outcomesAtStart = len(outcomes)
}

func TestANewProcessReportsAllOutcomes(t *testing.T) {
	// Prometheus sees no increase in a series that appears with its first drops.
	if outcomesAtStart != 5 {
		t.Errorf("a new process reports %d outcomes in berth_explanations_total, want 5", outcomesAtStart)
	}
}

// queueTest is an Queue on a manual clock. dropped holds the profiles of
// dropped explanations.
type queueTest struct {
	*Queue
	t       *testing.T
	time    time.Time
	dropped []string
}

func newQueueTest(t *testing.T) *queueTest {
	explanationsWaiting.Set(0) // what an earlier test left
	c := &queueTest{t: t, time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c.Queue = NewQueue(func() time.Time { return c.time }, c)
	return c
}

// Dropped implements DropCounter.
func (c *queueTest) Dropped(profile string) { c.dropped = append(c.dropped, profile) }

// explanationOf returns an explanation with one reason of a pod whose UID is its name.
func explanationOf(pod, reason string, edits ...func(*decision.Explanation)) decision.Explanation {
	e := decision.Explanation{Namespace: "shop", Pod: pod, UID: types.UID(pod), Status: v1alpha1.SchedulingDecisionStatus{
		Result:     v1alpha1.ResultUnschedulable,
		Profile:    v1alpha1.DecidedBy{Name: "batch", Hash: "9f3c1a2b4d"},
		Rejections: []v1alpha1.Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: reason, Nodes: 3}},
		Queue:      &v1alpha1.DecisionQueue{Where: "Unschedulable"},
	}}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

func withUID(uid types.UID) func(*decision.Explanation) {
	return func(e *decision.Explanation) { e.UID = uid }
}

func asBound(e *decision.Explanation) {
	e.Status.Result, e.Status.Rejections = v1alpha1.ResultBound, nil
}

func ofGatedGroup(e *decision.Explanation) {
	e.Status.Result, e.Status.Rejections = v1alpha1.ResultGated, nil
	e.Status.Message, e.Status.Group = "the pod's group has 7 of at least 8 pods", &v1alpha1.DecisionGroup{Name: "train"}
}

// advance moves the clock forward.
func (c *queueTest) advance(d time.Duration) { c.time = c.time.Add(d) }

// doTasks takes and ends all tasks that are due now, and returns a line for each.
func (c *queueTest) doTasks() (done []string) {
	for {
		e, _, ok := c.Take()
		if !ok {
			return done
		}
		done = append(done, c.doTask(e))
	}
}

// doTask ends a task as successful, and returns a line that describes it.
func (c *queueTest) doTask(e Task) string {
	if e.Verb == Delete {
		c.Deleted(e)
		return fmt.Sprintf("delete %s of %s", e.Pod, e.UID)
	}
	c.Written(e, "object-of-"+e.UID)
	text := string(e.Explanation.Status.Result)
	if r := e.Explanation.Status.Rejections; len(r) > 0 {
		text = r[0].Reason
	}
	return fmt.Sprintf("%s %s of %s: %s", e.Verb, e.Pod, e.UID, text)
}

func (c *queueTest) want(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.doTasks()); diff != "" {
		c.t.Errorf("tasks (-want +got):\n%s", diff)
	}
	var waiting dto.Metric
	if err := explanationsWaiting.Write(&waiting); err != nil || int(waiting.GetGauge().GetValue()) != c.len() {
		c.t.Errorf("berth_explanations_waiting is %v (%v), and %d tasks wait", waiting.GetGauge().GetValue(), err, c.len())
	}
}

func TestQueueForgetsPodsThatAreBoundOrDeleted(t *testing.T) {
	c := newQueueTest(t)
	for i := range 100 {
		pod := fmt.Sprint("web-", i)
		c.Put(explanationOf(pod, "cpu"))
		if i%2 == 0 {
			c.doTasks()
		}
		if i%3 == 0 {
			c.PodBound("shop", pod, types.UID(pod))
		} else {
			c.PodDeleted("shop", pod, types.UID(pod))
		}
	}
	c.doTasks()
	c.advance(boundRetention)
	c.doTasks()
	if len(c.records) != 0 || c.len() != 0 {
		t.Errorf("%d records and %d items are left", len(c.records), c.len())
	}
}

func TestQueueIsBounded(t *testing.T) {
	c := newQueueTest(t)
	const more = 5
	for i := range capacity[firstItems] + more {
		c.Put(explanationOf(fmt.Sprint("web-", i), "cpu"))
	}
	if len(c.dropped) != more || len(c.records) != capacity[firstItems] {
		t.Errorf("%d dropped, %d kept; want %d, %d", len(c.dropped), len(c.records), more, capacity[firstItems])
	}
	last := fmt.Sprint("web-", capacity[firstItems])
	if c.WouldWrite(explanationOf(last, "cpu")) {
		t.Error("an explanation beyond the capacity would be accepted")
	}
	if !c.WouldWrite(explanationOf("web-0", "memory")) {
		t.Error("other reasons of a pending pod are not accepted, though they need no further item")
	}
	c.doTasks()
	if !c.WouldWrite(explanationOf(last, "cpu")) {
		t.Error("a dropped explanation is not accepted later")
	}
}

func TestDroppedExplanationsAreCountedInTheLedger(t *testing.T) {
	ledger := decision.NewLedger(time.Now)
	ledger.Open("batch", "")
	c := newQueueTest(t)
	c.drops = ledger
	for range 2 {
		c.Put(explanationOf("web", "", asBound))
		c.advance(boundRetention)
		c.doTasks()
	}
	c.Put(explanationOf("web", "", asBound, func(e *decision.Explanation) { e.Status.Profile.Name = "deleted" }))
	c.advance(boundRetention)
	c.doTasks()
	if history, _ := ledger.History("batch", 0); history.Totals.DecisionsDropped != 2 {
		t.Errorf("%d decisions dropped, want 2", history.Totals.DecisionsDropped)
	}
	if _, known := ledger.History("deleted", 0); known {
		t.Error("the ledger opened a deleted profile")
	}
}

func TestReasonsExcludeCountsNodesAndTimes(t *testing.T) {
	base := explanationOf("web", "cpu", func(e *decision.Explanation) {
		e.Status.Rejections = append(e.Status.Rejections, v1alpha1.Rejection{Plugin: "TaintToleration", Code: "Unschedulable", Reason: "tainted", Nodes: 2})
		e.Status.Preemption = &v1alpha1.PreemptionResult{Outcome: v1alpha1.PreemptionNoCandidates}
		e.Status.Group = &v1alpha1.DecisionGroup{Source: v1alpha1.GroupOfAnnotation, Name: "a", Pods: 3}
	})
	for name, tc := range map[string]struct {
		change func(*v1alpha1.SchedulingDecisionStatus)
		accept bool
	}{
		"the result":             {func(s *v1alpha1.SchedulingDecisionStatus) { s.Result = v1alpha1.ResultError }, true},
		"the hash":               {func(s *v1alpha1.SchedulingDecisionStatus) { s.Profile.Hash = "other" }, true},
		"a plugin":               {func(s *v1alpha1.SchedulingDecisionStatus) { s.Rejections[0].Plugin = "Other" }, true},
		"a code":                 {func(s *v1alpha1.SchedulingDecisionStatus) { s.Rejections[0].Code = "Pending" }, true},
		"a reason":               {func(s *v1alpha1.SchedulingDecisionStatus) { s.Rejections[0].Reason = "memory" }, true},
		"a missing rejection":    {func(s *v1alpha1.SchedulingDecisionStatus) { s.Rejections = s.Rejections[:1] }, true},
		"the gate":               {func(s *v1alpha1.SchedulingDecisionStatus) { s.Queue.Gate = "SchedulingGates" }, true},
		"the place in the queue": {func(s *v1alpha1.SchedulingDecisionStatus) { s.Queue.Where = "Backoff" }, true},
		"the outcome":            {func(s *v1alpha1.SchedulingDecisionStatus) { s.Preemption.Outcome = v1alpha1.PreemptionUnderWay }, true},
		"a count":                {func(s *v1alpha1.SchedulingDecisionStatus) { s.Rejections[0].Nodes++; s.Message = "0/4" }, false},
		"an example node":        {func(s *v1alpha1.SchedulingDecisionStatus) { s.Rejections[0].ExampleNode = "n7" }, false},
		"their order": {func(s *v1alpha1.SchedulingDecisionStatus) {
			s.Rejections[0], s.Rejections[1] = s.Rejections[1], s.Rejections[0]
		}, false},
		"since":                           {func(s *v1alpha1.SchedulingDecisionStatus) { s.Queue.Since.Time = s.Queue.Since.Add(time.Hour) }, false},
		"closest nodes":                   {func(s *v1alpha1.SchedulingDecisionStatus) { s.ClosestNodes = []v1alpha1.ClosestNode{{Node: "n1"}} }, false},
		"the pod that explains the group": {func(s *v1alpha1.SchedulingDecisionStatus) { s.Group.ExplainedBy = "a-1" }, true},
		"the number of pods":              {func(s *v1alpha1.SchedulingDecisionStatus) { s.Group.Pods++ }, false},
		"the number of candidates":        {func(s *v1alpha1.SchedulingDecisionStatus) { s.Preemption.Candidates++ }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newQueueTest(t)
			c.Put(base)
			other := base
			other.Status = *base.Status.DeepCopy()
			tc.change(&other.Status)
			if got := c.WouldWrite(other); got != tc.accept {
				t.Errorf("WouldWrite: %t, want %t", got, tc.accept)
			}
		})
	}
	t.Run("the message, without rejections", func(t *testing.T) {
		c := newQueueTest(t)
		held := func(message string) decision.Explanation {
			return explanationOf("web", "", func(e *decision.Explanation) { e.Status.Rejections, e.Status.Message = nil, message })
		}
		c.Put(held("the profile is paused"))
		if !c.WouldWrite(held("the profile is deleted")) {
			t.Error("another message is not accepted")
		}
	})
}
