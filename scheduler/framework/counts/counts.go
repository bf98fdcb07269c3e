// Package counts holds the nodes of a snapshot in columns, and defines how pods
// are counted by topology domain. Implementations are in the package cache:
// incremental counts, and the scan of all nodes as their reference.
package counts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Counts counts pods by topology domain, as of the last cache.UpdateSnapshot.
// It is the only way in which plugins read pods of other nodes.
//
// A query holds everything that its answer depends on, so that an
// implementation can cache answers and update them with each change of the
// snapshot, instead of visiting all pods again.
type Counts interface {
	// Pods returns, for each query, the number of pods by domain.
	Pods(queries ...PodQuery) []*DomainSums
	// Terms returns the sums of the weights of the affinity terms that the
	// query's pod matches, by topology domain of the pods that have the terms.
	// A domain is listed if a term there matches, whatever the sum of the
	// weights.
	Terms(query TermQuery) *TermSums
	// PodsOnNode counts the pods on one node, which may be a modified copy of
	// the snapshot's.
	PodsOnNode(node fwk.NodeInfo, pods *PodSet) int64
}

// Incremental are Counts whose answers are updated with the snapshot.
type Incremental interface {
	Counts
	// ByNode counts pods by the slot of their node. Slots beyond the end of the
	// result have no pods.
	ByNode(pods *PodSet) *NodeCounts
}

// NodeCounts are numbers by slot that are updated with the snapshot.
type NodeCounts struct {
	BySlot []int32
	// LastQuery is the number of the last query of the Columns that used the
	// counts.
	LastQuery uint64
	Dropped   bool

	queries *uint64
}

// NewNodeCounts returns counts for the slots of columns, all 0.
func NewNodeCounts(columns *Columns) *NodeCounts {
	return &NodeCounts{queries: columns.QueryCounter(), LastQuery: *columns.QueryCounter()}
}

// Current reports whether the counts are still updated with the snapshot, and
// counts as a use of them.
func (n *NodeCounts) Current() bool {
	if n.queries != nil {
		n.LastQuery = *n.queries
	}
	return !n.Dropped
}

// Lister is a SharedLister with Counts.
type Lister interface {
	fwk.SharedLister
	Counts() Counts
}

// Of returns the Counts of handle, or an error if handle has none because
// it is not a Framework.
func Of(handle fwk.Handle) (Counts, error) {
	if handle == nil {
		return nil, fmt.Errorf("handle: is nil, want one whose SnapshotSharedLister counts pods")
	}
	lister, ok := handle.SnapshotSharedLister().(Lister)
	if !ok {
		return nil, fmt.Errorf("handle: SnapshotSharedLister is a %T, want one that counts pods", handle.SnapshotSharedLister())
	}
	return lister.Counts(), nil
}

// PodQuery asks for the number of pods by domain, that is by the value of the
// label TopologyKey of their node. Queries that share a PodSet or a Scope are
// cheaper.
type PodQuery struct {
	TopologyKey string
	Pods        *PodSet
	// Scope selects the nodes that count; nil means all.
	Scope *Scope
	// IncludeUnlabelled counts nodes without the label as the domain "".
	// Without it they count nowhere.
	IncludeUnlabelled bool
	// IncludeEmpty lists domains without such pods, too. Without it they may or
	// may not be listed.
	IncludeEmpty bool
	// Within limits the answer to these domains, if it is not nil; others may
	// be missing from it.
	Within sets.Set[string]
}

// Domain returns the domain for which pods on node count. ok is false if the
// node does not count. This defines the answer to the query.
func (q *PodQuery) Domain(node *v1.Node) (domain string, ok bool) {
	domain, ok = node.Labels[q.TopologyKey]
	if !ok && !q.IncludeUnlabelled {
		return "", false
	}
	if q.Within != nil && !q.Within.Has(domain) {
		return "", false
	}
	return domain, q.Scope.Includes(node)
}

// PodSet selects pods by namespace and labels.
type PodSet struct {
	// Namespaces are names; nil means every namespace, empty means none.
	Namespaces sets.Set[string]
	Selector   labels.Selector
	// Terminating includes pods that are being deleted.
	Terminating bool
}

// Has reports whether the set contains pod.
func (s *PodSet) Has(pod *v1.Pod) bool {
	return (s.Namespaces == nil || s.Namespaces.Has(pod.Namespace)) && s.selects(pod)
}

func (s *PodSet) selects(pod *v1.Pod) bool {
	return (s.Terminating || pod.DeletionTimestamp == nil) && s.Selector.Matches(labels.Set(pod.Labels))
}

// CountOnNode counts the pods of the set on node. Scans spend their time here,
// so a single namespace is compared instead of looked up.
func (s *PodSet) CountOnNode(node fwk.NodeInfo) int64 {
	namespace, one := "", len(s.Namespaces) == 1
	if one {
		for namespace = range s.Namespaces {
		}
	}
	var n int64
	for _, info := range node.GetPods() {
		if pod := framework.OriginalPod(info); one && pod.Namespace == namespace && s.selects(pod) || !one && s.Has(pod) {
			n++
		}
	}
	return n
}

// Intersect returns the pods that are in all of the sets. The number of sets is
// not bounded, so it joins all selectors at once.
func (s *PodSet) Intersect(others ...*PodSet) *PodSet {
	all := *s
	_, selects := s.Selector.Requirements()
	var more []labels.Requirement
	for _, other := range others {
		switch {
		case all.Namespaces == nil:
			all.Namespaces = other.Namespaces
		case other.Namespaces != nil:
			all.Namespaces = all.Namespaces.Intersection(other.Namespaces)
		}
		all.Terminating = all.Terminating && other.Terminating
		requirements, any := other.Selector.Requirements()
		selects, more = selects && any, append(more, requirements...)
	}
	switch {
	case !selects:
		all.Selector = labels.Nothing()
	case len(more) > 0:
		all.Selector = s.Selector.Add(more...)
	}
	return &all
}

// Scope selects the nodes that count for a pod. A nil Scope includes every
// node.
type Scope struct {
	// RequiredLabels are label keys that a node must have.
	RequiredLabels []string
	// Pod is the pod whose affinity and tolerations the next two fields mean.
	Pod *v1.Pod
	// HonorAffinity excludes nodes that Pod's nodeSelector and required node
	// affinity do not match. A term that does not parse matches no node.
	HonorAffinity bool
	// HonorTaints excludes nodes with a NoSchedule or NoExecute taint that Pod
	// does not tolerate.
	HonorTaints bool

	required nodeaffinity.RequiredNodeAffinity
}

// NewScope returns a Scope with these fields.
func NewScope(pod *v1.Pod, labels []string, honorAffinity, honorTaints bool) *Scope {
	return &Scope{
		RequiredLabels: labels, Pod: pod, HonorAffinity: honorAffinity, HonorTaints: honorTaints,
		required: nodeaffinity.GetRequiredNodeAffinity(pod),
	}
}

// Includes reports whether node counts.
func (s *Scope) Includes(node *v1.Node) bool {
	if s == nil {
		return true
	}
	for _, key := range s.RequiredLabels {
		if _, ok := node.Labels[key]; !ok {
			return false
		}
	}
	if s.HonorAffinity {
		if selected, _ := s.required.Match(node); !selected {
			return false
		}
	}
	return !s.HonorTaints || framework.UntoleratedTaint(node.Spec.Taints, s.Pod.Spec.Tolerations) == nil
}
