package cache

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// Readers outside the scheduling loop hold a lock for this many objects at a
// time, so that the loop is not blocked for long.
const (
	nodesPerLock = 64
	podsPerLock  = 512
)

// EachNode calls look with each node as of the last UpdateSnapshot, sorted by
// name, including removed nodes that still have pods. It is safe for concurrent
// use, also while the scheduling loop hangs. The snapshot does not change during
// a call of look, and may between two calls. look must return quickly and must
// not keep the NodeInfo.
func (c *Cache) EachNode(look func(name string, node *framework.NodeInfo)) {
	s := c.snapshot
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.nodes))
	s.mu.Unlock()
	slices.Sort(names)
	for piece := range slices.Chunk(names, nodesPerLock) {
		s.mu.Lock()
		for _, name := range piece {
			if n, ok := s.nodes[name]; ok {
				look(name, n.NodeInfo)
			}
		}
		s.mu.Unlock()
	}
}

// NodeNames returns the names of the nodes in the order in which scheduling
// tries them, as of the last UpdateSnapshot. It is safe for concurrent use.
func (c *Cache) NodeNames() []string {
	s := c.snapshot
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(s.list))
	for i, node := range s.list {
		names[i] = node.Node().Name
	}
	return names
}

// AssignedPod is a pod that has a node, if only an assumed one.
type AssignedPod struct {
	// Info is the pod.
	Info *framework.PodInfo
	Node string
	// Assumed says that the API server has not confirmed the assignment yet.
	Assumed bool
}

// Pod returns the pod as it was delivered: an assumed one has no spec.nodeName.
func (p AssignedPod) Pod() *v1.Pod { return p.Info.OriginalPod() }

// AssignedPods returns the pods that have a node, in no particular order. A pod
// that is added or removed during the call may be missing or present.
func (c *Cache) AssignedPods() []AssignedPod {
	c.mu.Lock()
	uids := slices.Collect(maps.Keys(c.podStates))
	c.mu.Unlock()
	all := make([]AssignedPod, 0, len(uids))
	for piece := range slices.Chunk(uids, podsPerLock) {
		c.mu.Lock()
		for _, uid := range piece {
			if p, ok := c.podStates[uid]; ok {
				all = append(all, AssignedPod{Info: p.info, Node: p.info.NodeName(), Assumed: p.assumed})
			}
		}
		c.mu.Unlock()
	}
	return all
}

var sizeDesc = prometheus.NewDesc("scheduler_cache_size",
	"[ALPHA] Size of the scheduler cache, by type: nodes, pods that have a node, and assumed_pods, those of them that the API server has not confirmed yet.",
	[]string{"type"}, nil)

// sizeCollector reads the sizes of the cache at each scrape.
type sizeCollector struct{ cache *Cache }

// Metrics returns the collectors of this package.
func (c *Cache) Metrics() []prometheus.Collector { return []prometheus.Collector{sizeCollector{c}} }

func (s sizeCollector) Describe(ch chan<- *prometheus.Desc) { ch <- sizeDesc }

func (s sizeCollector) Collect(ch chan<- prometheus.Metric) {
	pods, assumed := s.cache.Sizes()
	for kind, n := range map[string]int{"nodes": int(s.cache.nodeCount.Load()), "pods": pods, "assumed_pods": assumed} {
		ch <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(n), kind)
	}
}
