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

// schedulingDecision reads the pod's SchedulingDecision; nil if there is none, if it is
// about another pod of that name, or if it may not be read.
func (o *options) schedulingDecision(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) *v1alpha1.SchedulingDecisionStatus {
	d := &v1alpha1.SchedulingDecision{}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), d)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil
	case err != nil:
		o.warn("Cannot read the SchedulingDecision of the pod: " + cluster.UserError(err).Error())
		return nil
	}
	if !slices.ContainsFunc(d.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == pod.UID }) {
		return nil
	}
	return &d.Status
}

// resultText says how the attempt ended that the SchedulingDecision of a pod is about. The
// condition may be of a later one: a SchedulingDecision is written again only when the reasons
// change, and at most once a minute.
func (o *options) resultText(pod *corev1.Pod, d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s ago", d.Result, show.Age(d.LastChange, o.Now()))
	if n := d.Nodes; n != nil {
		text += fmt.Sprintf("; %d of %s evaluated, %d feasible", n.Evaluated, show.Count(int(n.Total), "node"), n.Feasible)
	}
	if c := podScheduled(pod); c != nil && isOfAnotherAttempt(c.Message, d) {
		text += "; the condition is of another attempt"
	}
	return text
}

// isOfAnotherAttempt reports whether the message of a pod's condition is certainly of another
// attempt than d. The message of d may be shorter, have <node> instead of a name, or name the
// pod of the group that explains this one.
func isOfAnotherAttempt(message string, d *v1alpha1.SchedulingDecisionStatus) bool {
	if d.Group != nil || d.Message == "" || strings.Contains(d.Message, "<node>") || strings.Contains(d.Message, "<pod>") {
		return false
	}
	return !strings.HasPrefix(message, strings.TrimSuffix(d.Message, "…"))
}

// queuePlaceText says where in the queue the pod is.
func (o *options) queuePlaceText(d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil || d.Queue == nil {
		return ""
	}
	text := fmt.Sprintf("%s, for %s", d.Queue.Where, show.Age(d.Queue.Since, o.Now()))
	if d.Queue.Gate != "" {
		text += ", gated by plugin " + d.Queue.Gate
	}
	return text
}

// preemptionText says how preemption ended.
func preemptionText(p *v1alpha1.PreemptionResult) string {
	if p == nil {
		return ""
	}
	switch p.Outcome {
	case v1alpha1.PreemptionNoCandidates:
		return "no victims would make room"
	case v1alpha1.PreemptionNotEligible:
		return "the pod is not eligible to preempt other pods"
	case v1alpha1.PreemptionVictimsChosen:
		if p.Nodes > 0 {
			return fmt.Sprintf("%s chosen on %s", show.Count(int(p.Victims), "victim"), show.Count(int(p.Nodes), "node"))
		}
		return fmt.Sprintf("%s chosen on one of %s", show.Count(int(p.Victims), "victim"), show.Count(int(p.Candidates), "candidate node"))
	case v1alpha1.PreemptionUnderWay:
		switch {
		case p.Nodes > 0:
			return fmt.Sprintf("waiting for %s on %s to terminate", show.Count(int(p.Victims), "victim"), show.Count(int(p.Nodes), "node"))
		case p.Victims > 0:
			return fmt.Sprintf("waiting for %s to terminate", show.Count(int(p.Victims), "victim"))
		}
		return "waiting for victims to terminate"
	}
	return "the search for victims failed"
}

// rejectionText returns the other parts of a decision: which plugins reject the pod, the
// closest nodes, and the events that requeue it.
func rejectionText(d *v1alpha1.SchedulingDecisionStatus) string {
	if d == nil {
		return ""
	}
	text := ""
	if len(d.Rejections) > 0 {
		text += "\n" + rejectionTable(d.Rejections)
	}
	if len(d.ClosestNodes) > 0 {
		text += "\nClosest nodes:\n"
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
	text += show.DeviceRequests(d.DeviceRequests)
	if len(d.RequeueEvents) > 0 {
		text += "\nRequeued by:\n"
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
	if m.DeviceRequest != "" {
		return fmt.Sprintf("devices for %s: %s requested, %s free", m.DeviceRequest, m.Requested, m.Free)
	}
	if m.Resource != "" {
		return fmt.Sprintf("%s: %s requested, %s free", m.Resource, m.Requested, m.Free)
	}
	return fmt.Sprintf("%s (%s)", m.Reason, m.Plugin)
}
