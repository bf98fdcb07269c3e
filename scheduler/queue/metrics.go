package queue

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// incomingPods counts the pods that enter a part of the queue, by the event that
// moved them.
var incomingPods = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "scheduler_queue_incoming_pods_total",
	Help: "[STABLE] Number of pods added to the scheduling queue, by queue and event.",
}, []string{"queue", "event"})

// incomingGroups counts the groups that do, and incomingMembers their pods, which are part of
// incomingPods.
var (
	incomingGroups  = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "groups", Help: "not exported"}, []string{"queue", "event"})
	incomingMembers = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "members", Help: "not exported"}, []string{"queue", "event"})
)

// countIncoming counts that a pod or group enters a part of the queue.
func countIncoming(p *Entity, to, event string) {
	if p.podGroup == nil {
		incomingPods.WithLabelValues(to, event).Inc()
		return
	}
	pods := float64(len(p.podGroup.members))
	incomingPods.WithLabelValues(to, event).Add(pods)
	incomingMembers.WithLabelValues(to, event).Add(pods)
	incomingGroups.WithLabelValues(to, event).Inc()
}

// hintDuration is the duration of a sample of the calls of queueing hints.
var hintDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_queueing_hint_execution_duration_seconds",
	Help:    "[ALPHA] Duration in seconds of queueing hints, for one call in ten, by plugin, event and result: Queue, QueueSkip or Error.",
	Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
}, []string{"plugin", "event", "hint"})

// quarantines counts how often pods were quarantined.
var quarantines = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_pods_quarantined_total",
	Help: "[ALPHA] Number of times that a pod was quarantined because a plugin panicked or hung at it repeatedly, by profile and plugin.",
}, []string{"profile", "plugin"})

// loopSeconds is the time that the loop spent on attempts.
var loopSeconds = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_loop_seconds_total",
	Help: "[ALPHA] Time in seconds that the scheduling loop spent on attempts, by profile. The rest of its time it was idle.",
}, []string{"profile"})

// ForgetProfile deletes the metric series of a profile that is gone.
func ForgetProfile(profile string) {
	quarantines.DeletePartialMatch(prometheus.Labels{"profile": profile})
	loopSeconds.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// Metrics returns the collectors of this package: the counters, and the collector
// that counts the pods of all profiles at each scrape.
func (q *Queue) Metrics() []prometheus.Collector {
	return []prometheus.Collector{incomingPods, entitiesCollector{}, hintDuration, quarantines, loopSeconds, metricsCollector{q}}
}

// hintCalls counts the calls of hints of all profiles; every
// framework.SampleEvery-th one is timed.
var hintCalls atomic.Uint64

// startHintTimer returns the time when a hint is called, or zero when this call is
// not one of the sample.
func (r *Rules) startHintTimer() time.Time {
	if r.Clock == nil || hintCalls.Add(1)%framework.SampleEvery != 0 {
		return time.Time{}
	}
	return r.Clock.Now()
}

// observeHint records the duration of a hint that began at begin; zero is ignored.
func (r *Rules) observeHint(begin time.Time, plugin string, e event, result string) {
	if !begin.IsZero() {
		hintDuration.WithLabelValues(plugin, e.Label(), result).Observe(r.Clock.Since(begin).Seconds())
	}
}

func hintResult(hint fwk.QueueingHint, err error) string {
	switch {
	case err != nil:
		return "Error"
	case hint == fwk.QueueSkip:
		return "QueueSkip"
	}
	return "Queue"
}

// metricsCollector counts the pods in the queue at each scrape, by one look at all
// of them. Gauges that are updated with every move of a pod would have to be right
// in each.
type metricsCollector struct{ queue *Queue }

// The names and labels of the first four are kube-scheduler's.
var (
	pendingDesc = prometheus.NewDesc("scheduler_pending_pods",
		"[STABLE] Number of pending pods, by queue: active, backoff, unschedulable or gated.",
		[]string{"queue"}, nil)
	queuedDesc = prometheus.NewDesc("scheduler_queued_entities",
		"[ALPHA] Number of queued entities, by queue and type: pod or podgroup. The pods of a group are one entity.",
		[]string{"queue", "type"}, nil)
	unschedulableDesc = prometheus.NewDesc("scheduler_unschedulable_pods",
		"[BETA] Number of pending pods that a plugin refused in their last attempt, by plugin and profile. A pod counts for each plugin that refused it.",
		[]string{"plugin", "profile"}, nil)
	inFlightDesc = prometheus.NewDesc("scheduler_inflight_events",
		"[ALPHA] Number of events recorded for pods in flight, and of those pods as event PodPopped.",
		[]string{"event"}, nil)
	heldDesc = prometheus.NewDesc("berth_held_pods",
		"[ALPHA] Number of pods that are held and not scheduled, by profile and reason: ProfileDeleted, ProfileNotRunning, ProfilePaused, NamespaceNotAllowed, Unsupported or Quarantined.",
		[]string{"profile", "reason"}, nil)
	oldestDesc = prometheus.NewDesc("berth_oldest_pending_pod_timestamp_seconds",
		"[ALPHA] Unix time at which the profile's longest pending pod first became active. Absent while no pod is pending; gated and held pods do not count.",
		[]string{"profile"}, nil)
)

func (s metricsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{pendingDesc, queuedDesc, unschedulableDesc, inFlightDesc, heldDesc, oldestDesc} {
		ch <- desc
	}
}

// queueNames are kube-scheduler's names of the places of pending pods.
var queueNames = map[Place]string{Active: "active", Backoff: "backoff", Unschedulable: "unschedulable", Gated: "gated"}

// profileLabel is a plugin or a reason, together with a profile.
type profileLabel struct{ value, profile string }

// podCounts is what one scrape counts.
type podCounts struct {
	byQueue map[string]int
	// pods and groups count the entities: a pod of a group is none.
	pods, groups map[string]int
	byPlugin     map[profileLabel]int
	byReason     map[profileLabel]int
	oldest       map[string]time.Time
	// markers is the number of pods in the in-flight log, events the number of the
	// events recorded for them.
	markers int
	events  map[fwk.ClusterEvent]int
}

func (s metricsCollector) Collect(ch chan<- prometheus.Metric) {
	c := s.queue.countPods()
	for name, n := range c.byQueue {
		ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(n), name)
		ch <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(c.pods[name]), name, "pod")
		ch <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(c.groups[name]), name, "podgroup")
	}
	for by, n := range c.byPlugin {
		ch <- prometheus.MustNewConstMetric(unschedulableDesc, prometheus.GaugeValue, float64(n), by.value, by.profile)
	}
	for by, n := range c.byReason {
		ch <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(n), by.profile, by.value)
	}
	for profile, since := range c.oldest {
		ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, float64(since.UnixMilli())/1000, profile)
	}
	ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(c.markers), "PodPopped")
	for event, n := range c.eventsByLabel() {
		ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(n), event)
	}
}

