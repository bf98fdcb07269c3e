package controllers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

func TestWhatATenantMayRead(t *testing.T) {
	e := decision.Explanation{Status: decision.Status{
		Rejections: []decision.Rejection{{Plugin: "P", Reason: "r", ExampleNode: "secret-node"}},
		Nearest:    []decision.NearMiss{{Node: "secret-node"}},
	}}
	for sentence, nodes := range map[string]bool{"detail: Reasons names no node": false, "detail: Nodes does": true} {
		t.Run(sentence, func(t *testing.T) {
			e := e
			e.Nodes = nodes
			text, err := json.Marshal(statusOf(&e, noon))
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

func TestAnExplanationFitsIntoItsObject(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	e := decision.Explanation{Nodes: true, Status: decision.Status{
		Message: long, BlockedBy: long, Profile: v1alpha1.DecidedBy{Name: long, Hash: long}, Queue: &decision.Queue{Gate: long},
	}}
	for i := range 100 {
		e.Status.Rejections = append(e.Status.Rejections, decision.Rejection{Plugin: long, Code: "Pending", Reason: long, Nodes: int32(100 - i), ExampleNode: long})
		e.Status.Nearest = append(e.Status.Nearest, decision.NearMiss{Node: long})
		e.Status.WakesOn = append(e.Status.WakesOn, decision.WakesOn{Plugin: long})
	}
	e.Status.Nearest[0].Missing = []decision.Missing{{Resource: long, Requested: long, Free: long, Plugin: long, Reason: long}}
	s := statusOf(&e, noon)
	if got, want := s.Rejections[len(s.Rejections)-1], (v1alpha1.Rejection{Code: "Pending", Reason: "37 more reasons", Nodes: 37}); got != want {
		t.Errorf("the last reason is %+v, want %+v", got, want)
	}
	got := map[string]int{
		"rejections": len(s.Rejections), "nearest": len(s.Nearest), "wakesOn": len(s.WakesOn),
		"message": len(s.Message), "since": int(s.Queue.Since.Sub(noon)), "resource": len(s.Nearest[0].Missing[0].Resource),
	}
	want := map[string]int{"rejections": 64, "nearest": 10, "wakesOn": 64, "message": 4095, "since": 0, "resource": 317}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(s)
	must(err)
	if strings.Contains(string(text), "null") || strings.Contains(string(text), "\ufffd") {
		t.Error("a list is null, or a character was cut in two")
	}
}
