// Package cache holds the cluster state that scheduling reads: nodes, the pods
// assigned to them, images and nominations. Assumed pods count as assigned.
//
// Event handlers and binding report changes from any goroutine. The cache
// records each change as a delta and applies it in UpdateSnapshot, which the
// scheduling loop calls once before each attempt, or in UpdateBetweenAttempts. What
// plugins see changes only there, so that Reserve and Permit of a pod see the cluster
// without that pod, as the contract of k8s.io/kube-scheduler/framework promises.
package cache

import (
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// Cache is the only writer of the cluster state. Every method is safe for
// concurrent use but UpdateSnapshot, UpdateBetweenAttempts, ReplaceNodeInfos and
// Snapshot: those, and the Snapshot that they return, belong to the scheduling loop.
type Cache struct {
	Nominator
	// groups hears of every pod that gets a node, or loses it.
	groups *podgroups.Store

	mu sync.Mutex
	// podStates holds every pod that has a node, assumed or assigned in the
	// API server, by UID.
	podStates map[types.UID]*podState
	// deltas are the changes since the last update of the snapshot, oldest first.
	deltas      []delta
	spareDeltas []delta
	versions    ResourceVersions

	snapshot *Snapshot
	// nodeCount is the number of nodes in the snapshot, for readers outside the
	// scheduling loop.
	nodeCount atomic.Int64
}

// podState is a pod that has a node.
type podState struct {
	info    *framework.PodInfo
	assumed bool
}

// delta is one change of the cluster state. Exactly one field is set.
type delta struct {
	setNode       *v1.Node
	removeNode    string
	addPod        *framework.PodInfo
	removePod     *framework.PodInfo
	changedFacets framework.Facets
}

// New returns an empty cache.
func New() *Cache {
	groups := podgroups.NewStore()
	return &Cache{
		Nominator: newNominator(),
		groups:    groups,
		podStates: map[types.UID]*podState{},
		snapshot:  newSnapshot(groups),
	}
}

// Groups returns the groups of pods. The cache reports pods that get or lose a node; the
// event handlers report pending pods and PodGroups.
func (c *Cache) Groups() *podgroups.Store { return c.groups }

// NewWithScanCounts returns an empty cache whose snapshot counts pods by a scan
// for each query. It is slow, and the reference that tests compare incremental
// counts with.
func NewWithScanCounts() *Cache {
	c := New()
	c.snapshot.useScan = true
	return c
}

// SetNode adds or replaces a node.
func (c *Cache) SetNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Nodes = maxVersion(c.versions.Nodes, node.ResourceVersion)
	c.deltas = append(c.deltas, delta{setNode: node})
}

// RemoveNodeByName removes a node. The pods on it stay in the cache until they
// are removed themselves: their deletions arrive on another watch.
func (c *Cache) RemoveNodeByName(name string) { c.recordDelta(delta{removeNode: name}) }

// RemoveNode removes a node, given its last version.
func (c *Cache) RemoveNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Nodes = maxVersion(c.versions.Nodes, node.ResourceVersion)
	c.deltas = append(c.deltas, delta{removeNode: node.Name})
}

// MarkChanged records that objects changed which plugins read through listers:
// framework.NamespaceLabels, framework.PodOwners or framework.StorageObjects.
// The next UpdateSnapshot invalidates the results that were derived from them.
func (c *Cache) MarkChanged(facets framework.Facets) { c.recordDelta(delta{changedFacets: facets}) }

// SetPod stores pod as assigned to its node, as the API server does. It replaces
// an assumed or older version of the pod, also one on another node.
func (c *Cache) SetPod(pod *v1.Pod) {
	// On a malformed affinity term info is still usable: the pod takes up
	// resources all the same.
	info, _ := framework.NewPodInfo(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Pods = maxVersion(c.versions.Pods, pod.ResourceVersion)
	if old, ok := c.podStates[pod.UID]; ok {
		c.deltas = append(c.deltas, delta{removePod: old.info})
	}
	c.podStates[pod.UID] = &podState{info: info}
	c.deltas = append(c.deltas, delta{addPod: info})
	c.groups.SetPod(pod)
}

// RemovePodByUID removes a pod and reports whether the cache held it.
func (c *Cache) RemovePodByUID(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removePodLocked(uid)
}

// RemovePod removes a pod, given its last version, and reports whether the cache
// held it.
func (c *Cache) RemovePod(pod *v1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions.Pods = maxVersion(c.versions.Pods, pod.ResourceVersion)
	return c.removePodLocked(pod.UID)
}

// AssumePod counts a pod on node before the API server does. The assumption does
// not expire: it ends with SetPod, RemovePod or ForgetPod. AssumePod returns an
// error when the pod has a node already.
func (c *Cache) AssumePod(info *framework.PodInfo, node string) error {
	return c.assume(info.WithNode(node))
}

// CountPod is AssumePod for a pod that only counts on node, see framework.PodInfo.CountingOn.
func (c *Cache) CountPod(info *framework.PodInfo, node string) error {
	return c.assume(info.CountingOn(node))
}

func (c *Cache) assume(assigned *framework.PodInfo) error {
	pod := assigned.OriginalPod()
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing, ok := c.podStates[pod.UID]; ok {
		return fmt.Errorf("pod %s/%s with UID %s is on node %s already", pod.Namespace, pod.Name, pod.UID, existing.info.NodeName())
	}
	c.podStates[pod.UID] = &podState{info: assigned, assumed: true}
	c.deltas = append(c.deltas, delta{addPod: assigned})
	if _, grouped := podgroups.KeyOf(pod); grouped {
		c.groups.AssumePod(assigned.GetPod())
	}
	return nil
}

// AddNominatedPod does what Nominator.AddNominatedPod does, with two exceptions.
// A pod that has a node, if only an assumed one, is not nominated: it would
// count twice. That happens because informers deliver a pending pod while the
// scheduling loop assumes it. A terminating pod loses its nomination: it will
// never use the resources.
func (c *Cache) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod.GetPod().DeletionTimestamp != nil {
		c.DeleteNominatedPodIfExists(pod.GetPod())
		return
	}
	if _, ok := c.podStates[pod.GetPod().UID]; !ok {
		c.Nominator.AddNominatedPod(logger, pod, info)
	}
}

