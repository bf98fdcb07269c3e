package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// standing says where the pods are when it is scraped, in one look at all of
// them. Gauges that every move keeps up to date would have to be right in each.
type metricsCollector struct{ queue *Queue }

// The names and labels of the first four are kube-scheduler's.
var (
	pendingDesc = prometheus.NewDesc("scheduler_pending_pods",
		"[STABLE] Pods that wait, by the part of the queue: active, backoff, unschedulable or gated.",
		[]string{"queue"}, nil)
	queuedDesc = prometheus.NewDesc("scheduler_queued_entities",
		"[ALPHA] What waits, by the part of the queue and the type: pod, since groups are not scheduled as such.",
		[]string{"queue", "type"}, nil)
	unschedulableDesc = prometheus.NewDesc("scheduler_unschedulable_pods",
		"[BETA] Pods that a plugin refused and that have not been tried again, by the plugin and the profile. A pod counts for each plugin that refused it.",
		[]string{"plugin", "profile"}, nil)
	inFlightDesc = prometheus.NewDesc("scheduler_inflight_events",
		"[ALPHA] Events that are kept for pods whose next place is not decided yet, and as PodPopped those pods.",
		[]string{"event"}, nil)
	heldDesc = prometheus.NewDesc("berth_held_pods",
		"[ALPHA] Pods that are kept out of scheduling for another reason than room, by the profile and the reason: ProfileDeleted, ProfileNotRunning, ProfilePaused, NamespaceNotAllowed, Unsupported or SetAside.",
		[]string{"profile", "reason"}, nil)
	oldestDesc = prometheus.NewDesc("berth_oldest_pending_pod_timestamp_seconds",
		"[ALPHA] When the pod of the profile that has waited longest was first ready to be tried, in seconds since 1970. None where no pod waits; gated and held ones do not count.",
		[]string{"profile"}, nil)
)

func (s metricsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{pendingDesc, queuedDesc, unschedulableDesc, inFlightDesc, heldDesc, oldestDesc} {
		ch <- desc
	}
}

// parts are kube-scheduler's names of the places where pods wait.
var queueNames = map[Place]string{Active: "active", Backoff: "backoff", Unschedulable: "unschedulable", Gated: "gated"}

// about is a plugin or a reason, and a profile.
type profileLabel struct{ value, profile string }

// census is what one look at the queue finds.
type podCounts struct {
	byQueue  map[string]int
	byPlugin map[profileLabel]int
	byReason map[profileLabel]int
	oldest   map[string]time.Time
	// markers are the pods in flight, and events what is kept for them.
	markers int
	events  map[fwk.ClusterEvent]int
}

func (s metricsCollector) Collect(ch chan<- prometheus.Metric) {
	c := s.queue.countPods()
	for part, n := range c.byQueue {
		ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(n), part)
		ch <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(n), part, "pod")
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

// census looks at every pod.
func (q *Queue) countPods() podCounts {
	c := podCounts{
		byQueue:  map[string]int{"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0},
		byPlugin: map[profileLabel]int{}, byReason: map[profileLabel]int{}, oldest: map[string]time.Time{},
		events: map[fwk.ClusterEvent]int{},
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.pods {
		c.add(p)
	}
	c.markers = q.inFlight.markers
	for e := q.inFlight.entries.Front(); e != nil; e = e.Next() {
		if happened, isEvent := e.Value.(event); isEvent {
			c.events[happened.ClusterEvent]++
		}
	}
	return c
}

// labelled are the events by what they are called: two may share a label.
func (c *podCounts) eventsByLabel() map[string]int {
	all := map[string]int{}
	for event, n := range c.events {
		all[event.Label()] += n
	}
	return all
}

// add counts one pod. Called with the lock of its queue.
func (c *podCounts) add(p *Pod) {
	part, waits := queueNames[p.place]
	if waits {
		c.byQueue[part]++
		for plugin := range p.rejectors {
			c.byPlugin[profileLabel{plugin, p.profile}]++
		}
		for plugin := range p.pending {
			if !p.rejectors.Has(plugin) {
				c.byPlugin[profileLabel{plugin, p.profile}]++
			}
		}
	}
	if p.place == Held && p.held.Reason != "" {
		c.byReason[profileLabel{p.held.Reason, p.profile}]++
	}
	if (!waits && p.place != InFlight) || p.place == Gated || p.initialAttempt == nil {
		return
	}
	if oldest, known := c.oldest[p.profile]; !known || p.initialAttempt.Before(oldest) != fault.NewestForOldest {
		c.oldest[p.profile] = *p.initialAttempt
	}
}

// entities is incoming under its other name, with a type: all that comes is a
// pod.
type entitiesCollector struct{}

var entitiesDesc = prometheus.NewDesc("scheduler_queue_incoming_entities_total",
	"[ALPHA] What was added to the scheduling queue, by the part of the queue, the event and the type: pod.",
	[]string{"queue", "event", "type"}, nil)

func (entitiesCollector) Describe(ch chan<- *prometheus.Desc) { ch <- entitiesDesc }

func (entitiesCollector) Collect(ch chan<- prometheus.Metric) {
	// A registry reads a collector without a goroutine of ours.
	reader := prometheus.NewRegistry()
	reader.MustRegister(incomingPods)
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
			ch <- prometheus.MustNewConstMetric(entitiesDesc, prometheus.CounterValue, m.Counter.GetValue(), labels["queue"], labels["event"], "pod")
		}
	}
}
