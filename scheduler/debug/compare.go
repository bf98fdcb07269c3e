package debug

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

const (
	// looks is how often what differs is looked at again: a watch lags by
	// milliseconds, and what it lags by is no difference.
	maxRounds = 3
	// lookAgain is the time between two looks.
	roundInterval = time.Second
)

// Comparison is how the cache differs from what the API server has.
type Comparison struct {
	Time time.Time `json:"time"`
	// Stale is why nodes were not compared; empty: they were.
	Stale string `json:"stale,omitempty"`
	// Nodes and Pods are how many the API server has that count.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Assumed are pods that the cache has on a node of which the API server does not
	// say so, yet: their Bindings are under way.
	Assumed []PodOnNode `json:"assumed"`
	// Looks is how often it was looked until what differed did so each time.
	Rounds      int          `json:"looks"`
	Differences []Difference `json:"differences"`
}

// Difference is one thing that the API server has and the cache has not, or the
// other way round, or that is another one there.
type Difference struct {
	// Kind is Node or Pod, Name its name, with its namespace.
	Kind string    `json:"kind"`
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	// What differs, in a word; APIServer and Berth are what each has.
	Type      DifferenceType `json:"what"`
	APIServer string         `json:"apiServer"`
	Berth     string         `json:"berth"`
}

// What differs.
type DifferenceType string

// The differences.
const (
	// Missing: the API server has it, Berth has not.
	Missing DifferenceType = "Missing"
	// Extra: Berth has it, the API server has not.
	Extra DifferenceType = "Extra"
	// Elsewhere: a pod is on another node.
	OnAnotherNode DifferenceType = "Elsewhere"
	// Allocatable: a node offers something else.
	Allocatable DifferenceType = "Allocatable"
	// Requested: what the pods of a node request does not add up.
	Requested DifferenceType = "Requested"
	// NotQueued: a pod waits, and is in no queue.
	NotQueued DifferenceType = "NotQueued"
	// Queued: a pod is in the queue that waits for nothing there.
	Queued DifferenceType = "Queued"
)

// Compare looks at what the API server has, which read returns by uncached
// reads, and at what Berth has. What differs is looked at again, since one of the
// two may be ahead; wait waits between two looks.
func (r Debugger) Compare(ctx context.Context, read func(context.Context) (*APIServerState, error), wait func(context.Context, time.Duration) error) (Comparison, error) {
	var before []Difference
	for look := 1; ; look++ {
		truth, err := read(ctx)
		if err != nil {
			return Comparison{}, err
		}
		c := r.compare(truth, r.updateSnapshot(ctx))
		c.Rounds = look
		if look > 1 {
			c.Differences = slices.DeleteFunc(c.Differences, func(d Difference) bool {
				return !slices.ContainsFunc(before, func(b Difference) bool {
					return b.Kind == d.Kind && b.Name == d.Name && b.UID == d.UID && b.Type == d.Type
				})
			})
		}
		if len(c.Differences) == 0 || look == maxRounds || fault.LagIsADifference {
			return c, nil
		}
		before = c.Differences
		if err := wait(ctx, roundInterval); err != nil {
			return Comparison{}, err
		}
	}
}

// compare looks once.
func (r Debugger) compare(truth *APIServerState, stale string) Comparison {
	c := Comparison{Time: r.Now(), Stale: stale, Nodes: len(truth.nodes), Pods: len(truth.pods), Assumed: []PodOnNode{}, Differences: []Difference{}}
	placed := map[types.UID]cache.AssignedPod{}
	for _, place := range r.Cache.AssignedPods() {
		placed[place.Pod().UID] = place
		if pod := truth.pods[place.Pod().UID]; place.Assumed && pod.node == "" && pod.UID != "" {
			c.Assumed = append(c.Assumed, PodOnNode{pod.PodRef, place.Node})
		}
	}
	c.comparePods(truth, placed)
	if stale == "" {
		c.compareNodes(truth, placed, r.Cache)
	}
	c.compareQueue(truth, placed, r)
	slices.SortFunc(c.Assumed, func(a, b PodOnNode) int { return comparePodRefs(a.PodRef, b.PodRef) })
	slices.SortFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Type, b.Type))
	})
	return c
}