// countPods counts all pods.
func (q *Queue) countPods() podCounts {
	c := podCounts{
		byQueue:  map[string]int{"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0},
		byPlugin: map[profileLabel]int{}, byReason: map[profileLabel]int{}, oldest: map[string]time.Time{},
		pods: map[string]int{}, groups: map[string]int{}, events: map[fwk.ClusterEvent]int{},
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.pods {
		c.add(p)
	}
	for _, group := range q.podGroups {
		if name, pending := queueNames[group.place]; pending {
			c.groups[name]++
		}
	}
	c.markers = q.inFlight.markers
	for e := q.inFlight.entries.Front(); e != nil; e = e.Next() {
		if happened, isEvent := e.Value.(event); isEvent {
			c.events[happened.ClusterEvent]++
		}
	}
	return c
}

// eventsByLabel returns the number of recorded events by label. Different events
// may share a label.
func (c *podCounts) eventsByLabel() map[string]int {
	counts := map[string]int{}
	for event, n := range c.events {
		counts[event.Label()] += n
	}
	return counts
}

// add counts one pod. The caller holds the lock of its queue.
func (c *podCounts) add(p *Entity) {
	place := p.waiting().place
	name, pending := queueNames[place]
	if pending {
		c.byQueue[name]++
		if p.memberOf == nil {
			c.pods[name]++
		}
		for plugin := range p.rejectors {
			c.byPlugin[profileLabel{plugin, p.profile}]++
		}
		for plugin := range p.pending {
			if !p.rejectors.Has(plugin) {
				c.byPlugin[profileLabel{plugin, p.profile}]++
			}
		}
	}
	if place == Held && p.held.Reason != "" {
		c.byReason[profileLabel{p.held.Reason, p.profile}]++
	}
	if (!pending && place != InFlight) || place == Gated || p.initialAttempt == nil {
		return
	}
	if oldest, known := c.oldest[p.profile]; !known || p.initialAttempt.Before(oldest) {
		c.oldest[p.profile] = *p.initialAttempt
	}
}

// entitiesCollector reports what enters the queue under kube-scheduler's newer name, which
// has a label for the type of the entity: pod or podgroup.
type entitiesCollector struct{}

var entitiesDesc = prometheus.NewDesc("scheduler_queue_incoming_entities_total",
	"[ALPHA] Number of entities added to the scheduling queue, by queue, event and type: pod or podgroup.",
	[]string{"queue", "event", "type"}, nil)

func (entitiesCollector) Describe(ch chan<- *prometheus.Desc) { ch <- entitiesDesc }

func (entitiesCollector) Collect(ch chan<- prometheus.Metric) {
	members := map[[2]string]float64{}
	report := func(counter prometheus.Collector, each func(queue, event string, n float64)) {
		// Gather of a registry reads the counter without a goroutine.
		reader := prometheus.NewRegistry()
		reader.MustRegister(counter)
		families, err := reader.Gather()
		if err != nil {
			ch <- prometheus.NewInvalidMetric(entitiesDesc, err)
			return
		}
		for _, family := range families {
			for _, m := range family.Metric {
				labels := map[string]string{}
				for _, label := range m.Label {
					labels[label.GetName()] = label.GetValue()
				}
				each(labels["queue"], labels["event"], m.Counter.GetValue())
			}
		}
	}
	emit := func(kind string) func(queue, event string, n float64) {
		return func(queue, event string, n float64) {
			ch <- prometheus.MustNewConstMetric(entitiesDesc, prometheus.CounterValue, n, queue, event, kind)
		}
	}
	report(incomingMembers, func(queue, event string, n float64) { members[[2]string{queue, event}] = n })
	report(incomingPods, func(queue, event string, n float64) { emit("pod")(queue, event, n-members[[2]string{queue, event}]) })
	report(incomingGroups, emit("podgroup"))
}
