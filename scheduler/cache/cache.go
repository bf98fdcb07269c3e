// Package cache holds what is where, including what is only assumed: nodes,
// the pods on them, images, nominations.
//
// Informers and bindings report changes from any goroutine; a change is noted
// and takes effect in Refresh, which the loop calls once before each attempt.
// Refresh is the only place where the state that plugins see moves, so that
// Reserve and Permit of a pod still see the cluster without it, as the
// framework's contract promises.
package cache

import (
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Cache is the one writer of what is where. All methods but Refresh may be
// called from any goroutine; Refresh and the Snapshot it returns belong to the
// loop.
type Cache struct {
	Nominator

	mu sync.Mutex
	// placed holds every pod that has a node, by UID: assumed or confirmed.
	placed map[types.UID]*placed
	// deltas are the changes since the last Refresh, oldest first.
	deltas []delta
	spare  []delta
	seen   Seen

	snapshot *Snapshot
	// nodes is how many the snapshot holds, for those who may not read it.
	nodes atomic.Int64
}

// placed is a pod that has a node.
type placed struct {
	info    *framework.PodInfo
	assumed bool
}

// delta is one change of what is where. Exactly one field is set.
type delta struct {
	node   *v1.Node
	noNode string
	pod    *framework.PodInfo
	noPod  *framework.PodInfo
	other  framework.Facets
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{
		Nominator: newNominator(),
		placed:    map[types.UID]*placed{},
		snapshot:  newSnapshot(),
	}
}

// NewScanning returns an empty cache that counts pods by looking at all of them
// each time: slow, and what the counts of others are held to.
func NewScanning() *Cache {
	c := New()
	c.snapshot.scans = true
	return c
}

// SetNode adds a node, or replaces what is known of it.
func (c *Cache) SetNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Nodes = later(c.seen.Nodes, node.ResourceVersion)
	c.deltas = append(c.deltas, delta{node: node})
}

// RemoveNode forgets a node. Pods on it stay known until they go themselves,
// since their deletions come on another watch.
func (c *Cache) RemoveNode(name string) { c.note(delta{noNode: name}) }

// NodeDeleted is RemoveNode, told by the last version of the node.
func (c *Cache) NodeDeleted(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Nodes = later(c.seen.Nodes, node.ResourceVersion)
	c.deltas = append(c.deltas, delta{noNode: node.Name})
}

// Changed tells that something changed which plugins read through listers:
// framework.NamespaceLabels, framework.PodOwners or framework.StorageObjects. What was concluded from it
// before the next Refresh is not relied on after that.
func (c *Cache) Changed(facets framework.Facets) { c.note(delta{other: facets}) }

// Confirm tells that the API server holds pod as assigned to its node. An
// assumption about the pod ends; the server's version of the pod replaces it,
// on whatever node it names.
func (c *Cache) Confirm(pod *v1.Pod) {
	// A malformed affinity term is no reason to forget that the pod is there.
	info, _ := framework.NewPodInfo(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Pods = later(c.seen.Pods, pod.ResourceVersion)
	if old, ok := c.placed[pod.UID]; ok && !fault.ConfirmedTwice {
		c.deltas = append(c.deltas, delta{noPod: old.info})
	}
	c.placed[pod.UID] = &placed{info: info}
	c.deltas = append(c.deltas, delta{pod: info})
}

// Remove tells that a pod is gone from its node. It reports whether the pod
// was known.
func (c *Cache) Remove(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(uid)
}

// PodDeleted is Remove, told by the last version of the pod.
func (c *Cache) PodDeleted(pod *v1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Pods = later(c.seen.Pods, pod.ResourceVersion)
	return c.take(pod.UID)
}

// Assume counts a pod in on node before the API server has heard of it. It
// stays until it is confirmed, removed or forgotten: never for a time only. It
// is an error to assume a pod that already has a node.
func (c *Cache) Assume(info *framework.PodInfo, node string) error {
	pod := info.Unassigned()
	c.mu.Lock()
	defer c.mu.Unlock()
	if there, ok := c.placed[pod.UID]; ok && !fault.AssumedTwice {
		return fmt.Errorf("pod %s/%s with UID %s is on node %s already", pod.Namespace, pod.Name, pod.UID, there.info.Node())
	}
	assigned := info.Assigned(node)
	c.placed[pod.UID] = &placed{info: assigned, assumed: true}
	c.deltas = append(c.deltas, delta{pod: assigned})
	return nil
}

// AddNominatedPod is Nominator's, but for a pod that has a node already, if
// only an assumed one: it would count twice there. Informers tell of a waiting
// pod beside the loop, which may have placed it meanwhile. A pod that is being
// deleted is nominated for none: it will never take its room.
func (c *Cache) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod.GetPod().DeletionTimestamp != nil && !fault.DoomedPromised {
		c.DeleteNominatedPodIfExists(pod.GetPod())
		return
	}
	if _, ok := c.placed[pod.GetPod().UID]; !ok || fault.NominatedBesides {
		c.Nominator.AddNominatedPod(logger, pod, info)
	}
}

// UpdateNominatedPod is Nominator's, with AddNominatedPod's exceptions.
func (c *Cache) UpdateNominatedPod(logger klog.Logger, oldPod *v1.Pod, newPod fwk.PodInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if newPod.GetPod().DeletionTimestamp != nil && !fault.DoomedPromised {
		c.DeleteNominatedPodIfExists(oldPod)
		return
	}
	if _, ok := c.placed[newPod.GetPod().UID]; !ok || fault.NominatedBesides {
		c.Nominator.UpdateNominatedPod(logger, oldPod, newPod)
	}
}

// Forget takes an assumption back. It does nothing once the API server has
// confirmed the pod, and reports whether there was something to take back.
func (c *Cache) Forget(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.placed[uid]; !ok || !p.assumed {
		return false
	}
	return c.take(uid)
}

func (c *Cache) take(uid types.UID) bool {
	p, ok := c.placed[uid]
	if ok {
		delete(c.placed, uid)
		c.deltas = append(c.deltas, delta{noPod: p.info})
	}
	return ok
}

func (c *Cache) note(d delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deltas = append(c.deltas, d)
}

// Refresh lets the changes since the last call take effect and returns the
// snapshot, which is the same value each time. Only the loop calls it.
func (c *Cache) Refresh() *Snapshot {
	c.mu.Lock()
	deltas := c.deltas
	c.deltas = c.spare[:0]
	seen := c.seen
	c.mu.Unlock()
	c.snapshot.fence.Lock()
	if c.snapshot.shown {
		c.snapshot.part()
	}
	c.snapshot.seen = seen
	c.snapshot.apply(deltas)
	c.nodes.Store(int64(c.snapshot.Len()))
	c.snapshot.fence.Unlock()
	clear(deltas)
	// Only this goroutine touches spare, but for the swap above.
	c.mu.Lock()
	c.spare = deltas
	c.mu.Unlock()
	return c.snapshot
}

// Part leaves what the snapshot shows to whoever still reads it, and goes on
// with a copy. What was shown never moves again. Only the loop calls it.
func (c *Cache) Part() {
	c.snapshot.fence.Lock()
	defer c.snapshot.fence.Unlock()
	c.snapshot.part()
}

// Snapshot returns the state as of the last Refresh. Only the loop reads it.
func (c *Cache) Snapshot() *Snapshot { return c.snapshot }
