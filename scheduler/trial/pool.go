package trial

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// idleTimeout is how long an unused Sandbox is kept. It uses as much memory as the cluster
// cache itself.
const idleTimeout = time.Minute

// Pool keeps the Sandbox of the last trial for the next one, which then only applies what
// has changed in the cluster. Copying the whole cluster takes longer than evaluating all
// pods of the sample. It is safe for concurrent use.
type Pool struct {
	clock clock.WithDelayedExecution

	mu   sync.Mutex
	idle *Sandbox
	// dropTimer drops the idle Sandbox.
	dropTimer clock.Timer
}

// NewPool returns an empty Pool that uses the clock c.
func NewPool(c clock.WithDelayedExecution) *Pool { return &Pool{clock: c} }

// get returns the idle Sandbox, or an empty one. The caller owns it. p may be nil.
func (p *Pool) get() *Sandbox {
	empty := &Sandbox{cache: cache.New(), pool: p}
	if p == nil {
		return empty
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil || !p.dropTimer.Stop() {
		p.idle = nil
		return empty
	}
	sandbox := p.idle
	p.idle = nil
	return sandbox
}

func (p *Pool) put(sandbox *Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle != nil {
		return // another trial has put its Sandbox
	}
	p.idle = sandbox
	p.dropTimer = p.clock.AfterFunc(idleTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.idle == sandbox {
			p.idle = nil
		}
	})
}

// Release returns the Sandbox to its Pool. The caller must not use it any more. A Sandbox
// that plugins may still read is dropped instead.
func (s *Sandbox) Release() {
	if s.pool != nil && !s.inUse && !s.exposed {
		s.pool.put(s)
	}
}

// load makes the Sandbox equal to state.
func (s *Sandbox) load(state *ClusterState) {
	for _, p := range s.nominations {
		s.cache.DeleteNominatedPodIfExists(p.pod)
	}
	s.nominations = state.nominations
	s.nodes = applyChanges(s.nodes, state.nodes, func(n *v1.Node) string { return n.Name }, s.cache.SetNode, s.cache.RemoveNodeByName)
	s.assigned = applyChanges(s.assigned, state.assigned, func(p *v1.Pod) types.UID { return p.UID }, s.cache.SetPod,
		func(uid types.UID) { s.cache.RemovePodByUID(uid) })
	// The Sandbox gets no events of these objects, so any of them may have changed.
	s.cache.MarkChanged(framework.NamespaceLabels | framework.PodOwners | framework.StorageObjects)
	s.reset()
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
		if !fault.TownKeepsTheGone {
			remove(k)
		}
	}
	return is
}
