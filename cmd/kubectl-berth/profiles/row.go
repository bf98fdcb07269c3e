package profiles

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

var columns = append(show.Columns("Name", "State", "Ready", "Reason", "Gen", "Running", "Hash", "Pending", "Bound"),
	show.Column{Name: "Revision", Wide: true}, show.Column{Name: "Configs", Wide: true},
	show.Column{Name: "Last"}, show.Column{Name: "Age"})

// agingCells is the number of cells at the end of a row that change with time.
const agingCells = 2

func (o *options) row(p *v1alpha1.SchedulingProfile) []any {
	status, reason := "Unknown", "NotObserved"
	ready := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	if ready != nil && ready.ObservedGeneration == p.Generation {
		status, reason = string(ready.Status), ready.Reason
	}
	running, revision, configs := any(show.None), "", ""
	programmed := ptr.Deref(p.Status.Programmed, v1alpha1.ProgrammedProfile{})
	if p.Status.Programmed != nil {
		running, revision = programmed.Generation, programmed.Revision
	}
	for i, c := range programmed.Configs {
		if i > 0 {
			configs += ","
		}
		configs += c.Name
	}
	row := []any{
		p.Name, p.Spec.State, status, reason, p.Generation, running, show.OrNone(programmed.Hash),
		ptr.Deref(p.Status.Queue, v1alpha1.QueueStatus{}).Pending, ptr.Deref(p.Status.Totals, v1alpha1.DecisionTotals{}).Bound,
	}
	if o.output.Wide() {
		row = append(row, show.OrNone(revision), show.OrNone(configs))
	}
	return append(row,
		show.Age(ptr.Deref(p.Status.LastDecisionTime, metav1.Time{}), o.Now()), show.Age(p.CreationTimestamp, o.Now()))
}
