package inspect

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
	Old int `json:"old"`
	// Wanted is the hash of a change that is being made, or waits.
	Wanted string `json:"wanted,omitempty"`
	// LateCalls is how many calls of its plugins have not come back.
	LateCalls int      `json:"lateCalls"`
	Ailments  []string `json:"ailments,omitempty"`
	// Plugins are those that run, by extension point, in order.
	Plugins map[framework.Point][]string `json:"plugins,omitempty"`
}

// LookAtGenerations copies what runs, by name.
func (r Rooms) LookAtGenerations() Generations {
	g := Generations{Time: r.Now(), Profiles: []Profile{}}
	for _, alive := range r.Profiles.Inspect() {
		p := Profile{
			Name: alive.Name, Since: alive.Since, Paused: alive.Paused, References: alive.References, Old: alive.Old,
			Wanted: alive.Wanted, LateCalls: alive.Late, Ailments: alive.Ailments,
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
type Memos struct {
	Time     time.Time `json:"time"`
	Profiles []Memo    `json:"profiles"`
}

// Memo is what the loop remembers for one profile.
type Memo struct {
	Profile string `json:"profile"`
	Hash    string `json:"hash"`
	// Kept says that anything is remembered.
	Kept bool `json:"kept"`
	// Classes is of how many kinds of pods, Bytes what that takes about, and Limit
	// what it may.
	Classes int `json:"classes"`
	Bytes   int `json:"bytes"`
	Limit   int `json:"limit"`
	// The rest is cycle.Stats.
	Remembered uint64 `json:"remembered"`
	Plain      uint64 `json:"plain"`
	Met        uint64 `json:"met"`
	Judged     uint64 `json:"judged"`
	Different  uint64 `json:"different"`
}

func memoOf(profile, hash string, m *cycle.Memo) Memo {
	stats := m.Stats()
	one := Memo{
		Profile: profile, Hash: hash, Kept: m != nil, Remembered: stats.Remembered, Plain: stats.Plain,
		Met: stats.Met, Judged: stats.Judged, Different: stats.Different,
	}
	one.Classes, one.Bytes, one.Limit = m.Size()
	return one
}

// LookIntoMemos copies how much is remembered. It is the loop's: the error says
// that the loop was at a pod all the while.
func (r Rooms) LookIntoMemos(ctx context.Context) (Memos, error) {
	m := Memos{Time: r.Now(), Profiles: []Memo{}}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errBusy)
	defer cancel()
	alive := r.Profiles.Inspect()
	err := r.Between(ctx, func() {
		for _, a := range alive {
			if a.Generation != nil {
				m.Profiles = append(m.Profiles, memoOf(a.Name, a.Blueprint.Hash, a.Generation.Memo()))
			}
		}
	})
	return m, err
}