// UpdateNominatedPod does what Nominator.UpdateNominatedPod does, with the
// exceptions of AddNominatedPod.
func (c *Cache) UpdateNominatedPod(logger klog.Logger, oldPod *v1.Pod, newPod fwk.PodInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if newPod.GetPod().DeletionTimestamp != nil {
		c.DeleteNominatedPodIfExists(oldPod)
		return
	}
	if _, ok := c.podStates[newPod.GetPod().UID]; !ok {
		c.Nominator.UpdateNominatedPod(logger, oldPod, newPod)
	}
}

// ForgetPod ends the assumption of a pod and reports whether there was one. It
// does nothing once SetPod has stored the pod.
func (c *Cache) ForgetPod(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.podStates[uid]; !ok || !p.assumed {
		return false
	}
	return c.removePodLocked(uid)
}

// removePodLocked removes a pod and reports whether the cache held it. The
// caller holds the lock.
func (c *Cache) removePodLocked(uid types.UID) bool {
	p, ok := c.podStates[uid]
	if ok {
		delete(c.podStates, uid)
		c.deltas = append(c.deltas, delta{removePod: p.info})
		if p.assumed {
			c.groups.ForgetPod(p.info.OriginalPod())
		} else {
			c.groups.RemovePod(p.info.OriginalPod())
		}
	}
	return ok
}

func (c *Cache) recordDelta(d delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deltas = append(c.deltas, d)
}

// UpdateSnapshot applies the deltas since the last call and returns the snapshot,
// the same value each time. Only the scheduling loop may call it.
func (c *Cache) UpdateSnapshot() *Snapshot { return c.applyDeltas(c.snapshot.update) }

// UpdateBetweenAttempts is UpdateSnapshot for a caller that makes no attempt, but reads
// the snapshot or shortens the log. It changes no decision of a later attempt, as
// UpdateSnapshot would: as in kube-scheduler, a node keeps the number of nodes with its
// images, and the list of nodes its order, from one attempt to the next.
func (c *Cache) UpdateBetweenAttempts() { c.applyDeltas(c.snapshot.updateBetween) }

// Deltas returns the number of deltas that no update of the snapshot has applied yet.
func (c *Cache) Deltas() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deltas)
}

// applyDeltas applies the deltas that were recorded since the last call.
func (c *Cache) applyDeltas(apply func([]delta)) *Snapshot {
	c.mu.Lock()
	deltas := c.deltas
	c.deltas = c.spareDeltas
	seen := c.versions
	c.mu.Unlock()
	c.snapshot.mu.Lock()
	if c.snapshot.readByAbandonedCall {
		c.snapshot.replaceNodeInfos()
	}
	c.snapshot.versions = seen
	apply(deltas)
	c.nodeCount.Store(int64(c.snapshot.Len()))
	c.snapshot.mu.Unlock()
	spare := emptied(deltas)
	// Other goroutines never read or write spareDeltas.
	c.mu.Lock()
	c.spareDeltas = spare
	c.mu.Unlock()
	return c.snapshot
}

// ReplaceNodeInfos replaces every NodeInfo of the snapshot by a clone, so that
// the ones shown before never change again. Only the scheduling loop may call it.
func (c *Cache) ReplaceNodeInfos() {
	c.snapshot.mu.Lock()
	defer c.snapshot.mu.Unlock()
	c.snapshot.replaceNodeInfos()
}

// Snapshot returns the snapshot as of the last UpdateSnapshot. Only the
// scheduling loop may call it.
func (c *Cache) Snapshot() *Snapshot { return c.snapshot }

// AssumedNode returns the node that a pod is assumed on; ok is false when the pod
// is not assumed.
func (c *Cache) AssumedNode(uid types.UID) (node string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.podStates[uid]
	if !ok || !p.assumed {
		return "", false
	}
	return p.info.NodeName(), true
}

// IsAssigned reports whether a pod has a node, if only an assumed one.
func (c *Cache) IsAssigned(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.podStates[uid]
	return ok
}

// Pod returns the newest version of a pod that has a node, if only an assumed
// one; nil for a pod that has none.
func (c *Cache) Pod(uid types.UID) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.podStates[uid]; ok {
		return p.info.GetPod()
	}
	return nil
}

// Evictable is Pod, but nil for a pod that only counts.
func (c *Cache) Evictable(uid types.UID) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.podStates[uid]; ok && !p.info.OnlyCounts() {
		return p.info.GetPod()
	}
	return nil
}

// Sizes returns the number of pods that have a node, and of the assumed ones
// among them.
func (c *Cache) Sizes() (pods, assumed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.podStates {
		if p.assumed {
			assumed++
		}
	}
	return len(c.podStates), assumed
}
