package controllers

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// newDecision is the object that an errand asks for. The pod owns it and does
// not wait for it to go.
func newDecision(e decision.Errand, now time.Time) *v1alpha1.SchedulingDecision {
	return &v1alpha1.SchedulingDecision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SchedulingDecision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Pod,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: e.Pod, UID: e.UID}},
		},
		Status: statusOf(e.Explanation, now),
	}
}

// statusOf is what the tenants may read of an explanation, within the bounds of
// the schema: what exceeds them would be refused as a whole.
func statusOf(e *decision.Explanation, now time.Time) v1alpha1.SchedulingDecisionStatus {
	s := *e.Status.DeepCopy()
	if !e.Nodes {
		hideNodes(&s)
	}
	if s.LastChange.IsZero() {
		s.LastChange = metav1.NewTime(now)
	}
	s.Profile.Name = clip(s.Profile.Name, v1alpha1.MaxName)
	s.Profile.Hash = clip(s.Profile.Hash, v1alpha1.MaxWord)
	s.Message = clip(s.Message, v1alpha1.MaxExplanation)
	s.BlockedBy = clip(s.BlockedBy, v1alpha1.MaxReason)
	if s.Nodes != nil {
		s.Nodes.Summary = clip(s.Nodes.Summary, v1alpha1.MaxWord)
	}
	if s.Queue != nil {
		s.Queue.Gate = clip(s.Queue.Gate, v1alpha1.MaxName)
		if s.Queue.Since.IsZero() {
			s.Queue.Since = s.LastChange
		}
	}
	s.Rejections = fewer(s.Rejections)
	for i := range s.Rejections {
		clipRejection(&s.Rejections[i])
	}
	s.Nearest = s.Nearest[:min(len(s.Nearest), v1alpha1.MaxNearest)]
	for i := range s.Nearest {
		clipNearMiss(&s.Nearest[i])
	}
	s.WakesOn = s.WakesOn[:min(len(s.WakesOn), v1alpha1.MaxReasons)]
	for i := range s.WakesOn {
		clipWakesOn(&s.WakesOn[i])
	}
	return s
}

// hideNodes leaves out every field that names a node.
func hideNodes(s *v1alpha1.SchedulingDecisionStatus) {
	for i := range s.Rejections {
		s.Rejections[i].ExampleNode = ""
	}
	for i := range s.Nearest {
		s.Nearest[i].Node = ""
	}
}

// fewer sums up what is too much of rejections, the first of which matter most.
func fewer(all []v1alpha1.Rejection) []v1alpha1.Rejection {
	if len(all) <= v1alpha1.MaxReasons {
		return all
	}
	kept, rest := all[:v1alpha1.MaxReasons-1], all[v1alpha1.MaxReasons-1:]
	sum := v1alpha1.Rejection{Code: rest[0].Code, Reason: fmt.Sprintf("%d more reasons", len(rest))}
	for _, r := range rest {
		sum.Nodes = max(sum.Nodes, r.Nodes)
	}
	return append(kept[:len(kept):len(kept)], sum)
}

func clipRejection(r *v1alpha1.Rejection) {
	r.Plugin = clip(r.Plugin, v1alpha1.MaxName)
	r.Code = clip(r.Code, v1alpha1.MaxWord)
	r.Reason = clip(r.Reason, v1alpha1.MaxReason)
	r.ExampleNode = clip(r.ExampleNode, v1alpha1.MaxName)
}

func clipNearMiss(n *v1alpha1.NearMiss) {
	n.Node = clip(n.Node, v1alpha1.MaxName)
	n.Missing = append([]v1alpha1.Missing{}, n.Missing[:min(len(n.Missing), v1alpha1.MaxReasons)]...)
	for i := range n.Missing {
		m := &n.Missing[i]
		m.Resource = clip(m.Resource, v1alpha1.MaxResource)
		m.Requested, m.Free = clip(m.Requested, v1alpha1.MaxWord), clip(m.Free, v1alpha1.MaxWord)
		m.Plugin, m.Reason = clip(m.Plugin, v1alpha1.MaxName), clip(m.Reason, v1alpha1.MaxReason)
	}
}

func clipWakesOn(w *v1alpha1.WakesOn) {
	w.Plugin = clip(w.Plugin, v1alpha1.MaxName)
	// A list that must be there is not nil.
	w.Events = append([]string{}, w.Events[:min(len(w.Events), v1alpha1.MaxReasons)]...)
	for i := range w.Events {
		w.Events[i] = clip(w.Events[i], v1alpha1.MaxName)
	}
}
