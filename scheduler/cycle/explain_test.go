package cycle_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
)

var podNames = regexp.MustCompile("secret-.")

func unredacted(_, reason string) string { return reason }

func TestRejections(t *testing.T) {
	type result struct {
		Rejections []v1alpha1.Rejection
		BlockedBy  string
	}
	status := func(plugin string, code fwk.Code, reasons ...string) *fwk.Status {
		return fwk.NewStatus(code, reasons...).WithPlugin(plugin)
	}
	shared := status("Fit", fwk.Unschedulable, "cpu", "memory")
	for name, c := range map[string]struct {
		nodes    []*fwk.Status
		rest     int
		absent   *fwk.Status
		narrowed []string
		want     result
	}{
		"nodes with the same status and nodes with equal statuses are counted together": {
			nodes: []*fwk.Status{shared, status("Taint", fwk.UnschedulableAndUnresolvable, "tainted"), shared, status("Fit", fwk.Unschedulable, "cpu")},
			want: result{[]v1alpha1.Rejection{
				{Plugin: "Fit", Code: "Unschedulable", Reason: "cpu", Nodes: 3, ExampleNode: "n0"},
				{Plugin: "Fit", Code: "Unschedulable", Reason: "memory", Nodes: 2, ExampleNode: "n0"},
				{Plugin: "Taint", Code: "UnschedulableAndUnresolvable", Reason: "tainted", Nodes: 1, ExampleNode: "n1"},
			}, "Fit 3, Taint 1"},
		},
		"the same reason with another code is a group of its own": {
			nodes: []*fwk.Status{status("Fit", fwk.Unschedulable, "cpu"), status("Fit", fwk.Pending, "cpu")},
			want: result{[]v1alpha1.Rejection{
				{Plugin: "Fit", Code: "Pending", Reason: "cpu", Nodes: 1, ExampleNode: "n1"},
				{Plugin: "Fit", Code: "Unschedulable", Reason: "cpu", Nodes: 1, ExampleNode: "n0"},
			}, "Fit 2"},
		},
		"nodes that were not evaluated count for the plugins that excluded them": {
			nodes: []*fwk.Status{status("Fit", fwk.Unschedulable, "cpu")}, rest: 9,
			absent: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not named"), narrowed: []string{"Affinity"},
			want: result{[]v1alpha1.Rejection{
				{Plugin: "Affinity", Code: "UnschedulableAndUnresolvable", Reason: "not named", Nodes: 9},
				{Plugin: "Fit", Code: "Unschedulable", Reason: "cpu", Nodes: 1, ExampleNode: "n0"},
			}, "Affinity 9, Fit 1"},
		},
		"a node counts once for reasons that are equal after redaction": {
			nodes: []*fwk.Status{status("Alien", fwk.Unschedulable, "pod secret-a is there", "pod secret-b is there", "full")},
			want: result{[]v1alpha1.Rejection{
				{Plugin: "Alien", Code: "Unschedulable", Reason: "full", Nodes: 1, ExampleNode: "n0"},
				{Plugin: "Alien", Code: "Unschedulable", Reason: "pod … is there", Nodes: 1, ExampleNode: "n0"},
			}, "Alien 1"},
		},
		"a rejection by PreFilter has no example node": {
			rest: 5, absent: status("Affinity", fwk.Unschedulable, "conflict"),
			want: result{[]v1alpha1.Rejection{{Plugin: "Affinity", Code: "Unschedulable", Reason: "conflict", Nodes: 5}}, "Affinity 5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fitErr := &framework.FitError{NumAllNodes: len(c.nodes) + c.rest, Diagnosis: framework.NewDiagnosis()}
			for i, status := range c.nodes {
				fitErr.Diagnosis.NodeToStatus.Set(fmt.Sprint("n", i), status)
			}
			if c.absent != nil {
				fitErr.Diagnosis.NodeToStatus.SetAbsentNodesStatus(c.absent)
			}
			fitErr.Diagnosis.NarrowedBy = c.narrowed
			var got result
			got.Rejections, got.BlockedBy = cycle.Rejections(fitErr, func(_, reason string) string {
				return podNames.ReplaceAllString(reason, "…")
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want,+got)\n%s", diff)
			}
		})
	}
}

func TestRejectionsAreBounded(t *testing.T) {
	fitErr := &framework.FitError{NumAllNodes: 5000, Diagnosis: framework.NewDiagnosis()}
	for i := range 5000 {
		fitErr.Diagnosis.NodeToStatus.Set(fmt.Sprint("n", i), fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("n%d is hot", i)).WithPlugin("Heat"))
	}
	got, blockedBy := cycle.Rejections(fitErr, unredacted)
	want := v1alpha1.Rejection{Code: "Unschedulable", Reason: "4937 more reasons", Nodes: 1}
	if diff := cmp.Diff(want, got[len(got)-1]); diff != "" || len(got) != v1alpha1.MaxReasons || blockedBy != "Heat 5000" {
		t.Errorf("%d rejections, blocked by %s, the last (-want +got):\n%s", len(got), blockedBy, diff)
	}
}
