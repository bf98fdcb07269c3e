package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/test/support/controlplane"
)

// replayer is a program that replays a log and times it.
type replayer struct {
	name string
	// module and pkg are its folder in the repository, and its package there.
	module, pkg string
	path        string // once it is built
}

// replayers are both sides of the algorithm.
func replayers() []replayer {
	return []replayer{
		{name: berth, module: ".", pkg: "./test/replay"},
		{name: kube, module: filepath.Join("test", "exactness", "oracle"), pkg: "."},
	}
}

// replay is what a replayer says at the end of --bench, and what its process
// took.
type replay struct {
	Pods   int     `json:"pods"`
	Micros float64 `json:"us_per_pod"`
	Allocs float64 `json:"allocs_per_pod"`
	Bytes  float64 `json:"bytes_per_pod"`
	Hash   string  `json:"sha256"`
	// Seconds are from the start of the process to its end, with reading the
	// log; Peak is the most memory that it had resident, in MiB.
	Seconds float64 `json:"seconds"`
	Peak    float64 `json:"peakMiB"`
}

// algorithm replays the log of each shape on both sides in turn.
func (b *bench) algorithm(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	both, err := buildReplayers(ctx, dir)
	if err != nil || both == nil {
		b.skip("algorithm", "this tree has no test/replay with its twin in test/exactness/oracle")
		return err
	}
	logs := b.options.logs
	if logs == "" {
		logs = dir
	}
	for _, step := range b.options.steps {
		s := shapes[0]
		s.nodes, s.existing = step, step
		c, err := b.replay(ctx, s, both, logs)
		if err != nil {
			return err
		}
		b.report.Steps = append(b.report.Steps, c)
		b.say("algorithm, %s on %d nodes: %s", s.name, step, c.verdict())
	}
	for _, s := range b.wanted("algorithm") {
		c, err := b.replay(ctx, s, both, logs)
		if err != nil {
			return err
		}
		b.report.Algorithm = append(b.report.Algorithm, c)
		b.say("algorithm, %s: %s", s.name, c.verdict())
	}
	return nil
}

// replay has both sides play the log of a shape, which it writes into dir.
func (b *bench) replay(ctx context.Context, s shape, both []replayer, dir string) (*contest, error) {
	m, err := b.match(s, dir)
	if err != nil {
		return nil, err
	}
	c, err := m.play(ctx, both)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return c, nil
}

// buildReplayers returns both sides, nil where the tree has not both.
func buildReplayers(ctx context.Context, dir string) ([]replayer, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return nil, err
	}
	both := replayers()
	for i, r := range both {
		module := filepath.Join(root, r.module)
		sources, err := filepath.Glob(filepath.Join(module, r.pkg, "*.go"))
		if err != nil || len(sources) == 0 {
			return nil, err
		}
		both[i].path = filepath.Join(dir, r.name)
		if err := goBuildIn(ctx, module, both[i].path, r.pkg); err != nil {
			return nil, err
		}
	}
	return both, alike(both[0].path, both[1].path)
}
