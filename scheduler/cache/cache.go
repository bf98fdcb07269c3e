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
	podStates map[types.UID]*podState
	// deltas are the changes since the last Refresh, oldest first.
	deltas      []delta
	spareDeltas []delta
	versions    ResourceVersions

	snapshot *Snapshot
	// nodes is how many the snapshot holds, for those who may not read it.
	nodeCount atomic.Int64
}

// placed is a pod that has a node.
type podState struct {
	info    *framework.PodInfo
	assumed bool
}

// delta is one change of what is where. Exactly one field is set.
type delta struct {
	setNode       *v1.Node
	removeNode    string
	addPod        *framework.PodInfo
	removePod     *framework.PodInfo
	changedFacets framework.Facets
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{
		Nominator: newNominator(),
		podStates: map[types.UID]*podState{},
		snapshot:  newSnapshot(),
	}
}

// NewScanning returns an empty cache that counts pods by looking at all of them
// each time: slow, and what the counts of others are held to.
func NewWithScanCounts() *Cache {
	c := New()
	c.snapshot.useScan = true
	return c
}

// SetNode adds a node, or replaces what is known of it.
func (c *Cache) SetNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Nodes = maxVersion(c.versions.Nodes, node.ResourceVersion)
	c.deltas = append(c.deltas, delta{setNode: node})
}

// RemoveNode forgets a node. Pods on it stay known until they go themselves,
// since their deletions come on another watch.
func (c *Cache) RemoveNodeByName(name string) { c.recordDelta(delta{removeNode: name}) }

// NodeDeleted is RemoveNode, told by the last version of the node.
func (c *Cache) RemoveNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Nodes = maxVersion(c.versions.Nodes, node.ResourceVersion)
	c.deltas = append(c.deltas, delta{removeNode: node.Name})
}

// Changed tells that something changed which plugins read through listers:
// framework.NamespaceLabels, framework.PodOwners or framework.StorageObjects. What was concluded from it
// before the next Refresh is not relied on after that.
func (c *Cache) MarkChanged(facets framework.Facets) { c.recordDelta(delta{changedFacets: facets}) }

// Confirm tells that the API server holds pod as assigned to its node. An
// assumption about the pod ends; the server's version of the pod replaces it,
// on whatever node it names.
func (c *Cache) SetPod(pod *v1.Pod) {
	// A malformed affinity term is no reason to forget that the pod is there.
	info, _ := framework.NewPodInfo(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Pods = maxVersion(c.versions.Pods, pod.ResourceVersion)
	if old, ok := c.podStates[pod.UID]; ok && !fault.ConfirmedTwice {
		c.deltas = append(c.deltas, delta{removePod: old.info})
	}
	c.podStates[pod.UID] = &podState{info: info}
	c.deltas = append(c.deltas, delta{addPod: info})
}

// Remove tells that a pod is gone from its node. It reports whether the pod
// was known.
func (c *Cache) RemovePodByUID(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removePodLocked(uid)
}

// PodDeleted is Remove, told by the last version of the pod.
func (c *Cache) RemovePod(pod *v1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Pods = maxVersion(c.versions.Pods, pod.ResourceVersion)
	return c.removePodLocked(pod.UID)
}

// Assume counts a pod in on node before the API server has heard of it. It
// stays until it is confirmed, removed or forgotten: never for a time only. It
// is an error to assume a pod that already has a node.
func (c *Cache) AssumePod(info *framework.PodInfo, node string) error {
	pod := info.OriginalPod()
	c.mu.Lock()
	defer c.mu.Unlock()
	if there, ok := c.podStates[pod.UID]; ok && !fault.AssumedTwice {
		return fmt.Errorf("pod %s/%s with UID %s is on node %s already", pod.Namespace, pod.Name, pod.UID, there.info.NodeName())
	}
	assigned := info.WithNode(node)
	c.podStates[pod.UID] = &podState{info: assigned, assumed: true}
	c.deltas = append(c.deltas, delta{addPod: assigned})
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
	if _, ok := c.podStates[pod.GetPod().UID]; !ok || fault.NominatedBesides {
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
	if _, ok := c.podStates[newPod.GetPod().UID]; !ok || fault.NominatedBesides {
		c.Nominator.UpdateNominatedPod(logger, oldPod, newPod)
	}
}

// Forget takes an assumption back. It does nothing once the API server has
// confirmed the pod, and reports whether there was something to take back.
func (c *Cache) ForgetPod(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.podStates[uid]; !ok || !p.assumed {
		return false
	}
	return c.removePodLocked(uid)
}

func (c *Cache) removePodLocked(uid types.UID) bool {
	p, ok := c.podStates[uid]
	if ok {
		delete(c.podStates, uid)
		c.deltas = append(c.deltas, delta{removePod: p.info})
	}
	return ok
}

func (c *Cache) recordDelta(d delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deltas = append(c.deltas, d)
}

// Refresh lets the changes since the last call take effect and returns the
// snapshot, which is the same value each time. Only the loop calls it.
func (c *Cache) UpdateSnapshot() *Snapshot {
	c.mu.Lock()
	deltas := c.deltas
	c.deltas = c.spareDeltas[:0]
	seen := c.versions
	c.mu.Unlock()
	c.snapshot.mu.Lock()
	if c.snapshot.readByAbandonedCall {
		c.snapshot.replaceNodeInfos()
	}
	c.snapshot.versions = seen
	c.snapshot.apply(deltas)
	c.nodeCount.Store(int64(c.snapshot.Len()))
	c.snapshot.mu.Unlock()
	clear(deltas)
	// Only this goroutine touches spare, but for the swap above.
	c.mu.Lock()
	c.spareDeltas = deltas
	c.mu.Unlock()
	return c.snapshot
}

// Part leaves what the snapshot shows to whoever still reads it, and goes on
// with a copy. What was shown never moves again. Only the loop calls it.
func (c *Cache) ReplaceNodeInfos() {
	c.snapshot.mu.Lock()
	defer c.snapshot.mu.Unlock()
	c.snapshot.replaceNodeInfos()
}

// Snapshot returns the state as of the last Refresh. Only the loop reads it.
func (c *Cache) Snapshot() *Snapshot { return c.snapshot }
