package debug

import (
	"context"
	"time"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
)

// Generations are the running generations of all profiles.
type Generations struct {
	Time     time.Time `json:"time"`
	Profiles []Profile `json:"profiles"`
}

// Profile is what runs for one profile.
type Profile struct {
	Name string `json:"name"`
	// Generation and Hash identify what runs, Since is when it began; all are empty when
	// nothing runs.
	Generation int64     `json:"generation,omitempty"`
	Hash       string    `json:"hash,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Paused     bool      `json:"paused,omitempty"`
	// References is the number of references: one of the profile itself, one of the loop
	// and one of each binding cycle.
	References int `json:"references"`
	// OldGenerations is how many earlier generations still have binding cycles.
	OldGenerations int `json:"oldGenerations"`
	// PendingHash is the hash of a change that is being built, or waits to be.
	PendingHash string `json:"pendingHash,omitempty"`
	// AbandonedCalls is how many calls of plugins timed out and have not returned.
	AbandonedCalls int      `json:"abandonedCalls"`
	Degradations   []string `json:"degradations,omitempty"`
	// Plugins are the enabled plugins by extension point, in order.
	Plugins map[framework.Point][]string `json:"plugins,omitempty"`
}

// DumpGenerations copies what runs, sorted by profile.
func (d Debugger) DumpGenerations() Generations {
	g := Generations{Time: d.Now(), Profiles: []Profile{}}
	for _, status := range d.Profiles.Statuses() {
		p := Profile{
			Name: status.Name, Since: status.Since, Paused: status.Paused, References: status.References, OldGenerations: status.OldGenerations,
			PendingHash: status.PendingHash, AbandonedCalls: status.AbandonedCalls, Degradations: status.Degradations.Messages(),
		}
		if b := status.Blueprint; b != nil {
			p.Generation, p.Hash, p.Plugins = b.Generation, b.Hash, map[framework.Point][]string{}
			for point, entries := range b.Chains {
				for _, entry := range entries {
					p.Plugins[point] = append(p.Plugins[point], entry.Name)
				}
			}
		}
		g.Profiles = append(g.Profiles, p)
	}
	return g
}

// EquivalenceCaches are the sizes and counters of the equivalence caches.
type EquivalenceCaches struct {
	Time     time.Time          `json:"time"`
	Profiles []EquivalenceCache `json:"profiles"`
}

// EquivalenceCache is the size and the counters of one profile's equivalence cache.
type EquivalenceCache struct {
	Profile string `json:"profile"`
	Hash    string `json:"hash"`
	// Enabled says that the profile has an equivalence cache.
	Enabled bool `json:"enabled"`
	// Classes is the number of pod classes, Bytes the approximate memory and Limit its
	// maximum.
	Classes int `json:"classes"`
	Bytes   int `json:"bytes"`
	Limit   int `json:"limit"`
	// The counters are those of cycle.Stats.
	Cached     uint64 `json:"cached"`
	Uncached   uint64 `json:"uncached"`
	Visited    uint64 `json:"visited"`
	Evaluated  uint64 `json:"evaluated"`
	Mismatches uint64 `json:"mismatches"`
}

func newEquivalenceCache(profile, hash string, m *cycle.EquivalenceCache) EquivalenceCache {
	stats := m.Stats()
	e := EquivalenceCache{
		Profile: profile, Hash: hash, Enabled: m != nil, Cached: stats.Cached, Uncached: stats.Uncached,
		Visited: stats.Visited, Evaluated: stats.Evaluated, Mismatches: stats.Mismatches,
	}
	e.Classes, e.Bytes, e.Limit = m.Size()
	return e
}

// DumpEquivalenceCaches copies the sizes and counters between two scheduling cycles.
// It returns an error when the loop did not finish a cycle in time.
func (d Debugger) DumpEquivalenceCaches(ctx context.Context) (EquivalenceCaches, error) {
	m := EquivalenceCaches{Time: d.Now(), Profiles: []EquivalenceCache{}}
	ctx, cancel := context.WithTimeoutCause(ctx, loopTimeout, errLoopBusy)
	defer cancel()
	statuses := d.Profiles.Statuses()
	err := d.BetweenCycles(ctx, func() {
		for _, status := range statuses {
			if status.Generation != nil {
				m.Profiles = append(m.Profiles, newEquivalenceCache(status.Name, status.Blueprint.Hash, status.Generation.EquivalenceCache()))
			}
		}
	})
	return m, err
}
