package debug

import (
	"context"
	"time"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
)

// Generations are what runs of each profile.
type Generations struct {
	Time     time.Time `json:"time"`
	Profiles []Profile `json:"profiles"`
}

// Profile is what runs under one name.
type Profile struct {
	Name string `json:"name"`
	// Generation and Hash name what runs since then; all empty: nothing does.
	Generation int64     `json:"generation,omitempty"`
	Hash       string    `json:"hash,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Paused     bool      `json:"paused,omitempty"`
	// References is how many hold it: what runs itself, the loop, each binding.
	References int `json:"references"`
	// Old is how many generations before it still have pods on their way.
	OldGenerations int `json:"old"`
	// Wanted is the hash of a change that is being made, or waits.
	PendingHash string `json:"wanted,omitempty"`
	// LateCalls is how many calls of its plugins have not come back.
	AbandonedCalls int      `json:"lateCalls"`
	Degradations   []string `json:"ailments,omitempty"`
	// Plugins are those that run, by extension point, in order.
	Plugins map[framework.Point][]string `json:"plugins,omitempty"`
}

// LookAtGenerations copies what runs, by name.
func (r Debugger) DumpGenerations() Generations {
	g := Generations{Time: r.Now(), Profiles: []Profile{}}
	for _, alive := range r.Profiles.Statuses() {
		p := Profile{
			Name: alive.Name, Since: alive.Since, Paused: alive.Paused, References: alive.References, OldGenerations: alive.OldGenerations,
			PendingHash: alive.PendingHash, AbandonedCalls: alive.AbandonedCalls, Degradations: alive.Degradations,
		}
		if b := alive.Blueprint; b != nil {
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

// Memos are what the loop remembers of verdicts, for each profile.
type EquivalenceCaches struct {
	Time     time.Time          `json:"time"`
	Profiles []EquivalenceCache `json:"profiles"`
}

// Memo is what the loop remembers for one profile.
type EquivalenceCache struct {
	Profile string `json:"profile"`
	Hash    string `json:"hash"`
	// Kept says that anything is remembered.
	Enabled bool `json:"kept"`
	// Classes is of how many kinds of pods, Bytes what that takes about, and Limit
	// what it may.
	Classes int `json:"classes"`
	Bytes   int `json:"bytes"`
	Limit   int `json:"limit"`
	// The rest is cycle.Stats.
	Cached     uint64 `json:"remembered"`
	Uncached   uint64 `json:"plain"`
	Visited    uint64 `json:"met"`
	Evaluated  uint64 `json:"judged"`
	Mismatches uint64 `json:"different"`
}

func newEquivalenceCache(profile, hash string, m *cycle.EquivalenceCache) EquivalenceCache {
	stats := m.Stats()
	one := EquivalenceCache{
		Profile: profile, Hash: hash, Enabled: m != nil, Cached: stats.Cached, Uncached: stats.Uncached,
		Visited: stats.Visited, Evaluated: stats.Evaluated, Mismatches: stats.Mismatches,
	}
	one.Classes, one.Bytes, one.Limit = m.Size()
	return one
}

// LookIntoMemos copies how much is remembered. It is the loop's: the error says
// that the loop was at a pod all the while.
func (r Debugger) DumpEquivalenceCaches(ctx context.Context) (EquivalenceCaches, error) {
	m := EquivalenceCaches{Time: r.Now(), Profiles: []EquivalenceCache{}}
	ctx, cancel := context.WithTimeoutCause(ctx, loopTimeout, errLoopBusy)
	defer cancel()
	alive := r.Profiles.Statuses()
	err := r.BetweenCycles(ctx, func() {
		for _, a := range alive {
			if a.Generation != nil {
				m.Profiles = append(m.Profiles, newEquivalenceCache(a.Name, a.Blueprint.Hash, a.Generation.EquivalenceCache()))
			}
		}
	})
	return m, err
}
