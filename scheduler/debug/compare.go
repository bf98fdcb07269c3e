package debug

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

const (
	// maxRounds is how often the two are compared while they differ. A watch is behind
	// by milliseconds, and that is not a difference.
	maxRounds = 3
	// roundInterval is the time between two rounds.
	roundInterval = time.Second
)

// Comparison is how the cache and the queue differ from the API server.
type Comparison struct {
	Time time.Time `json:"time"`
	// Stale is why nodes were not compared; empty when they were.
	Stale string `json:"stale,omitempty"`
	// Nodes and Pods are how many the API server has, terminated pods excluded.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Assumed are pods that the cache has on a node and the API server does not yet:
	// their Bindings are under way.
	Assumed []PodOnNode `json:"assumed"`
	// Rounds is how many rounds were made. The differences are those found in each.
	Rounds      int          `json:"rounds"`
	Differences []Difference `json:"differences"`
}

// Difference is one object in which the API server and Berth differ.
type Difference struct {
	// Kind is Node or Pod. Name is its name, for a pod with the namespace.
	Kind string    `json:"kind"`
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	// Type is how they differ; APIServer and Berth are what each has.
	Type      DifferenceType `json:"type"`
	APIServer string         `json:"apiServer"`
	Berth     string         `json:"berth"`
}

// DifferenceType is how the API server and Berth differ in an object.
type DifferenceType string

// The types of differences.
const (
	// Missing: the API server has the object, Berth does not.
	Missing DifferenceType = "Missing"
	// Extra: Berth has the object, the API server does not.
	Extra DifferenceType = "Extra"
	// OnAnotherNode: a pod is on another node.
	OnAnotherNode DifferenceType = "OnAnotherNode"
	// Allocatable: the allocatable resources of a node differ.
	Allocatable DifferenceType = "Allocatable"
	// Requested: the sum of the requests of the pods that Berth has on a node differs.
	Requested DifferenceType = "Requested"
	// NotQueued: a pod is pending and not in the queue.
	NotQueued DifferenceType = "NotQueued"
	// Queued: a pod is in the queue and not pending.
	Queued DifferenceType = "Queued"
)

// Compare compares the cache and the queue with the state that read returns by
// uncached reads of the API server. While found are differences it compares again,
// since one of the two may be ahead of the other; wait waits between two rounds.
func (d Debugger) Compare(ctx context.Context, read func(context.Context) (*APIServerState, error), wait func(context.Context, time.Duration) error) (Comparison, error) {
	var before []Difference
	for round := 1; ; round++ {
		state, err := read(ctx)
		if err != nil {
			return Comparison{}, err
		}
		c := d.compare(state, d.updateSnapshot(ctx))
		c.Rounds = round
		if round > 1 {
			c.Differences = slices.DeleteFunc(c.Differences, func(found Difference) bool {
				return !slices.ContainsFunc(before, func(b Difference) bool {
					return b.Kind == found.Kind && b.Name == found.Name && b.UID == found.UID && b.Type == found.Type
				})
			})
		}
		if len(c.Differences) == 0 || round == maxRounds {
			return c, nil
		}
		before = c.Differences
		if err := wait(ctx, roundInterval); err != nil {
			return Comparison{}, err
		}
	}
}

// compare makes one round.
func (d Debugger) compare(state *APIServerState, stale string) Comparison {
	c := Comparison{Time: d.Now(), Stale: stale, Nodes: len(state.nodes), Pods: len(state.pods), Assumed: []PodOnNode{}, Differences: []Difference{}}
	placed := map[types.UID]cache.AssignedPod{}
	for _, place := range d.Cache.AssignedPods() {
		placed[place.Pod().UID] = place
		if pod := state.pods[place.Pod().UID]; place.Assumed && pod.node == "" && pod.UID != "" {
			c.Assumed = append(c.Assumed, PodOnNode{pod.PodRef, place.Node})
		}
	}
	c.comparePods(state, placed)
	if stale == "" {
		c.compareNodes(state, d.Cache)
	}
	c.compareQueue(state, placed, d)
	slices.SortFunc(c.Assumed, func(a, b PodOnNode) int { return comparePodRefs(a.PodRef, b.PodRef) })
	slices.SortFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Type, b.Type))
	})
	return c
}

// addPodDifference adds a difference in a pod; name includes the namespace.
func (c *Comparison) addPodDifference(name string, uid types.UID, what DifferenceType, apiServer, berth string) {
	c.Differences = append(c.Differences, Difference{"Pod", name, uid, what, apiServer, berth})
}

func (c *Comparison) addNodeDifference(name string, what DifferenceType, apiServer, berth string) {
	c.Differences = append(c.Differences, Difference{"Node", name, "", what, apiServer, berth})
}

