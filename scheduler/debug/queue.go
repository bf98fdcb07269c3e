package debug

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/queue"
)

// QueueDump is a copy of the queue.
type QueueDump struct {
	Time time.Time `json:"time"`
	// Places counts the pods by place.
	Places map[queue.Place]int `json:"places"`
	// Markers is the number of pods in the in-flight log, Events the number of events
	// recorded for them.
	Markers int         `json:"markers"`
	Events  int         `json:"events"`
	Pods    []QueuedPod `json:"pods"`
}

// QueuedPod is a pod in the queue.
type QueuedPod struct {
	PodRef
	Profile string      `json:"profile"`
	Place   queue.Place `json:"place"`
	Since   time.Time   `json:"since"`
	// Until is when its backoff or its quarantine ends.
	Until    time.Time `json:"until,omitzero"`
	Attempts int       `json:"attempts"`
	Priority int32     `json:"priority"`
	// Held is the reason of a held pod, Gate the plugin that gates a gated one.
	Held string `json:"held,omitempty"`
	Gate string `json:"gate,omitempty"`
	// Rejectors are the plugins that refused the pod last, Pending those that returned
	// Pending, and Permit those whose Permit it waits on.
	Rejectors []string `json:"rejectors,omitempty"`
	Pending   []string `json:"pending,omitempty"`
	Permit    []string `json:"permit,omitempty"`
}

// DumpQueue copies the queue, sorted by profile and name.
func (d Debugger) DumpQueue() QueueDump {
	permits := map[types.UID][]string{}
	d.WaitingPods.Each(func(p fwk.WaitingPod) { permits[p.GetPod().UID] = p.GetPendingPlugins() })
	q := QueueDump{Time: d.Now(), Places: map[queue.Place]int{}, Pods: []QueuedPod{}}
	q.Markers, q.Events = d.Queue.InFlightCounts()
	for _, e := range d.Queue.Entries() {
		q.Places[e.Place]++
		q.Pods = append(q.Pods, QueuedPod{
			PodRef:  PodRef{Namespace: e.Namespace, Name: e.Name, UID: e.UID},
			Profile: e.Profile, Place: e.Place, Since: e.Since, Until: e.Until, Attempts: e.Attempts, Priority: e.Priority,
			Held: e.Held.Reason, Gate: e.Gate, Rejectors: e.Rejectors, Pending: e.Pending, Permit: permits[e.UID],
		})
	}
	slices.SortFunc(q.Pods, func(a, b QueuedPod) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), comparePodRefs(a.PodRef, b.PodRef))
	})
	return q
}
