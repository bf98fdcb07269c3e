package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Counts says how many pods there are in the domains of a topology, as of the
// last cache.Refresh. It is the one way in which plugins look at pods beyond
// the node that they are asked about.
//
// Everything that an answer depends on stands in the question, so that an
// implementation may keep the answers and move them with each change instead
// of looking at all pods again.
type Counts interface {
	// Pods answers each query with the number of pods by domain.
	Pods(queries ...PodQuery) []*DomainSums
	// Terms answers with the weight of the affinity terms that the pod of the
	// query matches, by domain of the pods that have them. A domain is listed
	// when a term there matches, whatever the weights add up to.
	Terms(query TermQuery) *TermSums
	// On counts the pods on one node, which may be a copy that differs from
	// the snapshot.
	PodsOnNode(node fwk.NodeInfo, pods *PodSet) int64
}

// KeptCounts are Counts whose answers move with the snapshot.
type IncrementalCounts interface {
	Counts
	// ByNode counts pods by the slot of their node. Pods in slots beyond its
	// end are none.
	ByNode(pods *PodSet) *NodeCounts
	// Columns are what the answers' domains and slots are those of.
	Columns() *Columns
}

// NodeNumbers are numbers by slot that move with the snapshot.
type NodeCounts struct {
	BySlot []int32
	// Turn is the turn of the Columns in which the numbers were used last.
	LastQuery uint64
	Dropped   bool

	queries *uint64
}

// NewNodeNumbers returns numbers by the slots of columns, all 0.
func NewNodeCounts(columns *Columns) *NodeCounts {
	return &NodeCounts{queries: columns.QueryCounter(), LastQuery: *columns.QueryCounter()}
}

// Current reports whether the numbers still move with the snapshot, and counts as
// a use.
func (n *NodeCounts) Current() bool {
	if n.queries != nil {
		n.LastQuery = *n.queries
	}
	return !n.Dropped
}

// CountingLister is a SharedLister whose pods are counted.
type CountingLister interface {
	fwk.SharedLister
	Counts() Counts
}

// CountsOf returns the counts that come with handle. The error says that it
// has none, as a Handle that is not Berth's.
func CountsOf(handle fwk.Handle) (Counts, error) {
	if handle == nil {
		return nil, fmt.Errorf("handle: is nil, want one whose SnapshotSharedLister counts pods")
	}
	lister, ok := handle.SnapshotSharedLister().(CountingLister)
	if !ok {
		return nil, fmt.Errorf("handle: SnapshotSharedLister is a %T, want one that counts pods", handle.SnapshotSharedLister())
	}
	return lister.Counts(), nil
}

// PodQuery asks for a number of pods by domain: by the value that their nodes
// have under TopologyKey. Queries that share a PodSet or a Scope cost less.
type PodQuery struct {
	TopologyKey string
	Pods        *PodSet
	// Scope is which nodes count; nil means all.
	Scope *Scope
	// Unlabelled puts nodes without the label into the domain "" instead of
	// into none.
	IncludeUnlabelled bool
	// Vacant lists the domains that hold no such pod as well; without it they
	// may be listed or not.
	IncludeEmpty bool
	// Within, when it is not nil, are the domains that are asked about; others
	// may be left out of the answer.
	Within sets.Set[string]
}

// Domain returns the domain that a node puts its pods into, and whether the
// node counts at all. It is what an answer is defined by.
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

// PodSet is the pods of some namespaces that a selector matches.
type PodSet struct {
	// Namespaces are names; nil means every namespace, empty means none.
	Namespaces sets.Set[string]
	Selector   labels.Selector
	// Terminating says that pods which are being deleted count as well.
	Terminating bool
}

// Has reports whether pod is one of the set.
func (s *PodSet) Has(pod *v1.Pod) bool {
	return (s.Namespaces == nil || s.Namespaces.Has(pod.Namespace)) && s.selects(pod)
}

func (s *PodSet) selects(pod *v1.Pod) bool {
	return (s.Terminating || pod.DeletionTimestamp == nil) && s.Selector.Matches(labels.Set(pod.Labels))
}

// On counts the pods of the set that are on node. It is where a scan spends
// its time, so one namespace is compared rather than looked up.
func (s *PodSet) CountOnNode(node fwk.NodeInfo) int64 {
	namespace, one := "", len(s.Namespaces) == 1
	if one {
		for namespace = range s.Namespaces {
		}
	}
	var n int64
	for _, info := range node.GetPods() {
		if pod := originalPod(info); one && pod.Namespace == namespace && s.selects(pod) || !one && s.Has(pod) {
			n++
		}
	}
	return n
}

// And returns the pods that are in every one of the sets. Nobody bounds how
// many there are, so their selectors are joined once and not one by one.
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

// Scope is which nodes count for a pod. A nil Scope holds every node.
type Scope struct {
	// Labels are the keys of labels that a node must carry.
	RequiredLabels []string
	// Pod is whose wishes the next two fields speak of.
	Pod *v1.Pod
	// HonorAffinity leaves out nodes that Pod's nodeSelector and required node
	// affinity do not select; a term that does not parse selects none.
	HonorAffinity bool
	// HonorTaints leaves out nodes with a taint that keeps Pod off.
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

// Holds reports whether node counts.
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
	return !s.HonorTaints || UntoleratedTaint(node.Spec.Taints, s.Pod.Spec.Tolerations) == nil
}

// Tolerates reports whether one of tolerations covers taint. The operators Lt
// and Gt cover nothing, as the gate TaintTolerationComparisonOperators is off
// in 1.37.
func Tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}

// UntoleratedTaint returns the first of taints that keeps a pod with
// tolerations off a node (NoSchedule or NoExecute), or nil.
func UntoleratedTaint(taints []v1.Taint, tolerations []v1.Toleration) *v1.Taint {
	for i := range taints {
		taint := &taints[i]
		repels := taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
		if repels && !Tolerates(tolerations, taint) {
			return taint
		}
	}
	return nil
}
