package explain

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// decision reads why a pod waits; nil where nobody has said so, or it may not be
// read. What is about another pod of that name is about that one.
func (o *options) schedulingDecision(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) *v1alpha1.SchedulingDecisionStatus {
	d := &v1alpha1.SchedulingDecision{}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), d)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil
	case err != nil:
		fmt.Fprintln(o.ErrOut, show.Wrap("Left out is what the pod's SchedulingDecision says: "+cluster.UserError(err).Error(), "", "  "))
		return nil
	}
	if !slices.ContainsFunc(d.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == pod.UID }) {
		return nil
	}
	return &d.Status
}

// result is how the last attempt ended, in a line.
func (o *options) resultText(d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s ago", d.Result, show.Age(d.LastChange, o.Now()))
	if n := d.Nodes; n != nil {
		text += fmt.Sprintf("; fits on %d of %s, %d asked", n.Feasible, show.Count(int(n.Total), "node"), n.Evaluated)
	}
	return text
}

// rests is where the pod waits, and what holds it there.
func (o *options) queuePlaceText(d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil || d.Queue == nil {
		return ""
	}
	text := fmt.Sprintf("%s, for %s", d.Queue.Where, show.Age(d.Queue.Since, o.Now()))
	if d.Queue.Gate != "" {
		text += ", behind the gate of " + d.Queue.Gate
	}
	return text
}

// room is what was found when others might have left.
func preemptionText(d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil || d.Preemption == nil {
		return ""
	}
	p := d.Preemption
	switch p.Outcome {
	case v1alpha1.PreemptionNoCandidates:
		return "nobody's leaving would help"
	case v1alpha1.PreemptionNotEligible:
		return "the pod may not have others leave"
	case v1alpha1.PreemptionVictimsChosen:
		return fmt.Sprintf("%s told to leave, on one of %s where that would do", show.Count(int(p.Victims), "pod"), show.Count(int(p.Candidates), "node"))
	case v1alpha1.PreemptionUnderWay:
		return "pods that were told to leave have not left yet"
	}
	return "the search for pods that could leave failed"
}

// reasons are the rest of a decision: who refuses, what is missing where least
// is, and what wakes the pod.
func rejectionText(d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil {
		return ""
	}
	text := ""
	if len(d.Rejections) > 0 {
		text += "\n" + rejectionTable(d.Rejections)
	}
	if len(d.ClosestNodes) > 0 {
		text += "\nWhere least is missing:\n"
	}
	for _, near := range d.ClosestNodes {
		var missing []string
		for _, m := range near.Missing {
			missing = append(missing, missingText(m))
		}
		name := ""
		if near.Node != "" {
			name = near.Node + ": "
		}
		text += show.Wrap("- "+name+strings.Join(missing, "; "), "  ", "  ") + "\n"
	}
	if len(d.RequeueEvents) > 0 {
		text += "\nIt is tried again upon:\n"
	}
	for _, w := range d.RequeueEvents {
		text += show.Wrap("- "+strings.Join(w.Events, ", ")+" ("+w.Plugin+")", "  ", "  ") + "\n"
	}
	return text
}

func rejectionTable(rejections []v1alpha1.Rejection) string {
	var out bytes.Buffer
	_ = show.Rejections(&out, rejections, false) // into memory
	return out.String()
}

func missingText(m v1alpha1.Missing) string {
	if m.Resource != "" {
		return fmt.Sprintf("%s: %s asked for, %s free", m.Resource, m.Requested, m.Free)
	}
	return fmt.Sprintf("%s (%s)", m.Reason, m.Plugin)
}
