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
)

// match is one shape's log, which both sides play.
type match struct {
	shape   shape
	options options // as the shape settles them
	log     string
	// everyNode is a profile that scores all nodes; "" where the shape does not
	// ask for one.
	everyNode string
}

// everyNodeProfile is match.everyNode.
const everyNodeProfile = `apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: bench}
spec: {percentageOfNodesToScore: 100}
`

// match writes what is to be played into dir.
func (b *bench) match(s shape, dir string) (*match, error) {
	m := &match{shape: s, options: s.settled(b.options), log: filepath.Join(dir, s.name+".jsonl")}
	if err := writeLog(m.log, s, b.options); err != nil {
		return nil, err
	}
	if s.game == nil || !s.game.everyNode {
		return m, nil
	}
	m.everyNode = filepath.Join(dir, s.name+".yaml")
	return m, os.WriteFile(m.everyNode, []byte(everyNodeProfile), 0o644)
}

// play runs both sides round by round and judges.
func (m *match) play(ctx context.Context, both []replayer) (*contest, error) {
	o, s := m.options, m.shape
	c := &contest{
		Shape: s.name, Says: s.says, Nodes: o.nodes, Zones: o.zones, Existing: o.existing, Pods: o.pods,
		Goal: s.goal, Runs: map[string][]replay{},
	}
	sides := slices.Clone(both)
	if c.Solo = s.game != nil && s.game.solo; c.Solo {
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
		c.judge(c.Runs[kube])
		return c, nil
	}
	for _, r := range sides {
		if r.name == kube {
			twin, err := m.run(ctx, r, true)
			if err != nil {
				return nil, err
			}
			c.judge([]replay{twin})
		}
	}
	return c, nil
}

// run plays the log once. asBerth says that the side has Berth's profile.
func (m *match) run(ctx context.Context, r replayer, asBerth bool) (replay, error) {
	args := []string{"--bench"}
	if asBerth && m.everyNode != "" {
		args = append(args, "--profile", m.everyNode)
	}
	var env []string
	if g := m.shape.game; g != nil {
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

// run runs the program, with env on top of the environment, and returns what its
// last line says.
func (r replayer) run(ctx context.Context, env []string, args ...string) (replay, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, append(os.Environ(), env...)
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return replay{}, errors.Join(fmt.Errorf("%s %v: %w: %s", r.name, args, err, bytes.TrimSpace(stderr.Bytes())), context.Cause(ctx))
	}
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	last := lines[len(lines)-1]
	var result replay
	if err := json.Unmarshal(last, &result); err != nil {
		return replay{}, fmt.Errorf("%s --bench: its last line is no result: %w: %s", r.name, err, last)
	}
	if result.Hash == "" {
		return replay{}, fmt.Errorf("%s --bench: its last line has no sha256: %s", r.name, last)
	}
	result.Seconds = time.Since(began).Seconds()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		result.Peak = float64(usage.Maxrss) / 1024
	}
	return result, nil
}
