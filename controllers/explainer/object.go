package explainer

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/fault"
)

// newDecision is the object that an errand asks for. The pod owns it and does
// not wait for it to go.
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

// maxBytes is how much an explanation may be as JSON: etcd takes 1.5 MiB of an
// object by default, and what else an object has is in there, too.
const maxObjectSize = 1 << 20

// statusOf is what the tenants may read of an explanation. Texts that exceed the
// bounds of the schema would have it refused as a whole, as would an object that
// etcd has no room for; lists have been summed up where they were made. Where all
// of it together is too much, each text is cut to half as much, and again.
func statusOf(e *decision.Explanation, now time.Time) v1alpha1.SchedulingDecisionStatus {
	for share := 1; ; share *= 2 {
		c := truncator{divisor: share}
		s := c.status(e, now)
		if c.size <= maxObjectSize/8 || share == v1alpha1.MaxToken { // a character is escaped as six bytes at most
			return s
		}
		if text, err := json.Marshal(s); err != nil || len(text) <= maxObjectSize {
			return s
		}
	}
}

// hideNodes leaves out every field that names a node, and how many nodes there
// are, unless the pod's own condition says it: that none is feasible. Closest
// nodes that then read alike are one entry.
func hideNodes(s *v1alpha1.SchedulingDecisionStatus) {
	for i := range s.Rejections {
		s.Rejections[i].ExampleNode = ""
	}
	if s.Nodes != nil && s.Nodes.Feasible > 0 && !fault.AnnotationNamesNodes {
		s.Nodes = nil
	}
	var distinct []v1alpha1.ClosestNode
	for _, near := range s.ClosestNodes {
		near.Node = ""
		twice := slices.ContainsFunc(distinct, func(n v1alpha1.ClosestNode) bool { return slices.Equal(n.Missing, near.Missing) })
		if !twice || fault.LinesTwice {
			distinct = append(distinct, near)
		}
	}
	s.ClosestNodes = distinct
}
