package cycle_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

var podNames = regexp.MustCompile("secret-.")

func unredacted(_, reason string) string { return reason }

func TestRejections(t *testing.T) {
	type told struct {
		Rejections []decision.Rejection
		BlockedBy  string
	}
	says := func(plugin string, code fwk.Code, reasons ...string) *fwk.Status {
		return fwk.NewStatus(code, reasons...).WithPlugin(plugin)
	}
	shared := says("Fit", fwk.Unschedulable, "cpu", "memory")
	for sentence, c := range map[string]struct {
		nodes    []*fwk.Status
		rest     int
		absent   *fwk.Status
		narrowed []string
		want     told
	}{
		"nodes that share a status and nodes that say the same are counted together": {
			nodes: []*fwk.Status{shared, says("Taint", fwk.UnschedulableAndUnresolvable, "tainted"), shared, says("Fit", fwk.Unschedulable, "cpu")},
			want: told{[]decision.Rejection{
				{Plugin: "Fit", Code: "Unschedulable", Reason: "cpu", Nodes: 3, ExampleNode: "n0"},
				{Plugin: "Fit", Code: "Unschedulable", Reason: "memory", Nodes: 2, ExampleNode: "n0"},
				{Plugin: "Taint", Code: "UnschedulableAndUnresolvable", Reason: "tainted", Nodes: 1, ExampleNode: "n1"},
			}, "Fit 3, Taint 1"},
		},
		"the same text with another code is another reason": {
			nodes: []*fwk.Status{says("Fit", fwk.Unschedulable, "cpu"), says("Fit", fwk.Pending, "cpu")},
			want: told{[]decision.Rejection{
				{Plugin: "Fit", Code: "Pending", Reason: "cpu", Nodes: 1, ExampleNode: "n1"},
				{Plugin: "Fit", Code: "Unschedulable", Reason: "cpu", Nodes: 1, ExampleNode: "n0"},
			}, "Fit 2"},
		},
		"nodes that nobody asked count for who ruled them out": {
			nodes: []*fwk.Status{says("Fit", fwk.Unschedulable, "cpu")}, rest: 9,
			absent: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not named"), narrowed: []string{"Affinity"},
			want: told{[]decision.Rejection{
				{Plugin: "Affinity", Code: "UnschedulableAndUnresolvable", Reason: "not named", Nodes: 9},
				{Plugin: "Fit", Code: "Unschedulable", Reason: "cpu", Nodes: 1, ExampleNode: "n0"},
			}, "Affinity 9, Fit 1"},
		},
		"a node counts once for reasons that read alike once names are left out": {
			nodes: []*fwk.Status{says("Alien", fwk.Unschedulable, "pod secret-a is there", "pod secret-b is there", "full")},
			want: told{[]decision.Rejection{
				{Plugin: "Alien", Code: "Unschedulable", Reason: "full", Nodes: 1, ExampleNode: "n0"},
				{Plugin: "Alien", Code: "Unschedulable", Reason: "pod … is there", Nodes: 1, ExampleNode: "n0"},
			}, "Alien 1"},
		},
		"of a PreFilter that refuses no node is an example": {
			rest: 5, absent: says("Affinity", fwk.Unschedulable, "conflict"),
			want: told{[]decision.Rejection{{Plugin: "Affinity", Code: "Unschedulable", Reason: "conflict", Nodes: 5}}, "Affinity 5"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			unfit := &framework.FitError{NumAllNodes: len(c.nodes) + c.rest, Diagnosis: framework.NewDiagnosis()}
			for i, status := range c.nodes {
				unfit.Diagnosis.NodeToStatus.Set(fmt.Sprint("n", i), status)
			}
			if c.absent != nil {
				unfit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(c.absent)
			}
			unfit.Diagnosis.NarrowedBy = c.narrowed
			var got told
			got.Rejections, got.BlockedBy = cycle.Rejections(unfit, func(_, reason string) string {
				return podNames.ReplaceAllString(reason, "…")
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want,+got)\n%s", diff)
			}
		})
	}
}

func TestRejectionsAreBounded(t *testing.T) {
	unfit := &framework.FitError{NumAllNodes: 5000, Diagnosis: framework.NewDiagnosis()}
	for i := range 5000 {
		unfit.Diagnosis.NodeToStatus.Set(fmt.Sprint("n", i), fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("n%d is hot", i)).WithPlugin("Heat"))
	}
	got, blockedBy := cycle.Rejections(unfit, unredacted)
	want := decision.Rejection{Code: "Unschedulable", Reason: "4937 more reasons", Nodes: 1}
	if diff := cmp.Diff(want, got[len(got)-1]); diff != "" || len(got) != decision.MaxReasons || blockedBy != "Heat 5000" {
		t.Errorf("%d rejections, blocked by %s, the last (-want +got):\n%s", len(got), blockedBy, diff)
	}
}
