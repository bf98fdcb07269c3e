package explainer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

var startTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDetailDecidesWhetherNodesAreNamed(t *testing.T) {
	e := decision.Explanation{Status: v1alpha1.SchedulingDecisionStatus{
		Rejections:   []v1alpha1.Rejection{{Plugin: "P", Reason: "r", ExampleNode: "secret-node"}},
		ClosestNodes: []v1alpha1.ClosestNode{{Node: "secret-node"}},
	}}
	for name, nodes := range map[string]bool{"detail Reasons names no node": false, "detail Nodes names nodes": true} {
		t.Run(name, func(t *testing.T) {
			e := e
			e.Nodes = nodes
			text, err := json.Marshal(statusOf(&e, startTime))
			must(err)
			if got := strings.Count(string(text), "secret-node"); got != map[bool]int{false: 0, true: 2}[nodes] {
				t.Errorf("named %d times: %s", got, text)
			}
		})
	}
	if e.Status.Rejections[0].ExampleNode == "" {
		t.Error("the explanation itself was changed")
	}
}

func TestClosestNodesThatReadAlikeAreOneEntry(t *testing.T) {
	cpu, memory := v1alpha1.Missing{Resource: "cpu", Requested: "8", Free: "2"}, v1alpha1.Missing{Resource: "memory", Requested: "8Gi", Free: "2Gi"}
	e := decision.Explanation{Status: v1alpha1.SchedulingDecisionStatus{ClosestNodes: []v1alpha1.ClosestNode{
		{Node: "n1", Missing: []v1alpha1.Missing{cpu}}, {Node: "n2", Missing: []v1alpha1.Missing{cpu}}, {Node: "n3", Missing: []v1alpha1.Missing{cpu, memory}},
	}}}
	want := []v1alpha1.ClosestNode{{Missing: []v1alpha1.Missing{cpu}}, {Missing: []v1alpha1.Missing{cpu, memory}}}
	if diff := cmp.Diff(want, statusOf(&e, startTime).ClosestNodes); diff != "" {
		t.Errorf("detail Reasons (-want +got):\n%s", diff)
	}
	e.Nodes = true
	if diff := cmp.Diff(e.Status.ClosestNodes, statusOf(&e, startTime).ClosestNodes); diff != "" {
		t.Errorf("detail Nodes (-want +got):\n%s", diff)
	}
}

// The pod's condition has "0/500 nodes are available" when no node is feasible, as with
// kube-scheduler, and no number when the pod is bound or waits at Permit.
func TestDetailDecidesWhetherNodesAreCounted(t *testing.T) {
	none := &v1alpha1.DecisionNodes{Total: 500, Evaluated: 500, Summary: "0/500"}
	some := &v1alpha1.DecisionNodes{Total: 500, Evaluated: 500, Feasible: 412, Summary: "412/500"}
	for name, c := range map[string]struct {
		found *v1alpha1.DecisionNodes
		nodes bool
		want  *v1alpha1.DecisionNodes
	}{
		"detail Reasons counts nodes when none is feasible":          {none, false, none},
		"detail Reasons does not count nodes when some are feasible": {some, false, nil},
		"detail Nodes counts nodes when none is feasible":            {none, true, none},
		"detail Nodes counts nodes when some are feasible":           {some, true, some},
		"a pod without an attempt has no counts":                     {nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := decision.Explanation{Nodes: c.nodes, Status: v1alpha1.SchedulingDecisionStatus{Nodes: c.found}}
			if diff := cmp.Diff(c.want, statusOf(&e, startTime).Nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnExplanationFitsTheSchema(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	e := decision.Explanation{Nodes: true, Status: v1alpha1.SchedulingDecisionStatus{
		Message: long, BlockedBy: long, Profile: v1alpha1.DecidedBy{Name: long, Hash: long}, Queue: &v1alpha1.DecisionQueue{Gate: long},
		Group: &v1alpha1.DecisionGroup{Name: long, ExplainedBy: long},
	}}
	for i := range v1alpha1.MaxReasons {
		e.Status.Rejections = append(e.Status.Rejections, v1alpha1.Rejection{Plugin: long, Code: "Pending", Reason: long, Nodes: int32(100 - i), ExampleNode: long})
		e.Status.RequeueEvents = append(e.Status.RequeueEvents, v1alpha1.RequeueEvents{Plugin: long})
		e.Status.DeviceRequests = append(e.Status.DeviceRequests, v1alpha1.DeviceRequestCounts{
			Claim: long, Request: long, DeviceClassName: long, Selectors: []v1alpha1.DeviceSelectorCount{{Expression: long}},
		})
	}
	e.Status.ClosestNodes = []v1alpha1.ClosestNode{{Node: long}, {Node: long}}
	e.Status.ClosestNodes[0].Missing = []v1alpha1.Missing{{Resource: long, DeviceRequest: long, Requested: long, Free: long, Plugin: long, Reason: long}}
	s := statusOf(&e, startTime)
	characters := utf8.RuneCountInString
	got := map[string]int{
		"rejections": len(s.Rejections), "closestNodes": len(s.ClosestNodes), "requeueEvents": len(s.RequeueEvents),
		"message": characters(s.Message), "since": int(s.Queue.Since.Sub(startTime)), "resource": characters(s.ClosestNodes[0].Missing[0].Resource),
		"deviceRequest": characters(s.ClosestNodes[0].Missing[0].DeviceRequest), "claim": characters(s.DeviceRequests[0].Claim),
		"group": characters(s.Group.Name), "explainedBy": characters(s.Group.ExplainedBy),
		"request": characters(s.DeviceRequests[0].Request), "expression": characters(s.DeviceRequests[0].Selectors[0].Expression),
	}
	want := map[string]int{"rejections": 64, "closestNodes": 2, "requeueEvents": 64, "message": 4096, "since": 0, "resource": 317, "deviceRequest": 571, "claim": 317, "request": 253, "expression": 1024, "group": 253, "explainedBy": 253}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(s)
	must(err)
	if strings.Contains(string(text), "null") || strings.Contains(string(text), "\ufffd") {
		t.Error("a list is null, or a character was cut")
	}
}

func TestAnExplanationFitsIntoEtcdsLimit(t *testing.T) {
	long := strings.Repeat("<", 5000) // JSON escapes it as six bytes
	e := decision.Explanation{Nodes: true, Status: v1alpha1.SchedulingDecisionStatus{Message: long}}
	for range v1alpha1.MaxReasons {
		e.Status.RequeueEvents = append(e.Status.RequeueEvents, v1alpha1.RequeueEvents{Plugin: "Fit", Events: slices.Repeat([]string{long}, v1alpha1.MaxReasons)})
	}
	e.Status.ClosestNodes = slices.Repeat([]v1alpha1.ClosestNode{{
		Missing: slices.Repeat([]v1alpha1.Missing{{Resource: "cpu", Requested: "2", Free: "1", Reason: long}}, v1alpha1.MaxReasons),
	}}, v1alpha1.MaxClosestNodes)
	s := statusOf(&e, startTime)
	text, err := json.Marshal(s)
	must(err)
	if len(text) > maxObjectSize || len(text) < maxObjectSize/4 {
		t.Errorf("%d bytes, want at most %d, and more than a quarter of that", len(text), maxObjectSize)
	}
	if s.RequeueEvents[63].Plugin != "Fit" || s.ClosestNodes[9].Missing[63].Resource != "cpu" || !strings.HasSuffix(s.RequeueEvents[63].Events[63], "<…") {
		t.Errorf("short texts are truncated, or long ones are not: %v", s.RequeueEvents[63])
	}
}
