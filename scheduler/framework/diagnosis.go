package framework

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Refusals says for each node why a pod cannot go there. Nodes that nobody
// asked share one status.
type Refusals struct {
	nodes  []nodeStatus
	byName map[string]*fwk.Status
	absent *fwk.Status
}

type nodeStatus struct {
	node   string
	status *fwk.Status
}

var _ fwk.NodeToStatusReader = &Refusals{}

// NewRefusals returns an empty list; nodes without a status of their own are
// UnschedulableAndUnresolvable.
func NewRefusals() *Refusals {
	return &Refusals{absent: fwk.NewStatus(fwk.UnschedulableAndUnresolvable)}
}

// Add notes a node's status. Only the node that was noted first may come
// again: it is the nominated one, which is tried before the walk and then once
// more in its turn. The newer status replaces the older.
func (r *Refusals) Add(node string, status *fwk.Status) {
	r.byName = nil
	if len(r.nodes) > 0 && r.nodes[0].node == node {
		r.nodes[0].status = status
		return
	}
	r.nodes = append(r.nodes, nodeStatus{node, status})
}

// Reserve makes room for n more nodes.
func (r *Refusals) Reserve(n int) { r.nodes = slices.Grow(r.nodes, n) }

// SetAbsent sets the status of all nodes without one of their own.
func (r *Refusals) SetAbsent(status *fwk.Status) { r.absent = status }

// Len is how many nodes have a status of their own.
func (r *Refusals) Len() int { return len(r.nodes) }

// Each calls f for every node that has a status of its own.
func (r *Refusals) Each(f func(node string, status *fwk.Status)) {
	for _, n := range r.nodes {
		f(n.node, n.status)
	}
}

// Get returns a node's status.
func (r *Refusals) Get(node string) *fwk.Status {
	if r.byName == nil {
		r.byName = make(map[string]*fwk.Status, len(r.nodes))
		for _, n := range r.nodes {
			r.byName[n.node] = n.status
		}
	}
	if status, ok := r.byName[node]; ok {
		return status
	}
	return r.absent
}

// NodesForStatusCode returns the nodes whose status has the given code.
func (r *Refusals) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	var found []fwk.NodeInfo
	if r.absent.Code() != code {
		for _, n := range r.nodes {
			if node, err := lister.Get(n.node); err == nil && n.status.Code() == code {
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

// Verdict is one status, and on how many nodes it holds.
type Verdict struct {
	*fwk.Status
	Nodes int
	// Example is one of them, "" where nobody asked them.
	Example string
}

// verdicts are the statuses of nodes nodes, those noted first at the front.
// Nodes share most of them, so that few are told apart.
func (r *Refusals) verdicts(nodes int) []Verdict {
	var all []Verdict
	known := map[*fwk.Status]int{}
	at := -1
	for _, n := range r.nodes {
		if at < 0 || all[at].Status != n.status {
			seen := false
			if at, seen = known[n.status]; !seen {
				at = len(all)
				known[n.status] = at
				all = append(all, Verdict{Status: n.status, Example: n.node})
			}
		}
		all[at].Nodes++
	}
	if rest := nodes - len(r.nodes); rest > 0 {
		all = append(all, Verdict{Status: r.absent, Nodes: rest})
	}
	return all
}

// Diagnosis is why a pod fits nowhere.
type Diagnosis struct {
	Refusals *Refusals
	// Narrowed are the plugins that ruled out all nodes without a status of
	// their own, by naming others.
	Narrowed []string
	// Unschedulable and Pending are the plugins that refused.
	Unschedulable, Pending sets.Set[string]
	// PreFilterMessage and PostFilterMessage are what those points said.
	PreFilterMessage, PostFilterMessage string
}

// NewDiagnosis returns an empty diagnosis.
func NewDiagnosis() *Diagnosis {
	return &Diagnosis{Refusals: NewRefusals(), Unschedulable: sets.New[string](), Pending: sets.New[string]()}
}

// Blame notes the plugin that a refusal came from.
func (d *Diagnosis) Blame(status *fwk.Status) {
	if status.Plugin() == "" {
		return
	}
	if status.IsRejected() {
		d.Unschedulable.Insert(status.Plugin())
	}
	if status.Code() == fwk.Pending {
		d.Pending.Insert(status.Plugin())
	}
}

// FitError says that a pod fits on none of Nodes nodes. Its text is upstream's,
// which users and tools know: reasons with the number of nodes they concern.
type FitError struct {
	Nodes     int
	Diagnosis *Diagnosis

	verdicts []Verdict
}

// Verdicts are the statuses of all nodes, counted once: nobody adds to the
// diagnosis' refusals any more.
func (e *FitError) Verdicts() []Verdict {
	if e.verdicts == nil {
		e.verdicts = e.Diagnosis.Refusals.verdicts(e.Nodes)
	}
	return e.verdicts
}

func (e *FitError) Error() string {
	text := fmt.Sprintf("0/%v nodes are available:", e.Nodes)
	if e.Diagnosis.PreFilterMessage != "" {
		text += fmt.Sprintf(" %v.", e.Diagnosis.PreFilterMessage)
	} else if reasons := e.reasons(); len(reasons) > 0 {
		text += fmt.Sprintf(" %v.", strings.Join(reasons, ", "))
	}
	if e.Diagnosis.PostFilterMessage != "" {
		text += fmt.Sprintf(" %v", e.Diagnosis.PostFilterMessage)
	}
	return text
}

// reasons counts the nodes by reason, sorted as text.
func (e *FitError) reasons() []string {
	counts := map[string]int{}
	for _, v := range e.Verdicts() {
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
