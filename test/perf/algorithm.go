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
	"syscall"
	"time"

	"github.com/berthdev/berth/test/support/controlplane"
)

// replayer is a program that runs a log through a scheduler and measures it.
type replayer struct {
	name string
	// module and pkg are its module's folder in the repository, and its package there.
	module, pkg string
	path        string // of the binary
}

// replayers returns both sides of the algorithm layer.
func replayers() []replayer {
	return []replayer{
		{name: berth, module: ".", pkg: "./test/replay"},
		{name: kube, module: filepath.Join("test", "exactness", "oracle"), pkg: "."},
	}
}

// replayResult is the last line of --bench, and the cost of the process.
type replayResult struct {
	Pods   int     `json:"pods"`
	Micros float64 `json:"us_per_pod"`
	Allocs float64 `json:"allocs_per_pod"`
	Bytes  float64 `json:"bytes_per_pod"`
	Hash   string  `json:"sha256"`
	// Seconds is the time from the start of the process to its end, reading the log included;
	// Peak is its maximal resident memory in MiB.
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
	programs, err := buildReplayers(ctx, dir)
	if err != nil || programs == nil {
		b.skip("algorithm", "this tree lacks test/replay or test/exactness/oracle")
		return err
	}
	logs := b.options.logs
	if logs == "" {
		logs = dir
	}
	for _, step := range b.options.steps {
		s := shapes[0]
		s.nodes, s.existing = step, step
		c, err := b.replay(ctx, s, programs, logs)
		if err != nil {
			return err
		}
		b.report.Steps = append(b.report.Steps, c)
		b.printf("algorithm, %s on %d nodes: %s", s.name, step, c.summary())
	}
	for _, s := range b.wanted("algorithm") {
		c, err := b.replay(ctx, s, programs, logs)
		if err != nil {
			return err
		}
		b.report.Algorithm = append(b.report.Algorithm, c)
		b.printf("algorithm, %s: %s", s.name, c.summary())
	}
	return nil
}

// replay writes the log of a shape into dir and has both sides replay it.
func (b *bench) replay(ctx context.Context, s shape, programs []replayer, dir string) (*algorithmResult, error) {
	m, err := b.newReplayPair(s, dir)
	if err != nil {
		return nil, err
	}
	c, err := m.runRounds(ctx, programs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return c, nil
}

// buildReplayers returns both sides, nil where the tree lacks one.
func buildReplayers(ctx context.Context, dir string) ([]replayer, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return nil, err
	}
	programs := replayers()
	for i, r := range programs {
		module := filepath.Join(root, r.module)
		sources, err := filepath.Glob(filepath.Join(module, r.pkg, "*.go"))
		if err != nil || len(sources) == 0 {
			return nil, err
		}
		programs[i].path = filepath.Join(dir, r.name)
		if err := goBuildIn(ctx, module, programs[i].path, r.pkg); err != nil {
			return nil, err
		}
	}
	return programs, checkBuildSettings(programs[0].path, programs[1].path)
}

// replayPair replays one shape's log on both sides.
type replayPair struct {
	shape   shape
	options options // with the overrides of the shape
	log     string
	// everyNode is the file of a profile that scores all nodes; "" where the shape does not
	// need one.
	everyNode string
}

// everyNodeProfile is the content of replayPair.everyNode.
const everyNodeProfile = `apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: bench}
spec: {percentageOfNodesToScore: 100}
`

// newReplayPair writes the log and the profile into dir.
func (b *bench) newReplayPair(s shape, dir string) (*replayPair, error) {
	m := &replayPair{shape: s, options: s.withOverrides(b.options), log: filepath.Join(dir, s.name+".jsonl")}
	if err := writeLog(m.log, s, b.options); err != nil {
		return nil, err
	}
	if s.algorithm == nil || !s.algorithm.everyNode {
		return m, nil
	}
	m.everyNode = filepath.Join(dir, s.name+".yaml")
	return m, os.WriteFile(m.everyNode, []byte(everyNodeProfile), 0o644)
}

// runRounds runs both sides round by round and compares them.
func (m *replayPair) runRounds(ctx context.Context, programs []replayer) (*algorithmResult, error) {
	o, s := m.options, m.shape
	c := &algorithmResult{
		Shape: s.name, Description: s.description, Nodes: o.nodes, Zones: o.zones, Existing: o.existing, Pods: o.pods,
		Goal: s.goal, Runs: map[string][]replayResult{},
	}
	sides := slices.Clone(programs)
	if c.Solo = s.algorithm != nil && s.algorithm.solo; c.Solo {
		sides = slices.DeleteFunc(sides, func(r replayer) bool { return r.name == kube })
	}
	for round := -o.warm; round < o.rounds; round++ {
		for _, r := range sides {
			result, err := m.run(ctx, r, r.name == berth)
			if err != nil {
				return nil, err
			}
			if round >= 0 {
				c.Runs[r.name] = append(c.Runs[r.name], result)
			}
		}
		slices.Reverse(sides)
	}
	if m.everyNode == "" {
		c.compare(c.Runs[kube])
		return c, nil
	}
	for _, r := range sides {
		if r.name == kube {
			reference, err := m.run(ctx, r, true)
			if err != nil {
				return nil, err
			}
			c.compare([]replayResult{reference})
		}
	}
	return c, nil
}

