package debug

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/queue"
)

// Queue is who waits.
type QueueDump struct {
	Time time.Time `json:"time"`
	// Places counts the pods by place.
	Places map[queue.Place]int `json:"places"`
	// Markers and Events are how much is kept for pods whose next place is not
	// decided.
	Markers int         `json:"markers"`
	Events  int         `json:"events"`
	Pods    []QueuedPod `json:"pods"`
}

// Waiting is a pod in the queue.
type QueuedPod struct {
	PodRef
	Profile string      `json:"profile"`
	Place   queue.Place `json:"place"`
	Since   time.Time   `json:"since"`
	// Until is when its backoff ends, or it is tried again that was set aside.
	Until    time.Time `json:"until,omitzero"`
	Attempts int       `json:"attempts"`
	Priority int32     `json:"priority"`
	// Held is why the pod is parked, Gate which plugin keeps it out.
	Held string `json:"held,omitempty"`
	Gate string `json:"gate,omitempty"`
	// Rejectors refused it last, Pending are those that it waits for, and Permit
	// those of whose Permit it waits for on its way to a node.
	Rejectors []string `json:"rejectors,omitempty"`
	Pending   []string `json:"pending,omitempty"`
	Permit    []string `json:"permit,omitempty"`
}

// LookIntoQueue copies who waits, by name.
func (r Debugger) DumpQueue() QueueDump {
	permits := map[types.UID][]string{}
	r.WaitingPods.Each(func(p fwk.WaitingPod) { permits[p.GetPod().UID] = p.GetPendingPlugins() })
	q := QueueDump{Time: r.Now(), Places: map[queue.Place]int{}, Pods: []QueuedPod{}}
	q.Markers, q.Events = r.Queue.InFlightCounts()
	for _, e := range r.Queue.Entries() {
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
