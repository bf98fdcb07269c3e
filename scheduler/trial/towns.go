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

// keepIdle is how long a Town that nobody uses is kept: it takes as much memory
// as the cluster itself.
const idleTimeout = time.Minute

// Towns keeps the Town of the last trial for the next one. While profiles change
// often, a trial looks then for what has changed in the cluster; to copy it all
// takes longer than to ask about every pod of the sample.
type Pool struct {
	clock clock.WithDelayedExecution

	mu   sync.Mutex
	idle *Sandbox
	// drop forgets the idle Town.
	dropTimer clock.Timer
}

// NewTowns returns an empty Towns that tells the time by c.
func NewPool(c clock.WithDelayedExecution) *Pool { return &Pool{clock: c} }

// take returns the Town that was kept, or an empty one. It is its caller's alone.
func (t *Pool) get() *Sandbox {
	empty := &Sandbox{cache: cache.New(), pool: t}
	if t == nil {
		return empty
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil || !t.dropTimer.Stop() {
		t.idle = nil
		return empty
	}
	town := t.idle
	t.idle = nil
	return town
}

func (t *Pool) put(town *Sandbox) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil {
		return // of another profile's trial
	}
	t.idle = town
	t.dropTimer = t.clock.AfterFunc(idleTimeout, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.idle == town {
			t.idle = nil
		}
	})
}

// GiveBack lets another trial have the Town. Its caller must not use it any
// more. A Town that somebody may still read is forgotten instead.
func (t *Sandbox) Release() {
	if t.pool != nil && !t.inUse && !t.exposed {
		t.pool.put(t)
	}
}

// bring makes the Town what the scene shows.
func (t *Sandbox) load(s *ClusterState) {
	for _, p := range t.nominations {
		t.cache.DeleteNominatedPodIfExists(p.pod)
	}
	t.nominations = s.nominations
	t.nodes = applyChanges(t.nodes, s.nodes, func(n *v1.Node) string { return n.Name }, t.cache.SetNode, t.cache.RemoveNodeByName)
	t.assigned = applyChanges(t.assigned, s.assigned, func(p *v1.Pod) types.UID { return p.UID }, t.cache.SetPod,
		func(uid types.UID) { t.cache.RemovePodByUID(uid) })
	// Nobody has told the Town of those.
	t.cache.MarkChanged(framework.NamespaceLabels | framework.PodOwners | framework.StorageObjects)
	t.reset()
}

// replace tells of what is in now and was not, or was another object, and of
// what was there and is not any more. It returns now by its keys.
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
