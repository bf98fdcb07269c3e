package queue

import (
	"github.com/prometheus/client_golang/prometheus"
)

// incoming counts the pods that enter a part of the queue, and why.
var incoming = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "scheduler_queue_incoming_pods_total",
	Help: "Pods added to the scheduling queue, by the part of the queue and the event.",
}, []string{"queue", "event"})

// setAside counts the pods that are set aside.
var setAside = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_pods_set_aside_total",
	Help: "How often a pod was set aside because a plugin panicked or hung at it again and again, by the profile and the plugin.",
}, []string{"profile", "plugin"})

// loopTime is how the loop spends its time.
var loopTime = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_loop_seconds_total",
	Help: "Time that the loop spent on attempts, by the profile. The rest of its time it waited.",
}, []string{"profile"})

// ForgetProfile drops the metric series of a profile that is gone.
func ForgetProfile(profile string) {
	setAside.DeletePartialMatch(prometheus.Labels{"profile": profile})
	loopTime.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// Metrics returns the collectors of this room: what moves, and where the pods
// of all profiles wait at the moment of a scrape.
func (q *Queue) Metrics() []prometheus.Collector {
	return []prometheus.Collector{incoming, setAside, loopTime, pendingPods{q}}
}

// pendingPods counts waiting pods when it is scraped. A gauge kept up to date
// by every move would have to be right in each of them.
type pendingPods struct{ queue *Queue }

var pendingDesc = prometheus.NewDesc("scheduler_pending_pods",
	"Pods that wait, by the part of the queue: active, backoff, unschedulable or gated.",
	[]string{"queue"}, nil)

func (c pendingPods) Describe(ch chan<- *prometheus.Desc) { ch <- pendingDesc }

func (c pendingPods) Collect(ch chan<- prometheus.Metric) {
	counts := map[string]int{"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
	c.queue.mu.Lock()
	for _, p := range c.queue.pods {
		switch p.where {
		case Active:
			counts["active"]++
		case Backoff:
			counts["backoff"]++
		case Unschedulable:
			counts["unschedulable"]++
		case Gated:
			counts["gated"]++
		}
	}
	c.queue.mu.Unlock()
	for part, n := range counts {
		ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(n), part)
	}
}
