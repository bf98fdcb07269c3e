package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bench is one invocation.
type bench struct {
	options  options
	out      io.Writer
	binaries binaries
	plugins  pluginSet
	report   report
}

// perf measures what the options ask for, prints the tables to out and writes
// the JSON. What was measured before a failure is written all the same.
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
	if err := b.checkRoom(); err != nil {
		return err
	}
	b.report.Machine = describe()
	b.report.Command = strings.Join(os.Args[1:], " ")
	b.report.Plugins = b.plugins.names
	b.say("bench: %s", b.report.Machine)
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
	b.say("the same as JSON: %s", o.json)
	return failed
}

// writeTables writes what a reader of a page wants to see.
func (b *bench) writeTables() error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "go run ./test/perf %s\n%s\n", b.report.Command, b.report.Machine)
	b.report.tables(&text)
	return os.WriteFile(b.options.text, text.Bytes(), 0o644)
}

// all runs the layers. One that fails does not keep the other from running.
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

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// skip says why something is not measured, here and in the report.
func (b *bench) skip(what, why string) {
	b.say("skipped: %s: %s", what, why)
	b.report.Skipped = append(b.report.Skipped, skipped{what, why})
}

// wanted returns the shapes that were asked for and can be measured.
func (b *bench) wanted(layer string) []shape {
	var wanted []shape
	for _, s := range shapes {
		if !slices.Contains(b.options.shapes, s.name) {
			continue
		}
		if layer == "process" && s.game != nil {
			continue
		}
		if missing := s.missing(b.plugins.has); len(missing) > 0 {
			b.skip(layer+", "+s.name, "Berth has no "+strings.Join(missing, ", ")+" yet")
			continue
		}
		wanted = append(wanted, s)
	}
	return wanted
}

// checkRoom makes sure that all pods can be bound.
func (b *bench) checkRoom() error {
	var loads []string
	if slices.Contains(b.options.layers, "process") {
		loads = b.options.loads
	}
	if slices.Contains(b.options.layers, "algorithm") {
		loads = append([]string{"drain"}, loads...) // what a log holds
	}
	for _, s := range shapes {
		if !slices.Contains(b.options.shapes, s.name) {
			continue
		}
		for _, load := range loads {
			if err := s.fits(b.options, s.pods(b.options, load)); err != nil {
				return err
			}
		}
	}
	return nil
}

// processes runs every side of every shape and load, round by round. Every
// other round goes backwards, so that no side always comes after the same.
func (b *bench) processes(ctx context.Context) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	var errs []error
	for _, s := range b.wanted("process") {
		for _, how := range b.options.loads {
			if how != "open" {
				errs = append(errs, b.rounds(ctx, s, how))
				continue
			}
			for _, b.options.rate = range b.options.rates {
				errs = append(errs, b.rounds(ctx, s, how))
			}
		}
	}
	b.report.besides()
	return errors.Join(errs...)
}

// rounds runs all sides under one load. A run that fails leaves a gap in its
// round, and the others go on: an hour of them may be behind it.
func (b *bench) rounds(ctx context.Context, s shape, how string) error {
	entrants, settled := b.entrants(s, how), s.settled(b.options)
	group := &group{
		Shape: s.name, Says: s.says, Load: how, Nodes: settled.nodes, Zones: settled.zones,
		Existing: settled.existing, Pods: s.pods(b.options, how), Sides: map[string]string{},
	}
	switch how {
	case "open":
		group.Rate = b.options.rate
	case "crowd", "turns+crowd":
		group.Unfit = b.options.unfit
	}
	for _, e := range entrants {
		group.Sides[e.name] = e.says(b.options, b.plugins)
	}
	b.report.Groups = append(b.report.Groups, group)
	if inTurns(how) {
		err := b.turns(ctx, s, entrants, group)
		group.stand()
		return err
	}
	var errs []error
	for round := 1; round <= b.options.rounds; round++ {
		for _, e := range entrants {
			if ctx.Err() != nil {
				return errors.Join(append(errs, context.Cause(ctx))...)
			}
			began := time.Now()
			r, err := b.measure(ctx, s, e, how, round)
			if err != nil {
				err = fmt.Errorf("%s, %s, round %d: %w", s.name, how, round, err)
				b.say("failed: %v", err)
				group.Failed = append(group.Failed, err.Error())
				errs = append(errs, err)
				continue
			}
			group.Runs = append(group.Runs, r)
			b.tell(r, began)
		}
		slices.Reverse(entrants)
	}
	group.compare(b.report.alike(s.name))
	group.stand()
	return errors.Join(errs...)
}

// tell says how a run went that began then.
func (b *bench) tell(r run, began time.Time) {
	b.say("%s, %s, round %d of %d: %s: %.0f pods/s, %.2f ms of CPU a pod (%.0f s in all)", r.Shape, r.Load,
		r.Round, b.options.rounds, r.Side, r.PodsPerSecond, r.CPU[scheduler], time.Since(began).Seconds())
}

// entrants are the sides that take part.
func (b *bench) entrants(s shape, how string) []side {
	var all []side
	for _, e := range sides {
		switch {
		case !slices.Contains(b.options.sides, e.name):
		case how == "crowd" && strings.HasPrefix(e.name, "null"):
			b.skip("process, "+s.name+", "+how+", "+e.name, "it binds what fits nowhere")
		case inTurns(how) && e.explain == "":
			b.skip("process, "+s.name+", "+how+", "+e.name, "it is no profile of Berth")
		case e.drainOnly && how != "drain":
			b.skip("process, "+s.name+", "+how+", "+e.name, "it does not see pods that come later")
		default:
			all = append(all, e)
		}
	}
	return all
}
