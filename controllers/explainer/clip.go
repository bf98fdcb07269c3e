package explainer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// truncator cuts texts to the bounds of the schema, or to a part of them.
type truncator struct {
	// divisor divides the bounds of the schema. It is at most v1alpha1.MaxToken, the
	// smallest bound.
	divisor int
	// size is the length of all texts so far, in bytes.
	size int
}

func (c *truncator) text(text *string, limit int) {
	*text = decision.Truncate(*text, limit/c.divisor)
	c.size += len(*text)
}

func (c *truncator) status(e *decision.Explanation, now time.Time) v1alpha1.SchedulingDecisionStatus {
	s := *e.Status.DeepCopy()
	if !e.Nodes {
		hideNodes(&s)
	}
	if s.LastChange.IsZero() {
		s.LastChange = metav1.NewTime(now)
	}
	c.text(&s.Profile.Name, v1alpha1.MaxName)
	c.text(&s.Profile.Hash, v1alpha1.MaxToken)
	c.text(&s.Message, v1alpha1.MaxExplanation)
	c.text(&s.BlockedBy, v1alpha1.MaxReason)
	if s.Nodes != nil {
		c.text(&s.Nodes.Summary, v1alpha1.MaxToken)
	}
	if s.Queue != nil {
		c.text(&s.Queue.Gate, v1alpha1.MaxName)
		if s.Queue.Since.IsZero() {
			s.Queue.Since = s.LastChange
		}
	}
	for i := range s.Rejections {
		c.rejection(&s.Rejections[i])
	}
	for i := range s.ClosestNodes {
		c.closestNode(&s.ClosestNodes[i])
	}
	for i := range s.RequeueEvents {
		c.requeueEvents(&s.RequeueEvents[i])
	}
	return s
}

func (c *truncator) rejection(r *v1alpha1.Rejection) {
	c.text(&r.Plugin, v1alpha1.MaxName)
	c.text(&r.Code, v1alpha1.MaxToken)
	c.text(&r.Reason, v1alpha1.MaxReason)
	c.text(&r.ExampleNode, v1alpha1.MaxName)
}

func (c *truncator) closestNode(n *v1alpha1.ClosestNode) {
	c.text(&n.Node, v1alpha1.MaxName)
	n.Missing = append([]v1alpha1.Missing{}, n.Missing...) // a required list must not be nil
	for i := range n.Missing {
		m := &n.Missing[i]
		c.text(&m.Resource, v1alpha1.MaxResource)
		c.text(&m.Requested, v1alpha1.MaxToken)
		c.text(&m.Free, v1alpha1.MaxToken)
		c.text(&m.Plugin, v1alpha1.MaxName)
		c.text(&m.Reason, v1alpha1.MaxReason)
	}
}

func (c *truncator) requeueEvents(w *v1alpha1.RequeueEvents) {
	c.text(&w.Plugin, v1alpha1.MaxName)
	w.Events = append([]string{}, w.Events...)
	for i := range w.Events {
		c.text(&w.Events[i], v1alpha1.MaxName)
	}
}
