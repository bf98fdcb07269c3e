package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// maxGroupDecisions is how many SchedulingDecisions of other pods are read for a pod of a group:
// the first pod's, and that of the pod that does not fit.
const maxGroupDecisions = 2

// GroupDecision is the SchedulingDecision of another pod of the group.
type GroupDecision struct {
	// Pod is the name of the pod.
	Pod                string                             `json:"pod"`
	SchedulingDecision *v1alpha1.SchedulingDecisionStatus `json:"schedulingDecision"`
}

// explanation returns what is known of a pod, and of its group.
func (o *options) explanation(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod, info profileInfo) Explanation {
	var d *v1alpha1.SchedulingDecisionStatus
	if pod.Spec.NodeName == "" {
		d = o.schedulingDecision(ctx, c, pod)
	}
	e := explanationOf(pod, info, d)
	e.Group = groupDecisions(ctx, c, pod, d)
	return e
}

// groupDecisions returns the SchedulingDecisions that say more about the group of a pod with
// decision d, which may be nil. One that is gone, about another group, or not up to date ends
// them: each is written once a minute at most, and a pod may have been replaced meanwhile.
func groupDecisions(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod, d *v1alpha1.SchedulingDecisionStatus) (decisions []GroupDecision) {
	for len(decisions) < maxGroupDecisions && d != nil && d.Group != nil && d.Group.ExplainedBy != "" {
		name, next := d.Group.ExplainedBy, &v1alpha1.SchedulingDecision{}
		known := name == pod.Name || slices.ContainsFunc(decisions, func(g GroupDecision) bool { return g.Pod == name })
		if known || c.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, next) != nil {
			break
		}
		g, older := next.Status.Group, next.Status.LastChange.Before(&d.LastChange)
		if g == nil || g.Source != d.Group.Source || g.Name != d.Group.Name || older && next.Status.Result != d.Result {
			break
		}
		d = &next.Status
		decisions = append(decisions, GroupDecision{Pod: name, SchedulingDecision: d})
	}
	return decisions
}

// cause returns the decision that has the reasons why the pod, or its group, waits, and the pod
// that it is about, "" for the pod itself; nil where nothing is known.
func (e Explanation) cause() (pod string, d *v1alpha1.SchedulingDecisionStatus) {
	if n := len(e.Group); n > 0 {
		return e.Group[n-1].Pod, e.Group[n-1].SchedulingDecision
	}
	return "", e.SchedulingDecision
}

// causeTitle returns what stands before the reasons of another pod of the group; "" for those of
// the pod itself.
func (e Explanation) causeTitle() string {
	pod, cause := e.cause()
	if pod == "" || cause.Nodes == nil {
		return ""
	}
	return fmt.Sprintf("\nThe next pod of the group, %s, fits on none of %s:\n", pod, show.Count(int(cause.Nodes.Total), "node"))
}

// decisions returns all decisions, the pod's own first.
func (e Explanation) decisions() (all []*v1alpha1.SchedulingDecisionStatus) {
	if e.SchedulingDecision != nil {
		all = append(all, e.SchedulingDecision)
	}
	for _, g := range e.Group {
		all = append(all, g.SchedulingDecision)
	}
	return all
}

// preemption returns the outcome of preemption for the pod, or for its group where another pod
// has that; nil where none is known.
func (e Explanation) preemption() *v1alpha1.PreemptionResult {
	for _, d := range e.decisions() {
		if d.Preemption != nil {
			return d.Preemption
		}
	}
	return nil
}

// preempts reports whether the pod, or its group, waits for victims to terminate.
func (e Explanation) preempts() bool {
	if p := e.preemption(); p != nil {
		return p.Outcome == v1alpha1.PreemptionVictimsChosen || p.Outcome == v1alpha1.PreemptionUnderWay
	}
	return e.SchedulingDecision != nil && e.SchedulingDecision.Result == v1alpha1.ResultPreempting
}

// groupText says which group the pod is scheduled with, and how many of its pods fit; "" for a
// pod on its own.
func (o *options) groupText(e Explanation) string {
	d := e.SchedulingDecision
	if d == nil || d.Group == nil {
		return ""
	}
	text := fmt.Sprintf("%s (%s)", d.Group.Name, sourceText(d.Group.Source))
	at := slices.IndexFunc(e.decisions(), func(d *v1alpha1.SchedulingDecisionStatus) bool { return d.Group.Pods > 0 })
	if at < 0 {
		return text + fmt.Sprintf("; pod %s explains why it waits, whose SchedulingDecision is not up to date yet: each is written once a minute at most", d.Group.ExplainedBy)
	}
	counted := e.decisions()[at]
	pod, _ := e.cause()
	return fmt.Sprintf("%s: %s, %s ago", text, countsText(counted, pod), show.Age(counted.LastChange, o.Now()))
}

// countsText says how many pods the group of decision d has, or how many of them fit. gated is
// the pod that is gated where it is another one.
func countsText(d *v1alpha1.SchedulingDecisionStatus, gated string) string {
	_, missing, _ := strings.Cut(d.Message, ": ")
	switch {
	case d.Group.Fit != nil:
		return fitText(d.Group)
	case d.Result == v1alpha1.ResultGated && missing != "":
		return strings.TrimPrefix(missing, "the pod's group ")
	case d.Result == v1alpha1.ResultGated && gated != "":
		return fmt.Sprintf("waits for pod %s, which plugin %s gates", gated, d.BlockedBy)
	}
	return show.Count(int(d.Group.Pods), "pod")
}

// fitText says how many pods of a group fit.
func fitText(g *v1alpha1.DecisionGroup) string {
	text := fmt.Sprintf("%d of %s fit", *g.Fit, show.Count(int(g.Pods), "pod"))
	if g.MinCount > 0 {
		text += fmt.Sprintf(", %d must", g.MinCount)
	}
	if g.NotTried > 0 {
		text += fmt.Sprintf("; %d not tried any more", g.NotTried)
	}
	return text
}

// sourceText says how the pods of a group name it.
func sourceText(source v1alpha1.GroupSource) string {
	switch source {
	case v1alpha1.GroupOfPodGroup:
		return "native PodGroup"
	case v1alpha1.GroupOfAnnotation:
		return "annotation " + v1alpha1.AnnotationPodGroup
	case v1alpha1.GroupOfCoscheduling:
		return "PodGroup of scheduling.x-k8s.io"
	}
	return "label of " + string(source)
}

// groupLookup finds the groups that pods are scheduled with.
type groupLookup struct {
	options *options
	cluster *cluster.Cluster
	// scheduled says for the groups that pods name whether their profile schedules groups.
	scheduled map[podgroups.Key]bool
}

// find returns the group that a pod is scheduled with; ok is false for a pod on its own. It reads
// one SchedulingDecision for each group: a profile without GangScheduling schedules pods that
// name a group one by one.
func (l groupLookup) find(ctx context.Context, pod *corev1.Pod) (key podgroups.Key, ok bool) {
	key, named := podgroups.KeyOf(pod)
	if !named || pod.DeletionTimestamp != nil {
		return key, false
	}
	scheduled, known := l.scheduled[key]
	if !known {
		d := l.options.schedulingDecision(ctx, l.cluster, pod)
		scheduled = d != nil && d.Group != nil
		l.scheduled[key] = scheduled
	}
	return key, scheduled
}
