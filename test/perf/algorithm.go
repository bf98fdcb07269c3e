package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/test/controlplane"
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
		{name: kube, module: filepath.Join("test", "oracle"), pkg: "."},
	}
}

// replay is what a replayer says at the end of --bench.
type replay struct {
	Pods   int     `json:"pods"`
	Micros float64 `json:"us_per_pod"`
	Allocs float64 `json:"allocs_per_pod"`
	Bytes  float64 `json:"bytes_per_pod"`
	Hash   string  `json:"sha256"`
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
		b.skip("algorithm", "this tree has no test/replay with its twin in test/oracle")
		return err
	}
	logs := b.options.logs
	if logs == "" {
		logs = dir
	}
	for _, s := range b.wanted("algorithm") {
		log := filepath.Join(logs, s.name+".jsonl")
		if err := writeLog(log, s, b.options); err != nil {
			return err
		}
		c, err := b.contest(ctx, s, both, log)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.report.Algorithm = append(b.report.Algorithm, c)
		b.say("algorithm, %s: %s", s.name, c.verdict())
	}
	return nil
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

// contest runs both sides on one log, round by round.
func (b *bench) contest(ctx context.Context, s shape, both []replayer, log string) (*contest, error) {
	c := &contest{
		Shape: s.name, Says: s.says, Nodes: b.options.nodes, Zones: s.zoned(b.options), Existing: b.options.existing,
		Pods: s.count(b.options, "drain"), Runs: map[string][]replay{},
	}
	for round := -b.options.warm; round < b.options.rounds; round++ {
		for _, r := range both {
			result, err := r.run(ctx, log, b.options)
			if err != nil {
				return nil, err
			}
			if result.Pods != c.Pods {
				return nil, fmt.Errorf("%s counted %d pods in a log with %d", r.name, result.Pods, c.Pods)
			}
			if round >= 0 {
				c.Runs[r.name] = append(c.Runs[r.name], result)
			}
		}
		slices.Reverse(both)
	}
	c.judge()
	return c, nil
}

// run replays log and returns what the last line says.
func (r replayer) run(ctx context.Context, log string, o options) (replay, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.path, "--bench", log)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return replay{}, errors.Join(fmt.Errorf("%s --bench: %w: %s", r.name, err, bytes.TrimSpace(stderr.Bytes())), context.Cause(ctx))
	}
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	var result replay
	if err := json.Unmarshal(lines[len(lines)-1], &result); err != nil {
		return replay{}, fmt.Errorf("%s --bench: its last line is no result: %w: %s", r.name, err, lines[len(lines)-1])
	}
	if result.Hash == "" {
		return replay{}, fmt.Errorf("%s --bench: its last line has no sha256: %s", r.name, lines[len(lines)-1])
	}
	return result, nil
}
