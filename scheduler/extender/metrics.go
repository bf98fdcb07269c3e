package extender

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_extender_answers_total",
		Help: "[ALPHA] Questions to extenders by profile, extender, verb and what came of them. A request that was answered by what cannot be true counts as answered and as false.",
	}, []string{"profile", "extender", "verb", "result"})
	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_extender_request_duration_seconds",
		Help:    "[ALPHA] Time from a question to an extender to its answer, or to the end of waiting, by profile, extender and verb.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"profile", "extender", "verb"})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{requests, durations} }

// ForgetProfile drops the series of a profile that is gone.
func ForgetProfile(profile string) {
	requests.DeletePartialMatch(prometheus.Labels{"profile": profile})
	durations.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

func (c *Client) observe(verb string, begin time.Time, err *Error) {
	durations.WithLabelValues(c.profile, c.config.Name, verb).Observe(c.options.Clock.Since(begin).Seconds())
	kind := Answered
	if err != nil {
		kind = err.Kind
	}
	c.count(verb, kind)
}

func (c *Client) count(verb string, kind Kind) {
	requests.WithLabelValues(c.profile, c.config.Name, verb, string(kind)).Inc()
}