// comparePods compares which pods are on which nodes.
func (c *Comparison) comparePods(state *APIServerState, placed map[types.UID]cache.AssignedPod) {
	for uid, pod := range state.pods {
		place, found := placed[uid]
		switch {
		case pod.node != "" && !found:
			c.addPodDifference(pod.String(), uid, Missing, "on node "+pod.node, "not known")
		case pod.node != "" && place.Node != pod.node:
			c.addPodDifference(pod.String(), uid, OnAnotherNode, "on node "+pod.node, "on node "+place.Node)
		case pod.node == "" && found && !place.Assumed:
			c.addPodDifference(pod.String(), uid, OnAnotherNode, "not bound", "on node "+place.Node)
		}
	}
	for uid, place := range placed {
		if _, found := state.pods[uid]; !found {
			c.addPodDifference(podRef(place.Pod()).String(), uid, Extra, "not known, or ended", "on node "+place.Node)
		}
	}
}

// compareNodes compares which nodes there are, their allocatable resources and the requests
// of their pods.
func (c *Comparison) compareNodes(state *APIServerState, nodeCache *cache.Cache) {
	known := map[string]bool{}
	nodeCache.EachNode(func(name string, node *framework.NodeInfo) {
		known[name] = true
		allocatable, found := state.nodes[name]
		switch {
		case node.Node() == nil:
			return // comparePods lists its pods
		case !found:
			c.addNodeDifference(name, Extra, "not known", "known")
			return
		case !maps.Equal(amountsOf(&allocatable), amountsOf(&node.Allocatable)):
			c.addNodeDifference(name, Allocatable, amountsOf(&allocatable).String(), amountsOf(&node.Allocatable).String())
		}
		want, have := state.requestsOf(node), node.Requested.Clone()
		if have.AllowedPodNumber = len(node.GetPods()); !maps.Equal(amountsOf(&want), amountsOf(&have)) {
			c.addNodeDifference(name, Requested, amountsOf(&want).String(), amountsOf(&have).String())
		}
	})
	for name := range state.nodes {
		if !known[name] {
			c.addNodeDifference(name, Missing, "known", "not known")
		}
	}
}

// requestsOf returns the sum of the requests of the pods that Berth has on a node, and their
// number. comparePods finds pods that only one of the two has there: the API server is read for
// seconds, in which pods come and go on a node.
func (s *APIServerState) requestsOf(node *framework.NodeInfo) framework.Resource {
	var sum framework.Resource
	seen := map[types.UID]bool{}
	for _, info := range node.GetPods() {
		requests := info.(*framework.PodInfo).Requests()
		uid := framework.OriginalPod(info).UID
		if seen[uid] {
			continue
		}
		seen[uid] = true
		if pod, found := s.pods[uid]; found {
			requests = pod.requests
		}
		sum.AddRequest(&requests)
		sum.AllowedPodNumber++
	}
	return sum
}

// compareQueue compares which pods are queued.
func (c *Comparison) compareQueue(state *APIServerState, placed map[types.UID]cache.AssignedPod, d Debugger) {
	entries := map[types.UID]queue.Entry{}
	for _, e := range d.Queue.Entries() {
		entries[e.UID] = e
	}
	serves := map[string]bool{}
	for _, name := range d.Profiles.Names() {
		serves[name] = true
	}
	for uid, pod := range state.pods {
		entry, queued := entries[uid]
		_, hasNode := placed[uid]
		switch {
		case pod.node == "" && !pod.terminating && !hasNode && !queued && serves[pod.profile]:
			c.addPodDifference(pod.String(), uid, NotQueued, "pending, of profile "+pod.profile, "not queued")
		case pod.node != "" && queued && entry.Place != queue.InFlight:
			c.addPodDifference(pod.String(), uid, Queued, "on node "+pod.node, "in the queue, "+string(entry.Place))
		}
	}
	for uid, e := range entries {
		if _, found := state.pods[uid]; !found {
			c.addPodDifference(e.Namespace+"/"+e.Name, uid, Queued, "not known, or ended", "in the queue, "+string(e.Place))
		}
	}
}

// String is "cpu 500, memory 1024", sorted by name; "nothing" when empty.
func (a Amounts) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(a)) {
		text += fmt.Sprintf(", %s %d", name, a[name])
	}
	if text == "" {
		return "nothing"
	}
	return text[2:]
}

// APIServerState is what the API server has, as far as it is compared.
type APIServerState struct {
	nodes map[string]framework.Resource
	pods  map[types.UID]apiServerPod
}

// apiServerPod is a pod in the API server.
type apiServerPod struct {
	PodRef
	profile, node string
	requests      framework.Resource
	terminating   bool
}

// NewAPIServerState returns the state of an empty cluster.
func NewAPIServerState() *APIServerState {
	return &APIServerState{nodes: map[string]framework.Resource{}, pods: map[types.UID]apiServerPod{}}
}

// AddNode adds a node.
func (s *APIServerState) AddNode(node *v1.Node) {
	s.nodes[node.Name] = framework.NewResource(node.Status.Allocatable)
}

// AddPod adds a pod. It ignores one that has succeeded or failed, which uses no
// resources.
func (s *APIServerState) AddPod(pod *v1.Pod) {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return
	}
	info, _ := framework.NewPodInfo(pod) // an error is about its affinity, not its requests
	s.pods[pod.UID] = apiServerPod{
		PodRef: podRef(pod), profile: pod.Spec.SchedulerName, node: pod.Spec.NodeName,
		requests: info.Requests(), terminating: pod.DeletionTimestamp != nil,
	}
}
