package sandbox

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

// Cluster is a copy of the cluster on which plugins are evaluated. Pods that they place are
// assumed in the copy only. A Cluster is not safe for concurrent use.
type Cluster struct {
	cache *cache.Cache
	// host has what Host does not set itself.
	host        framework.Host
	nodes       map[string]*v1.Node
	assigned    map[types.UID]*v1.Pod
	nominations []nomination
	// assumed are the pods that were assumed since the last reset.
	assumed []*v1.Pod

	pool *Pool // nil: the Cluster is not reused
	// inUse says that plugins hold the Cluster and their evaluation has not ended.
	inUse bool
	// exposed says that out-of-tree plugins were given the Cluster. They may read what
	// they were given at any later time.
	exposed bool
}

// NewCluster returns a copy of the cluster. The caller may Release it after use.
func (c *ClusterState) NewCluster() *Cluster {
	cluster := c.pool.get()
	cluster.host = c.host
	cluster.load(c)
	return cluster
}

// load makes the Cluster equal to state.
func (c *Cluster) load(state *ClusterState) {
	for _, p := range c.nominations {
		c.cache.DeleteNominatedPodIfExists(p.pod)
	}
	c.nominations = state.nominations
	c.nodes = applyChanges(c.nodes, state.nodes, func(n *v1.Node) string { return n.Name }, c.cache.SetNode, c.cache.RemoveNodeByName)
	c.assigned = applyChanges(c.assigned, state.assigned, func(p *v1.Pod) types.UID { return p.UID }, c.cache.SetPod,
		func(uid types.UID) { c.cache.RemovePodByUID(uid) })
	// The Cluster gets no events of these objects, so any of them may have changed.
	c.cache.MarkChanged(framework.NamespaceLabels | framework.PodOwners | framework.StorageObjects)
	c.reset()
}

// applyChanges calls set for each object of now that is new or differs from was, and
// remove for each that is only in was. It returns now by its keys.
func applyChanges[K comparable, V comparable](was map[K]V, now []V, key func(V) K, set func(V), remove func(K)) map[K]V {
	is := make(map[K]V, len(now))
	for _, object := range now {
		k := key(object)
		if is[k] = object; was[k] != object {
			set(object)
		}
		delete(was, k)
	}
	for k := range was {
		remove(k)
	}
	return is
}

// reset makes the Cluster equal to the state that was loaded.
func (c *Cluster) reset() {
	for _, pod := range c.assumed {
		c.cache.ForgetPod(pod.UID)
	}
	c.assumed = nil
	for _, p := range c.nominations {
		if info, _ := framework.NewPodInfo(p.pod); info != nil {
			c.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{
				NominatingMode: fwk.ModeOverride, NominatedNodeName: p.node,
			})
		}
	}
	c.cache.UpdateSnapshot()
}

// Release returns the Cluster to its Pool. The caller must not use it any more. A Cluster
// that plugins may still read is dropped instead.
func (c *Cluster) Release() {
	if c.pool != nil && !c.inUse && !c.exposed {
		c.pool.put(c)
	}
}

// idleTimeout is how long an unused Cluster is kept. It uses as much memory as the cluster
// cache itself.
const idleTimeout = time.Minute

// Pool keeps the Cluster of the last trial for the next one, which then only applies what
// has changed. Copying the whole cluster takes longer than evaluating all pods of the
// sample. It is safe for concurrent use.
type Pool struct {
	clock clock.WithDelayedExecution

	mu   sync.Mutex
	idle *Cluster
	// dropTimer drops the idle Cluster.
	dropTimer clock.Timer
}

// NewPool returns an empty Pool that uses the clock c.
func NewPool(c clock.WithDelayedExecution) *Pool { return &Pool{clock: c} }

// get returns the idle Cluster, or an empty one. The caller owns it. p may be nil.
func (p *Pool) get() *Cluster {
	empty := &Cluster{cache: cache.New(), pool: p}
	if p == nil {
		return empty
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil || !p.dropTimer.Stop() {
		p.idle = nil
		return empty
	}
	cluster := p.idle
	p.idle = nil
	return cluster
}

func (p *Pool) put(cluster *Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle != nil {
		return // another trial has put its Cluster
	}
	p.idle = cluster
	p.dropTimer = p.clock.AfterFunc(idleTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.idle == cluster {
			p.idle = nil
		}
	})
}
