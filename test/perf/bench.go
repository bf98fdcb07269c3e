package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/controlplane"
)

// bench is one invocation.
type bench struct {
	options  options
	out      io.Writer
	binaries binaries
	plugins  pluginSet
	report   report
	// cluster is the folder of the cluster that saveCluster made, and etcdData the data of its
	// etcd, with which the control plane of a run starts; empty: none.
	cluster, etcdData string
}

// perf measures what the options select, prints the tables to out and writes the JSON, which
// has all measurements also after a failure.
func perf(ctx context.Context, o options, out io.Writer) error {
	b := &bench{options: o, out: out}
	for _, dir := range []string{filepath.Dir(o.json), o.logs, o.profiles} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	var err error
	if b.plugins, err = resolve(); err != nil {
		return err
	}
	if err := b.checkCapacity(); err != nil {
		return err
	}
	b.report.Machine = describe()
	b.report.Command = strings.Join(os.Args[1:], " ")
	b.report.Plugins = b.plugins.names
	b.printf("bench: %s", b.report.Machine)
	failed := b.all(ctx)
	b.report.tables(out)
	if o.text != "" {
		if err := b.writeTables(); err != nil {
			return err
		}
	}
	if err := b.report.write(o.json); err != nil {
		return err
	}
	b.printf("JSON: %s", o.json)
	return failed
}

// writeTables writes the command, the machine and the tables.
func (b *bench) writeTables() error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "go run ./test/perf %s\n%s\n", b.report.Command, b.report.Machine)
	b.report.tables(&text)
	return os.WriteFile(b.options.text, text.Bytes(), 0o644)
}

// all runs the layers. A layer that fails does not keep the other from running.
func (b *bench) all(ctx context.Context) error {
	var errs []error
	if slices.Contains(b.options.layers, "algorithm") {
		if err := b.algorithm(ctx); err != nil {
			errs = append(errs, fmt.Errorf("algorithm: %w", err))
		}
	}
	if slices.Contains(b.options.layers, "process") {
		errs = append(errs, b.processes(ctx))
	}
	return errors.Join(errs...)
}

func (b *bench) printf(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// skip prints and reports that something is not measured.
func (b *bench) skip(what, why string) {
	b.printf("skipped: %s: %s", what, why)
	b.report.Skipped = append(b.report.Skipped, skipped{what, why})
}

// wanted returns the selected shapes that can be measured.
func (b *bench) wanted(layer string) []shape {
	var wanted []shape
	for _, s := range shapes {
		if !slices.Contains(b.options.shapes, s.name) {
			continue
		}
		if layer == "process" && s.algorithm != nil || layer == "algorithm" && s.processOnly() {
			continue
		}
		if missing := s.missing(b.plugins.has); len(missing) > 0 {
			b.skip(layer+", "+s.name, "Berth does not have "+strings.Join(missing, ", "))
			continue
		}
		wanted = append(wanted, s)
	}
	return wanted
}

// checkCapacity fails where not all pods can be bound.
func (b *bench) checkCapacity() error {
	var loads []string
	if slices.Contains(b.options.layers, "process") {
		loads = b.options.loads
	}
	if slices.Contains(b.options.layers, "algorithm") {
		loads = append([]string{"drain"}, loads...) // the log of a shape
	}
	for _, s := range shapes {
		if !slices.Contains(b.options.shapes, s.name) {
			continue
		}
		for _, load := range loads {
			if err := s.checkCapacity(b.options, s.pods(b.options, load)); err != nil {
				return err
			}
		}
	}
	return nil
}

// processes runs every side of every shape and load, round by round. Every other round has the
// reverse order, so that no side always follows the same one.
func (b *bench) processes(ctx context.Context) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	var errs []error
	for _, s := range b.wanted("process") {
		errs = append(errs, b.loads(ctx, s))
	}
	b.report.compareBursts()
	return errors.Join(errs...)
}

