package extender

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind says how a request to an extender ended; the values of the metrics' label
// result.
type Kind string

const (
	// Answered: the request succeeded.
	Answered Kind = "answered"
	// Unreachable: no connection, an unverified certificate, or a forbidden address.
	Unreachable Kind = "unreachable"
	// Late: no complete answer within the timeout.
	Late Kind = "late"
	// Refused: another status than 200, including redirects.
	Refused Kind = "refused"
	// Garbled: an answer that is too long or malformed.
	Garbled Kind = "garbled"
	// False: a well-formed answer that is invalid.
	False Kind = "false"
	// Failed: the extender reports an error.
	Failed Kind = "failed"
	// Crowded: too many requests are in flight.
	Crowded Kind = "crowded"
)

// Error is a failed request to an extender. Everybody who may read the pod can read its
// text. It therefore says nothing about the server, nor how the connection failed: an
// extender's URL must not help to explore a network.
type Error struct {
	// Extender and Verb identify the request.
	Extender, Verb string
	Kind           Kind
	// Message is the text for users.
	Message string
	// Cause is for the log alone; may be nil.
	Cause error
}

func (e *Error) Error() string {
	return fmt.Sprintf("extender %q: %s: %s", e.Extender, e.Verb, e.Message)
}

// Limits of messages from extenders.
const (
	maxMessageBytes = 256
	maxReasons      = 16
)

// sanitizeMessage makes a message from an extender short, printable and one line.
func sanitizeMessage(message string) string {
	var b strings.Builder
	for _, r := range message {
		if b.Len() >= maxMessageBytes {
			return b.String() + "…"
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_extender_answers_total",
		Help: "[ALPHA] Requests to extenders by profile, extender, verb and result. A request with an invalid answer counts as answered and as false.",
	}, []string{"profile", "extender", "verb", "result"})
	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_extender_request_duration_seconds",
		Help:    "[ALPHA] Time from a request to an extender until its answer or its timeout, by profile, extender and verb.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"profile", "extender", "verb"})
)

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{requests, durations} }

// ForgetProfile deletes the series of a removed profile.
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
