package explainer

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
)

// newDecision returns the object that a task writes. The pod owns it, and its deletion
// does not wait for the object's.
func newDecision(e explain.Task, now time.Time) *v1alpha1.SchedulingDecision {
	return &v1alpha1.SchedulingDecision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SchedulingDecision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Pod,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: e.Pod, UID: e.UID}},
		},
		Status: statusOf(e.Explanation, now),
	}
}

// maxObjectSize is the largest status, in bytes of JSON. etcd accepts an object of 1.5
// MiB by default, which includes the metadata.
const maxObjectSize = 1 << 20

// statusOf returns what users of the namespace may read of an explanation. It truncates
// texts that exceed the bounds of the schema, since the API server would reject the
// whole object; lists were shortened where they were made. While the status is larger
// than maxObjectSize, it halves the bounds of the texts.
func statusOf(e *decision.Explanation, now time.Time) v1alpha1.SchedulingDecisionStatus {
	for divisor := 1; ; divisor *= 2 {
		c := truncator{divisor: divisor}
		s := c.status(e, now)
		if c.size <= maxObjectSize/8 || divisor == v1alpha1.MaxToken { // a character is escaped as six bytes at most
			return s
		}
		if text, err := json.Marshal(s); err != nil || len(text) <= maxObjectSize {
			return s
		}
	}
}

// hideNodes removes the names of nodes, and their number unless the pod's condition
// PodScheduled has it, as it does when no node is feasible. Entries of closest nodes
// that are equal without the name become one.
func hideNodes(s *v1alpha1.SchedulingDecisionStatus) {
	for i := range s.Rejections {
		s.Rejections[i].ExampleNode = ""
	}
	if s.Nodes != nil && s.Nodes.Feasible > 0 {
		s.Nodes = nil
	}
	var distinct []v1alpha1.ClosestNode
	for _, node := range s.ClosestNodes {
		node.Node = ""
		known := slices.ContainsFunc(distinct, func(n v1alpha1.ClosestNode) bool { return slices.Equal(n.Missing, node.Missing) })
		if !known {
			distinct = append(distinct, node)
		}
	}
	s.ClosestNodes = distinct
}

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
	if s.Group != nil {
		c.text(&s.Group.Name, v1alpha1.MaxName)
		c.text(&s.Group.ExplainedBy, v1alpha1.MaxName)
	}
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
	for i := range s.DeviceRequests {
		c.deviceRequest(&s.DeviceRequests[i])
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
		c.text(&m.DeviceRequest, v1alpha1.MaxDeviceClaim)
		c.text(&m.Requested, v1alpha1.MaxToken)
		c.text(&m.Free, v1alpha1.MaxToken)
		c.text(&m.Plugin, v1alpha1.MaxName)
		c.text(&m.Reason, v1alpha1.MaxReason)
	}
}

func (c *truncator) deviceRequest(r *v1alpha1.DeviceRequestCounts) {
	c.text(&r.Claim, v1alpha1.MaxResource)
	c.text(&r.Request, v1alpha1.MaxName)
	c.text(&r.DeviceClassName, v1alpha1.MaxName)
	for i := range r.Selectors {
		c.text(&r.Selectors[i].Expression, v1alpha1.MaxReason)
	}
}

func (c *truncator) requeueEvents(w *v1alpha1.RequeueEvents) {
	c.text(&w.Plugin, v1alpha1.MaxName)
	w.Events = append([]string{}, w.Events...)
	for i := range w.Events {
		c.text(&w.Events[i], v1alpha1.MaxName)
	}
}
