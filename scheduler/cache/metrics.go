package cache

import "github.com/prometheus/client_golang/prometheus"

var sizeDesc = prometheus.NewDesc("scheduler_cache_size",
	"[ALPHA] What the cache holds, by type: nodes, pods that have a node, and assumed_pods, those of them of which the API server has not told yet.",
	[]string{"type"}, nil)

// sizes counts when it is scraped, so that nothing need be counted before.
type sizeCollector struct{ cache *Cache }

// Metrics returns the collectors of this room.
func (c *Cache) Metrics() []prometheus.Collector { return []prometheus.Collector{sizeCollector{c}} }

func (s sizeCollector) Describe(ch chan<- *prometheus.Desc) { ch <- sizeDesc }

func (s sizeCollector) Collect(ch chan<- prometheus.Metric) {
	pods, assumed := s.cache.Sizes()
	for kind, n := range map[string]int{"nodes": int(s.cache.nodeCount.Load()), "pods": pods, "assumed_pods": assumed} {
		ch <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(n), kind)
	}
}