// run replays the log once. asBerth says that the side has Berth's profile.
func (m *replayPair) run(ctx context.Context, r replayer, asBerth bool) (replayResult, error) {
	args := []string{"--bench"}
	if asBerth && m.everyNode != "" {
		args = append(args, "--profile", m.everyNode)
	}
	var env []string
	if g := m.shape.algorithm; g != nil {
		if g.preempt {
			args = append(args, "--preempt")
		}
		if g.memory != "" {
			env = []string{"GOMEMLIMIT=" + g.memory}
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.options.limit, fmt.Errorf("--limit %s is over", m.options.limit))
	defer cancel()
	result, err := r.run(ctx, env, append(args, m.log)...)
	if err == nil && result.Pods != m.options.pods {
		err = fmt.Errorf("%s counted %d pods in a log with %d", r.name, result.Pods, m.options.pods)
	}
	return result, err
}

// run runs the program, with env added to the environment, and returns its last line.
func (r replayer) run(ctx context.Context, env []string, args ...string) (replayResult, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, append(os.Environ(), env...)
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return replayResult{}, errors.Join(fmt.Errorf("%s %v: %w: %s", r.name, args, err, bytes.TrimSpace(stderr.Bytes())), context.Cause(ctx))
	}
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	last := lines[len(lines)-1]
	var result replayResult
	if err := json.Unmarshal(last, &result); err != nil {
		return replayResult{}, fmt.Errorf("%s --bench: its last line is not a result: %w: %s", r.name, err, last)
	}
	if result.Hash == "" {
		return replayResult{}, fmt.Errorf("%s --bench: its last line has no sha256: %s", r.name, last)
	}
	result.Seconds = time.Since(began).Seconds()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		result.Peak = float64(usage.Maxrss) / 1024
	}
	return result, nil
}

// algorithmResult has the runs of both sides on one log.
type algorithmResult struct {
	Shape       string `json:"shape"`
	Description string `json:"description"`
	Nodes       int    `json:"nodes"`
	Zones       int    `json:"zones"`
	Existing    int    `json:"existing"`
	Pods        int    `json:"pods"`
	// Runs are by side, in the order of the rounds.
	Runs map[string][]replayResult `json:"runs"`
	// Solo says that kube-scheduler was not run.
	Solo bool `json:"solo,omitempty"`
	// Equal says that all runs of both sides made the same decisions.
	Equal bool `json:"equal"`
	// Ratio is kube-scheduler's time for a pod over Berth's, round by round; only when Equal.
	// Goal is its least value, 0 where there is none.
	Ratio *sample `json:"ratio,omitempty"`
	Goal  float64 `json:"goal,omitempty"`
}

// compare compares the hashes of Berth's runs and of those of kube-scheduler with the same
// options, and sets Equal and Ratio.
func (c *algorithmResult) compare(reference []replayResult) {
	if c.Solo {
		return
	}
	hashes := map[string]bool{}
	for _, r := range slices.Concat(c.Runs[berth], reference) {
		hashes[r.Hash] = true
	}
	if c.Equal = len(hashes) == 1; !c.Equal {
		return
	}
	var ratios []float64
	for i, ours := range c.Runs[berth] {
		ratios = append(ratios, c.Runs[kube][i].Micros/ours.Micros)
	}
	ratio := summarize(ratios)
	c.Ratio = &ratio
}

// summary is one line.
func (c *algorithmResult) summary() string {
	switch {
	case c.Solo:
		m := c.median(berth)
		return fmt.Sprintf("%s %.1f µs a pod, %.1f s in all, %.0f MiB", berth, m.Micros, m.Seconds, m.Peak)
	case !c.Equal:
		return fmt.Sprintf("REFUSED: the decisions differ (sha256 %.12s and %.12s)", c.Runs[berth][0].Hash, c.Runs[kube][0].Hash)
	}
	return fmt.Sprintf("%s %.1f µs a pod, %s %.1f µs, %s", berth, c.median(berth).Micros, kube, c.median(kube).Micros, c.Ratio.times())
}

// goalText is the goal, with a note where it is not reached.
func (c *algorithmResult) goalText() string {
	switch {
	case c.Goal == 0 || c.Ratio == nil:
		return ""
	case c.Ratio.Median < c.Goal:
		return fmt.Sprintf("BELOW %.0f", c.Goal)
	}
	return fmt.Sprintf("%.0f", c.Goal)
}

// median returns the medians of a side's runs.
func (c *algorithmResult) median(name string) replayResult {
	pick := func(of func(replayResult) float64) float64 {
		var values []float64
		for _, r := range c.Runs[name] {
			values = append(values, of(r))
		}
		return summarize(values).Median
	}
	return replayResult{
		Pods:    c.Pods,
		Micros:  pick(func(r replayResult) float64 { return r.Micros }),
		Allocs:  pick(func(r replayResult) float64 { return r.Allocs }),
		Bytes:   pick(func(r replayResult) float64 { return r.Bytes }),
		Seconds: pick(func(r replayResult) float64 { return r.Seconds }),
		Peak:    pick(func(r replayResult) float64 { return r.Peak }),
	}
}

// times prints a ratio with its range.
func (s sample) times() string {
	if s.N < 2 {
		return fmt.Sprintf("%.2f×", s.Median)
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f, %d pairs)", s.Median, s.Min, s.Max, s.N)
}
