package inspect

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
	looks = 3
	// lookAgain is the time between two looks.
	lookAgain = time.Second
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
	Assumed []Placed `json:"assumed"`
	// Looks is how often it was looked until what differed did so each time.
	Looks       int          `json:"looks"`
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
	What      What   `json:"what"`
	APIServer string `json:"apiServer"`
	Berth     string `json:"berth"`
}

// What differs.
type What string

// The differences.
const (
	// Missing: the API server has it, Berth has not.
	Missing What = "Missing"
	// Extra: Berth has it, the API server has not.
	Extra What = "Extra"
	// Elsewhere: a pod is on another node.
	Elsewhere What = "Elsewhere"
	// Allocatable: a node offers something else.
	Allocatable What = "Allocatable"
	// Requested: what the pods of a node request does not add up.
	Requested What = "Requested"
	// NotQueued: a pod waits, and is in no queue.
	NotQueued What = "NotQueued"
	// Queued: a pod is in the queue that waits for nothing there.
	Queued What = "Queued"
)

// Compare looks at what the API server has, which read returns by uncached
// reads, and at what Berth has. What differs is looked at again, since one of the
// two may be ahead; wait waits between two looks.
func (r Rooms) Compare(ctx context.Context, read func(context.Context) (*Truth, error), wait func(context.Context, time.Duration) error) (Comparison, error) {
	var before []Difference
	for look := 1; ; look++ {
		truth, err := read(ctx)
		if err != nil {
			return Comparison{}, err
		}
		c := r.compare(truth, r.fresh(ctx))
		c.Looks = look
		if look > 1 {
			c.Differences = slices.DeleteFunc(c.Differences, func(d Difference) bool {
				return !slices.ContainsFunc(before, func(b Difference) bool {
					return b.Kind == d.Kind && b.Name == d.Name && b.UID == d.UID && b.What == d.What
				})
			})
		}
		if len(c.Differences) == 0 || look == looks || fault.LagIsADifference {
			return c, nil
		}
		before = c.Differences
		if err := wait(ctx, lookAgain); err != nil {
			return Comparison{}, err
		}
	}
}

// compare looks once.
func (r Rooms) compare(truth *Truth, stale string) Comparison {
	c := Comparison{Time: r.Now(), Stale: stale, Nodes: len(truth.nodes), Pods: len(truth.pods), Assumed: []Placed{}, Differences: []Difference{}}
	placed := map[types.UID]cache.Place{}
	for _, place := range r.Cache.Everyone() {
		placed[place.Pod().UID] = place
		if pod := truth.pods[place.Pod().UID]; place.Assumed && pod.node == "" && pod.UID != "" {
			c.Assumed = append(c.Assumed, Placed{pod.Pod, place.Node})
		}
	}
	c.pods(truth, placed)
	if stale == "" {
		c.nodes(truth, placed, r.Cache)
	}
	c.queue(truth, placed, r)
	slices.SortFunc(c.Assumed, func(a, b Placed) int { return byName(a.Pod, b.Pod) })
	slices.SortFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.What, b.What))
	})
	return c
}

// podDiffers notes down a difference of a pod, whose name has its namespace.
func (c *Comparison) podDiffers(name string, uid types.UID, what What, apiServer, berth string) {
	c.Differences = append(c.Differences, Difference{"Pod", name, uid, what, apiServer, berth})
}

func (c *Comparison) nodeDiffers(name string, what What, apiServer, berth string) {
	c.Differences = append(c.Differences, Difference{"Node", name, "", what, apiServer, berth})
}

// pods compares who is where.
func (c *Comparison) pods(truth *Truth, placed map[types.UID]cache.Place) {
	for uid, pod := range truth.pods {
		place, there := placed[uid]
		switch {
		case pod.node != "" && !there:
			c.podDiffers(pod.String(), uid, Missing, "on node "+pod.node, "not known")
		case pod.node != "" && place.Node != pod.node:
			c.podDiffers(pod.String(), uid, Elsewhere, "on node "+pod.node, "on node "+place.Node)
		case pod.node == "" && there && !place.Assumed:
			c.podDiffers(pod.String(), uid, Elsewhere, "not bound", "on node "+place.Node)
		}
	}
	for uid, place := range placed {
		if _, there := truth.pods[uid]; !there {
			c.podDiffers(podOf(place.Pod()).String(), uid, Extra, "not known, or ended", "on node "+place.Node)
		}
	}
}

// nodes compares which there are, what they offer, and what is requested of them.
// What the cache assumes counts: it is kept apart by its pods.
func (c *Comparison) nodes(truth *Truth, placed map[types.UID]cache.Place, held *cache.Cache) {
	requested := map[string]*framework.Resource{}
	add := func(node string, requests *framework.Resource) {
		if requested[node] == nil {
			requested[node] = &framework.Resource{}
		}
		requested[node].Sum(requests)
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
			c.nodeDiffers(name, Extra, "not known", "known")
			return
		case !maps.Equal(amounts(&offers), amounts(&node.Allocatable)):
			c.nodeDiffers(name, Allocatable, amounts(&offers).String(), amounts(&node.Allocatable).String())
		}
		want, have := requested[name], node.Requested.Clone()
		if want == nil {
			want = &framework.Resource{}
		}
		if have.AllowedPodNumber = len(node.GetPods()); !maps.Equal(amounts(want), amounts(&have)) {
			c.nodeDiffers(name, Requested, amounts(want).String(), amounts(&have).String())
		}
	})
	for name := range truth.nodes {
		if !seen[name] {
			c.nodeDiffers(name, Missing, "known", "not known")
		}
	}
}

// queue compares who waits.
func (c *Comparison) queue(truth *Truth, placed map[types.UID]cache.Place, r Rooms) {
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
		case pod.node == "" && !pod.leaves && !has && !queued && serves[pod.profile]:
			c.podDiffers(pod.String(), uid, NotQueued, "not bound, of profile "+pod.profile, "in no queue")
		case pod.node != "" && queued && entry.Place != queue.InFlight:
			c.podDiffers(pod.String(), uid, Queued, "on node "+pod.node, "in the queue, "+string(entry.Place))
		}
	}
	for uid, e := range places {
		if _, there := truth.pods[uid]; !there {
			c.podDiffers(e.Namespace+"/"+e.Name, uid, Queued, "not known, or ended", "in the queue, "+string(e.Place))
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
