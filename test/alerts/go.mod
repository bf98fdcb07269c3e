// The alerts and the dashboard, judged by Prometheus' own engine. Nested, so that
// Prometheus never reaches the operator's own module graph.
module github.com/berthdev/berth/test/alerts

go 1.26.0

require (
	github.com/berthdev/berth v0.0.0
	github.com/onsi/ginkgo/v2 v2.27.4
	github.com/onsi/gomega v1.44.0
	github.com/prometheus/common v0.72.0
	github.com/prometheus/prometheus v0.315.0
	k8s.io/api v0.37.1
	k8s.io/apimachinery v0.37.1
	k8s.io/client-go v0.37.1
	k8s.io/kube-scheduler v0.37.1
	sigs.k8s.io/yaml v1.6.0
)

replace github.com/berthdev/berth => ../..
