package framework

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// NodeToStatus holds for each node why a pod does not fit there. Nodes that
// were not evaluated share one status.
type NodeToStatus struct {
	nodes []nodeStatus
	// byName is made by the first Get: plugins may call Get from several goroutines.
	byName            atomic.Pointer[map[string]*fwk.Status]
	absentNodesStatus *fwk.Status
}

type nodeStatus struct {
	node   string
	status *fwk.Status
}

var _ fwk.NodeToStatusReader = &NodeToStatus{}

// NewNodeToStatus returns an empty NodeToStatus. Nodes without a status of
// their own are UnschedulableAndUnresolvable.
func NewNodeToStatus() *NodeToStatus {
	return &NodeToStatus{absentNodesStatus: fwk.NewStatus(fwk.UnschedulableAndUnresolvable)}
}

// Set sets a node's status. Only the first node may be set again: it is the
// nominated one, which is evaluated first alone and then once more with all
// others. The newer status replaces the older.
func (r *NodeToStatus) Set(node string, status *fwk.Status) {
	r.byName.Store(nil)
	if len(r.nodes) > 0 && r.nodes[0].node == node {
		r.nodes[0].status = status
		return
	}
	r.nodes = append(r.nodes, nodeStatus{node, status})
}

// Grow makes space for n more nodes.
func (r *NodeToStatus) Grow(n int) { r.nodes = slices.Grow(r.nodes, n) }

// SetAbsentNodesStatus sets the status of all nodes without one of their own.
func (r *NodeToStatus) SetAbsentNodesStatus(status *fwk.Status) { r.absentNodesStatus = status }

// Len is the number of nodes with a status of their own.
func (r *NodeToStatus) Len() int { return len(r.nodes) }

// ForEachExplicitNode calls f for every node with a status of its own.
func (r *NodeToStatus) ForEachExplicitNode(f func(node string, status *fwk.Status)) {
	for _, n := range r.nodes {
		f(n.node, n.status)
	}
}

// Get returns a node's status. It is safe for concurrent use beside other reads.
func (r *NodeToStatus) Get(node string) *fwk.Status {
	byName := r.byName.Load()
	if byName == nil {
		statuses := make(map[string]*fwk.Status, len(r.nodes))
		for _, n := range r.nodes {
			statuses[n.node] = n.status
		}
		byName = &statuses
		r.byName.Store(byName)
	}
	if status, ok := (*byName)[node]; ok {
		return status
	}
	return r.absentNodesStatus
}

// NodesForStatusCode returns the nodes whose status has the given code.
func (r *NodeToStatus) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	var found []fwk.NodeInfo
	if r.absentNodesStatus.Code() != code {
		found = make([]fwk.NodeInfo, 0, len(r.nodes))
		for _, n := range r.nodes {
			if n.status.Code() != code {
				continue
			}
			if node, err := lister.Get(n.node); err == nil {
				found = append(found, node)
			}
		}
		return found, nil
	}
	all, err := lister.List()
	if err != nil || len(r.nodes) == 0 {
		return all, err
	}
	for _, node := range all {
		if r.Get(node.Node().Name).Code() == code {
			found = append(found, node)
		}
	}
	return found, nil
}

// StatusCount is a status and the number of nodes that have it.
type StatusCount struct {
	*fwk.Status
	Nodes int
	// ExampleNode is one of the nodes; "" if none of them was evaluated.
	ExampleNode string
}

// statusCounts returns the statuses of a cluster of nodes nodes, in the order
// in which they were first set. Most nodes share one of a few statuses.
func (r *NodeToStatus) statusCounts(nodes int) []StatusCount {
	var all []StatusCount
	known := map[*fwk.Status]int{}
	at := -1
	for _, n := range r.nodes {
		if at < 0 || all[at].Status != n.status {
			seen := false
			if at, seen = known[n.status]; !seen {
				at = len(all)
				known[n.status] = at
				all = append(all, StatusCount{Status: n.status, ExampleNode: n.node})
			}
		}
		all[at].Nodes++
	}
	if rest := nodes - len(r.nodes); rest > 0 {
		all = append(all, StatusCount{Status: r.absentNodesStatus, Nodes: rest})
	}
	return all
}

// Diagnosis is why a pod does not fit on any node.
type Diagnosis struct {
	NodeToStatus *NodeToStatus
	// NarrowedBy are the PreFilter plugins that excluded all nodes without a
	// status of their own.
	NarrowedBy []string
	// UnschedulablePlugins and PendingPlugins are the plugins that rejected the
	// pod or a node.
	UnschedulablePlugins, PendingPlugins sets.Set[string]
	// PreFilterMsg and PostFilterMsg are the messages of these extension
	// points.
	PreFilterMsg, PostFilterMsg string
}

// NewDiagnosis returns an empty diagnosis.
func NewDiagnosis() *Diagnosis {
	return &Diagnosis{NodeToStatus: NewNodeToStatus(), UnschedulablePlugins: sets.New[string](), PendingPlugins: sets.New[string]()}
}

// AddPluginStatus adds the plugin of a rejection.
func (d *Diagnosis) AddPluginStatus(status *fwk.Status) {
	if status.Plugin() == "" {
		return
	}
	if status.IsRejected() {
		d.UnschedulablePlugins.Insert(status.Plugin())
	}
	if status.Code() == fwk.Pending {
		d.PendingPlugins.Insert(status.Plugin())
	}
}

// FitError says that a pod does not fit on any node. Its text is
// kube-scheduler's, which users and tools know: each reason with the number of
// nodes it applies to.
type FitError struct {
	NumAllNodes int
	Diagnosis   *Diagnosis

	statusCounts []StatusCount
}

// StatusCounts returns the statuses of all nodes. It counts them once; the
// diagnosis must not change afterwards.
func (e *FitError) StatusCounts() []StatusCount {
	if e.statusCounts == nil {
		e.statusCounts = e.Diagnosis.NodeToStatus.statusCounts(e.NumAllNodes)
	}
	return e.statusCounts
}

func (e *FitError) Error() string {
	text := fmt.Sprintf("0/%v nodes are available:", e.NumAllNodes)
	if e.Diagnosis.PreFilterMsg != "" {
		text += fmt.Sprintf(" %v.", e.Diagnosis.PreFilterMsg)
	} else if reasons := e.reasons(); len(reasons) > 0 {
		text += fmt.Sprintf(" %v.", strings.Join(reasons, ", "))
	}
	if e.Diagnosis.PostFilterMsg != "" {
		text += fmt.Sprintf(" %v", e.Diagnosis.PostFilterMsg)
	}
	return text
}

// reasons returns the reasons, each after its number of nodes, sorted.
func (e *FitError) reasons() []string {
	counts := map[string]int{}
	for _, v := range e.StatusCounts() {
		for _, reason := range v.Reasons() {
			counts[reason] += v.Nodes
		}
	}
	var texts []string
	for reason, n := range counts {
		texts = append(texts, fmt.Sprintf("%v %v", n, reason))
	}
	sort.Strings(texts)
	return texts
}
