package debug

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// CacheDump is a copy of the nodes and of the pods that are on or bound for them.
type CacheDump struct {
	Time time.Time `json:"time"`
	// Stale is why the snapshot could not be updated, so that the nodes are shown as of
	// the last scheduling cycle; empty when they are current.
	Stale string `json:"stale,omitempty"`
	// PodsOnNodes is how many pods have a node. Assumed are those of them that the API
	// server has not confirmed.
	PodsOnNodes int         `json:"podsOnNodes"`
	Assumed     []PodOnNode `json:"assumed"`
	// Nominated are pods with a nominated node.
	Nominated []PodOnNode `json:"nominated"`
	Nodes     []Node      `json:"nodes"`
}

// PodOnNode is a pod and its node.
type PodOnNode struct {
	PodRef
	Node string `json:"node"`
}

// Node is a node as of the last update of the snapshot.
type Node struct {
	Name string `json:"name"`
	// Deleted says that the node was deleted and pods on it were not.
	Deleted bool `json:"deleted,omitempty"`
	// Generation increases with every change of a node.
	Generation  int64   `json:"generation"`
	Pods        int     `json:"pods"`
	Allocatable Amounts `json:"allocatable"`
	Requested   Amounts `json:"requested"`
}

// Amounts are resources by name, cpu in millicores and all others in whole units.
// Zero amounts are left out.
type Amounts map[string]int64

func amountsOf(r *framework.Resource) Amounts {
	a := Amounts{
		string(v1.ResourceCPU): r.MilliCPU, string(v1.ResourceMemory): r.Memory,
		string(v1.ResourceEphemeralStorage): r.EphemeralStorage, string(v1.ResourcePods): int64(r.AllowedPodNumber),
	}
	for name, n := range r.ScalarResources {
		a[string(name)] = n
	}
	for name, n := range a {
		if n == 0 {
			delete(a, name)
		}
	}
	return a
}

// DumpCache copies the cache: nodes and pods, sorted by name.
func (d Debugger) DumpCache(ctx context.Context) CacheDump {
	c := CacheDump{Time: d.Now(), Stale: d.updateSnapshot(ctx), Assumed: []PodOnNode{}, Nominated: []PodOnNode{}, Nodes: []Node{}}
	for _, place := range d.Cache.AssignedPods() {
		c.PodsOnNodes++
		if place.Assumed {
			c.Assumed = append(c.Assumed, PodOnNode{podRef(place.Pod()), place.Node})
		}
	}
	for _, node := range d.Cache.NominatedNodes() {
		for _, pod := range d.Cache.NominatedPodsForNode(node) {
			c.Nominated = append(c.Nominated, PodOnNode{podRef(pod.GetPod()), node})
		}
	}
	for _, list := range [][]PodOnNode{c.Assumed, c.Nominated} {
		slices.SortFunc(list, func(a, b PodOnNode) int { return comparePodRefs(a.PodRef, b.PodRef) })
	}
	d.Cache.EachNode(func(name string, node *framework.NodeInfo) {
		c.Nodes = append(c.Nodes, Node{
			Name: name, Deleted: node.Node() == nil, Generation: node.Generation, Pods: len(node.GetPods()),
			Allocatable: amountsOf(&node.Allocatable), Requested: amountsOf(&node.Requested),
		})
	})
	return c
}

// NodeOrder is the order in which nodes are filtered: one node of each zone in turn,
// zones and the nodes of a zone in the order in which this process added them.
type NodeOrder struct {
	Time time.Time `json:"time"`
	// Stale is why the snapshot could not be updated, so that the nodes are shown as of
	// the last scheduling cycle; empty when they are current.
	Stale string   `json:"stale,omitempty"`
	Nodes []string `json:"nodes"`
}

// DumpNodeOrder copies the names of the nodes, in order.
func (d Debugger) DumpNodeOrder(ctx context.Context) NodeOrder {
	return NodeOrder{Time: d.Now(), Stale: d.updateSnapshot(ctx), Nodes: d.Cache.NodeNames()}
}

// WriteText writes o as text.
func (o NodeOrder) WriteText(w io.Writer) error {
	stale := ""
	if o.Stale != "" {
		stale = ", not up to date: " + o.Stale
	}
	fmt.Fprintf(w, "%d nodes at %s%s\n", len(o.Nodes), formatTime(o.Time), stale)
	for _, name := range o.Nodes {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}