// loads runs all sides of a shape under each load.
func (b *bench) loads(ctx context.Context, s shape) error {
	defer b.removeCluster()
	var errs []error
	for _, how := range b.options.loads {
		if how == start {
			errs = append(errs, b.starts(ctx, s))
			continue
		}
		if b.etcdData == "" {
			if err := b.saveCluster(ctx, s); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		if how != "open" {
			errs = append(errs, b.rounds(ctx, s, how))
			continue
		}
		for _, b.options.rate = range b.ratesOf(s) {
			errs = append(errs, b.rounds(ctx, s, how))
		}
	}
	return errors.Join(errs...)
}

// saveCluster creates the cluster of a shape and keeps the data of its etcd: each run begins
// with a copy, so that the cluster is created once. The caller removes it.
func (b *bench) saveCluster(ctx context.Context, s shape) error {
	b.removeCluster()
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	env, err := b.newTestEnv(ctx, s, controlplane.Options{Dir: dir})
	if err != nil {
		return errors.Join(fmt.Errorf("creating the cluster of %s: %w", s.name, err), os.RemoveAll(dir))
	}
	env.cp.Stop()
	b.cluster, b.etcdData = dir, filepath.Join(dir, controlplane.EtcdFolder)
	return nil
}

// removeCluster removes what saveCluster keeps, if anything.
func (b *bench) removeCluster() {
	if b.cluster != "" {
		os.RemoveAll(b.cluster)
	}
	b.cluster, b.etcdData = "", ""
}

// ratesOf returns the pods a second that --loads=open creates. With --shares, these are parts
// of what Berth took to the last Event of a burst: Events that are written after it are work
// of the load as well. A failed burst leaves none.
func (b *bench) ratesOf(s shape) (rates []float64) {
	if len(b.options.shares) == 0 {
		if s.devices != nil {
			return []float64{deviceRate}
		}
		return b.options.rates
	}
	for _, g := range b.report.Groups {
		if bursts := g.of(berth, toLastEvent); g.Shape == s.name && g.Load == "burst" && bursts.Median > 0 {
			for _, share := range b.options.shares {
				rates = append(rates, math.Max(1, math.Round(share*bursts.Median)))
			}
		}
	}
	if len(rates) == 0 {
		b.skip("process, "+s.name+", open", "no burst of Berth gives a rate for --shares")
	}
	return rates
}

// rounds runs all sides under one load.
func (b *bench) rounds(ctx context.Context, s shape, how string) error {
	sides, numbers := b.sidesFor(s, how), s.withOverrides(b.options)
	group := &group{
		Shape: s.name, Description: s.description, Load: how, Nodes: numbers.nodes, Zones: numbers.zones,
		Existing: numbers.existing, Pods: s.pods(b.options, how), Sides: map[string]string{},
	}
	switch how {
	case "open":
		group.Rate = b.options.rate
	case "burst+unfit", "alternating+unfit":
		group.Unfit = b.options.unfit
	}
	for _, e := range sides {
		group.Sides[e.name] = e.description(b.options, b.pluginsFor(s))
	}
	b.report.Groups = append(b.report.Groups, group)
	measure := b.sequential
	if isAlternating(how) {
		measure = b.alternating
	}
	err := measure(ctx, s, sides, group)
	if how != start { // the first bind says nothing about decisions
		group.compare(b.report.sameDecisions(s.name))
	}
	group.checkCriteria()
	return err
}

// sequential runs the sides one after the other. After a run that fails the others go on: they
// may have taken an hour so far.
func (b *bench) sequential(ctx context.Context, s shape, sides []side, group *group) error {
	var errs []error
	for round := 1; round <= b.options.rounds; round++ {
		for _, e := range sides {
			if ctx.Err() != nil {
				return errors.Join(append(errs, context.Cause(ctx))...)
			}
			began := time.Now()
			r, err := b.measure(ctx, s, e, group.Load, round)
			if err != nil {
				err = fmt.Errorf("%s, %s, round %d: %w", s.name, group.Load, round, err)
				b.printf("failed: %v", err)
				group.Failed = append(group.Failed, err.Error())
				errs = append(errs, err)
				continue
			}
			group.Runs = append(group.Runs, r)
			b.printRun(r, began)
		}
		slices.Reverse(sides)
	}
	return errors.Join(errs...)
}

// printRun prints a run that began at began.
func (b *bench) printRun(r run, began time.Time) {
	if r.Load == start {
		b.printf("%s, %s, round %d of %d: %s: a pod bound after %.2f s, %.0f MiB at most (%.0f s in all)", r.Shape, r.Load,
			r.Round, b.options.rounds, r.Side, r.StartUp, peak(r), time.Since(began).Seconds())
		return
	}
	b.printf("%s, %s, round %d of %d: %s: %.0f pods/s, %.2f ms of CPU a pod (%.0f s in all)", r.Shape, r.Load,
		r.Round, b.options.rounds, r.Side, r.PodsPerSecond, r.CPU[scheduler], time.Since(began).Seconds())
}

// sidesFor returns the selected sides that can run a load.
func (b *bench) sidesFor(s shape, how string) []side {
	load := cmp.Or(alternatingLoads[how], how)
	var all []side
	for _, e := range sides {
		switch {
		case !slices.Contains(b.options.sides, e.name):
		case isAlternating(how) && (s.devices != nil || s.gangs != nil):
			b.skip("process, "+s.name+", "+how+", "+e.name, "only pods are deleted between two sides")
		case load == "burst+unfit" && strings.HasPrefix(e.name, "null"):
			b.skip("process, "+s.name+", "+how+", "+e.name, "it binds pods that fit no node")
		case e.drainOnly && load != "drain":
			b.skip("process, "+s.name+", "+how+", "+e.name, "it does not see pods that are created later")
		default:
			all = append(all, e)
		}
	}
	return all
}
