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
const keepIdle = time.Minute

// Towns keeps the Town of the last trial for the next one. While profiles change
// often, a trial looks then for what has changed in the cluster; to copy it all
// takes longer than to ask about every pod of the sample.
type Towns struct {
	clock clock.WithDelayedExecution

	mu   sync.Mutex
	idle *Town
	// drop forgets the idle Town.
	drop clock.Timer
}

// NewTowns returns an empty Towns that tells the time by c.
func NewTowns(c clock.WithDelayedExecution) *Towns { return &Towns{clock: c} }

// take returns the Town that was kept, or an empty one. It is its caller's alone.
func (t *Towns) take() *Town {
	empty := &Town{cache: cache.New(), towns: t}
	if t == nil {
		return empty
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil || !t.drop.Stop() {
		t.idle = nil
		return empty
	}
	town := t.idle
	t.idle = nil
	return town
}

func (t *Towns) keep(town *Town) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil {
		return // of another profile's trial
	}
	t.idle = town
	t.drop = t.clock.AfterFunc(keepIdle, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.idle == town {
			t.idle = nil
		}
	})
}

// GiveBack lets another trial have the Town. Its caller must not use it any
// more. A Town that somebody may still read is forgotten instead.
func (t *Town) GiveBack() {
	if t.towns != nil && !t.lent && !t.shown {
		t.towns.keep(t)
	}
}

// bring makes the Town what the scene shows.
func (t *Town) bring(s *Scene) {
	for _, p := range t.promises {
		t.cache.DeleteNominatedPodIfExists(p.pod)
	}
	t.promises = s.promises
	t.nodes = replace(t.nodes, s.nodes, func(n *v1.Node) string { return n.Name }, t.cache.SetNode, t.cache.RemoveNode)
	t.placed = replace(t.placed, s.placed, func(p *v1.Pod) types.UID { return p.UID }, t.cache.Confirm,
		func(uid types.UID) { t.cache.Remove(uid) })
	// Nobody has told the Town of those.
	t.cache.Changed(framework.NamespaceLabels | framework.PodOwners | framework.StorageObjects)
	t.restore()
}

// replace tells of what is in now and was not, or was another object, and of
// what was there and is not any more. It returns now by its keys.
func replace[K comparable, V comparable](was map[K]V, now []V, key func(V) K, set func(V), remove func(K)) map[K]V {
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
