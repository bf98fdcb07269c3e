package apitest

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gather gathers what collectors say now, as a scrape would.
func Gather(g Gomega, collectors []prometheus.Collector) []*dto.MetricFamily {
	registry := prometheus.NewRegistry()
	for _, collector := range collectors {
		g.Expect(registry.Register(collector)).To(Succeed())
	}
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	return families
}

// BoundAfterFlush is scheduler_pod_scheduled_after_flush_total: pods that were bound
// since a flush woke them, and no event.
func BoundAfterFlush(collectors []prometheus.Collector) float64 {
	GinkgoHelper()
	const name = "scheduler_pod_scheduled_after_flush_total"
	for _, family := range Gather(Default, collectors) {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	Fail("there is no " + name)
	return 0
}
