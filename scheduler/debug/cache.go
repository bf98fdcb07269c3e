package debug

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// Cache is what is where.
type CacheDump struct {
	Time time.Time `json:"time"`
	// Stale is why the nodes are shown as they were some time ago; empty: they are
	// not.
	Stale string `json:"stale,omitempty"`
	// Placed is how many pods have a node; Assumed are those of them of which the
	// API server has not told so.
	PodsOnNodes int         `json:"placed"`
	Assumed     []PodOnNode `json:"assumed"`
	// Nominated are pods that room is kept for.
	Nominated []PodOnNode `json:"nominated"`
	Nodes     []Node      `json:"nodes"`
}

// Placed is a pod and its node.
type PodOnNode struct {
	PodRef
	Node string `json:"node"`
}

// Node is a node as the loop saw it last.
type Node struct {
	Name string `json:"name"`
	// Gone says that it is not there, and pods on it are.
	Gone bool `json:"gone,omitempty"`
	// Generation grows whenever anything about any node changes.
	Generation  int64   `json:"generation"`
	Pods        int     `json:"pods"`
	Allocatable Amounts `json:"allocatable"`
	Requested   Amounts `json:"requested"`
}

// Amounts are resources by name: cpu in thousandths of a core, all else in whole
// units. What is 0 is left out.
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

// LookIntoCache copies what is where: nodes and pods by name.
func (r Debugger) DumpCache(ctx context.Context) CacheDump {
	c := CacheDump{Time: r.Now(), Stale: r.updateSnapshot(ctx), Assumed: []PodOnNode{}, Nominated: []PodOnNode{}, Nodes: []Node{}}
	for _, place := range r.Cache.AssignedPods() {
		c.PodsOnNodes++
		if place.Assumed {
			c.Assumed = append(c.Assumed, PodOnNode{podRef(place.Pod()), place.Node})
		}
	}
	for _, node := range r.Cache.NominatedNodes() {
		for _, pod := range r.Cache.NominatedPodsForNode(node) {
			c.Nominated = append(c.Nominated, PodOnNode{podRef(pod.GetPod()), node})
		}
	}
	for _, list := range [][]PodOnNode{c.Assumed, c.Nominated} {
		slices.SortFunc(list, func(a, b PodOnNode) int { return comparePodRefs(a.PodRef, b.PodRef) })
	}
	r.Cache.EachNode(func(name string, node *framework.NodeInfo) {
		c.Nodes = append(c.Nodes, Node{
			Name: name, Gone: node.Node() == nil, Generation: node.Generation, Pods: len(node.GetPods()),
			Allocatable: amountsOf(&node.Allocatable), Requested: amountsOf(&node.Requested),
		})
	})
	return c
}