// podDiffers notes down a difference of a pod, whose name has its namespace.
func (c *Comparison) addPodDifference(name string, uid types.UID, what DifferenceType, apiServer, berth string) {
	c.Differences = append(c.Differences, Difference{"Pod", name, uid, what, apiServer, berth})
}

func (c *Comparison) addNodeDifference(name string, what DifferenceType, apiServer, berth string) {
	c.Differences = append(c.Differences, Difference{"Node", name, "", what, apiServer, berth})
}

// pods compares who is where.
func (c *Comparison) comparePods(truth *APIServerState, placed map[types.UID]cache.AssignedPod) {
	for uid, pod := range truth.pods {
		place, there := placed[uid]
		switch {
		case pod.node != "" && !there:
			c.addPodDifference(pod.String(), uid, Missing, "on node "+pod.node, "not known")
		case pod.node != "" && place.Node != pod.node:
			c.addPodDifference(pod.String(), uid, OnAnotherNode, "on node "+pod.node, "on node "+place.Node)
		case pod.node == "" && there && !place.Assumed:
			c.addPodDifference(pod.String(), uid, OnAnotherNode, "not bound", "on node "+place.Node)
		}
	}
	for uid, place := range placed {
		if _, there := truth.pods[uid]; !there {
			c.addPodDifference(podRef(place.Pod()).String(), uid, Extra, "not known, or ended", "on node "+place.Node)
		}
	}
}

// nodes compares which there are, what they offer, and what is requested of them.
// What the cache assumes counts: it is kept apart by its pods.
func (c *Comparison) compareNodes(truth *APIServerState, placed map[types.UID]cache.AssignedPod, held *cache.Cache) {
	requested := map[string]*framework.Resource{}
	add := func(node string, requests *framework.Resource) {
		if requested[node] == nil {
			requested[node] = &framework.Resource{}
		}
		requested[node].AddRequest(requests)
		requested[node].AllowedPodNumber++
	}
	for uid, pod := range truth.pods {
		if place, there := placed[uid]; pod.node == "" && there && place.Assumed {
			pod.node = place.Node
		}
		if pod.node != "" {
			add(pod.node, &pod.requests)
		}
	}
	seen := map[string]bool{}
	held.EachNode(func(name string, node *framework.NodeInfo) {
		seen[name] = true
		offers, there := truth.nodes[name]
		switch {
		case node.Node() == nil:
			return // its pods are told of one by one
		case !there:
			c.addNodeDifference(name, Extra, "not known", "known")
			return
		case !maps.Equal(amountsOf(&offers), amountsOf(&node.Allocatable)):
			c.addNodeDifference(name, Allocatable, amountsOf(&offers).String(), amountsOf(&node.Allocatable).String())
		}
		want, have := requested[name], node.Requested.Clone()
		if want == nil {
			want = &framework.Resource{}
		}
		if have.AllowedPodNumber = len(node.GetPods()); !maps.Equal(amountsOf(want), amountsOf(&have)) {
			c.addNodeDifference(name, Requested, amountsOf(want).String(), amountsOf(&have).String())
		}
	})
	for name := range truth.nodes {
		if !seen[name] {
			c.addNodeDifference(name, Missing, "known", "not known")
		}
	}
}

// queue compares who waits.
func (c *Comparison) compareQueue(truth *APIServerState, placed map[types.UID]cache.AssignedPod, r Debugger) {
	places := map[types.UID]queue.Entry{}
	for _, e := range r.Queue.Entries() {
		places[e.UID] = e
	}
	serves := map[string]bool{}
	for _, name := range r.Profiles.Names() {
		serves[name] = true
	}
	for uid, pod := range truth.pods {
		entry, queued := places[uid]
		_, has := placed[uid]
		switch {
		case pod.node == "" && !pod.terminating && !has && !queued && serves[pod.profile]:
			c.addPodDifference(pod.String(), uid, NotQueued, "not bound, of profile "+pod.profile, "in no queue")
		case pod.node != "" && queued && entry.Place != queue.InFlight:
			c.addPodDifference(pod.String(), uid, Queued, "on node "+pod.node, "in the queue, "+string(entry.Place))
		}
	}
	for uid, e := range places {
		if _, there := truth.pods[uid]; !there {
			c.addPodDifference(e.Namespace+"/"+e.Name, uid, Queued, "not known, or ended", "in the queue, "+string(e.Place))
		}
	}
}

// String is "cpu 500, memory 1024", by name.
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
