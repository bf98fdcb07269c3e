package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/growth"
	"github.com/berthdev/berth/test/support/procs"
)

// night runs one part.
type night struct {
	root, dir string
	layers    []layer
	length    time.Duration
	out       io.Writer
	now       func() time.Time
	execute   executor

	part   *part
	before []*part
	end    time.Time
}

// executor builds and runs commands.
type executor interface {
	// build builds the program of a layer and returns its path. Calls with the same program build
	// once.
	build(ctx context.Context, p program) (path string, err error)
	// run runs a command until it ends. When ctx ends, the command is asked to end, and killed after
	// a grace time.
	run(ctx context.Context, s step) outcome
}

// outcome is what became of a step.
type outcome struct {
	// err is nil if the command succeeded.
	err error
	// output is all that it printed, and result the content of its JSON file; nil: there is none.
	output, result []byte
	took           time.Duration
	// ended says that it was asked to end.
	ended bool
}

// findingsLimit is the number of findings of a layer after which it does not run again in the part:
// more of them would be the same.
const findingsLimit = 5

// run runs layers in turn until the part is over or ctx ends, and returns what was done.
func (n *night) run(ctx context.Context) (*part, error) {
	var err error
	if n.before, err = readParts(n.dir); err != nil {
		return nil, err
	}
	n.part = newPart(ctx, n.root, n.now())
	n.end = n.part.Began.Add(n.length)
	n.say("part %s of commit %s: %s", n.part.Name, n.part.describeCommit(), n.part.Machine)
	for ctx.Err() == nil {
		l := n.choose()
		if l == nil {
			break
		}
		if err := n.turn(ctx, *l); err != nil {
			return nil, err
		}
	}
	n.part.Complete, n.part.LoadAfter, n.part.Ended = true, procs.LoadAverage(), n.now()
	n.summary()
	return n.part, n.part.save(n.dir)
}

func (n *night) say(format string, args ...any) {
	_, _ = fmt.Fprintf(n.out, "night: "+format+"\n", args...)
}

// choose returns the layer that had the least of its share so far, in all parts together; nil when
// none can run in the time that is left.
func (n *night) choose() *layer {
	left := n.end.Sub(n.now())
	at := n.positions()
	var best *layer
	for i := range n.layers {
		l := &n.layers[i]
		if _, skipped := n.part.Skipped[l.name]; skipped || left < l.least || n.tooMany(l.name) {
			continue
		}
		if best == nil || at[l.name].spent.Seconds()/l.share < at[best.name].spent.Seconds()/best.share {
			best = l
		}
	}
	return best
}

func (n *night) tooMany(name string) bool {
	r := n.part.Layers[name]
	return r != nil && len(r.Findings) >= findingsLimit
}

// turn runs steps of a layer for as long as its turn takes. The part is saved after each.
func (n *night) turn(ctx context.Context, l layer) error {
	began := n.now()
	if reason := l.missing(n.root); reason != "" {
		n.skip(l, reason)
		return nil
	}
	path, err := n.execute.build(ctx, l.program)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		n.skip(l, err.Error())
		return nil
	}
	start := n.now() // a build takes nothing of the turn
	left := min(n.turnOf(l), n.end.Sub(start))
	end := start.Add(left)
	r, steps := n.record(l), 0
	for ; ctx.Err() == nil && !n.tooMany(l.name); steps++ {
		s, ok := l.step(n.positions()[l.name], left)
		if !ok {
			break
		}
		s.path = path
		n.step(ctx, l, s)
		r.Seconds += n.now().Sub(began).Seconds()
		began = n.now()
		left = end.Sub(began)
		if err := n.part.save(n.dir); err != nil {
			return err
		}
	}
	if steps == 0 && ctx.Err() == nil {
		n.skip(l, fmt.Sprintf("no step fits into the %.0f min that are left", n.end.Sub(n.now()).Minutes()))
	}
	return nil
}

// turnOf returns how long a turn of a layer takes: its share of the part, so that most layers get
// one, and at least what is worth it.
func (n *night) turnOf(l layer) time.Duration {
	shares := 0.0
	for _, other := range n.layers {
		shares += other.share
	}
	return min(l.turn, max(l.least, l.worth, time.Duration(l.share/shares*float64(n.length))))
}

// positions returns how far each layer has come, this part included.
func (n *night) positions() map[string]position {
	return positions(append(slices.Clone(n.before), n.part), n.layers)
}

func (n *night) skip(l layer, reason string) {
	n.part.Skipped[l.name] = reason
	n.say("%s: skipped: %s", l.name, reason)
}

// record returns the record of a layer in this part.
func (n *night) record(l layer) *record {
	r := n.part.Layers[l.name]
	if r == nil {
		at := positions(n.before, n.layers)[l.name]
		r = &record{Counts: map[string]uint64{}, First: at.next, Next: at.next}
		n.part.Layers[l.name] = r
	}
	return r
}

// step runs one step, and adds what it did. A step that was ended early counts only what its result
// says.
func (n *night) step(ctx context.Context, l layer, s step) {
	limited, cancel := context.WithTimeout(ctx, n.end.Sub(n.now()))
	defer cancel()
	o := n.execute.run(limited, s)
	r := n.record(l)
	r.Command, r.Working = s.String(), r.Working+o.took.Seconds()
	done := l.read(s, o)
	if o.err != nil && !o.ended && len(done.findings) == 0 {
		done.findings = []finding{{What: clip(why(o))}}
	}
	if o.ended && o.result == nil {
		n.say("%s: ended after %.0f s, and counts for nothing: %s", l.name, o.took.Seconds(), s)
		return
	}
	r.Steps++
	if !o.ended { // else the next part begins with what this one has not done
		r.Next = s.next
	}
	for what, count := range done.counts {
		r.Counts[what] += count
	}
	if len(done.samples) > 0 {
		r.Samples = append(r.Samples, done.samples)
	}
	if len(done.findings) > 0 {
		log, err := n.keep(l, o.output)
		if err != nil {
			log = err.Error()
		}
		for _, f := range done.findings {
			f.Log = log
			r.Findings = append(r.Findings, f)
			n.say("%s: FOUND %s", l.name, f.What)
		}
	}
	n.part.Ended = n.now()
	n.say("%s: %s in %.0f s", l.name, formatCounts(done.counts), o.took.Seconds())
}

// keep keeps the output of a step, and returns its file relative to the folder of all parts.
func (n *night) keep(l layer, output []byte) (string, error) {
	name := strings.NewReplacer(" ", "-", ":", "").Replace(l.name)
	file := filepath.Join(logsFolder, fmt.Sprintf("%s-%s-%d.txt", n.part.Name, name, n.record(l).Steps))
	if err := os.MkdirAll(filepath.Join(n.dir, logsFolder), 0o755); err != nil {
		return "", err
	}
	return file, os.WriteFile(filepath.Join(n.dir, file), output, 0o644)
}

// summary prints what the part did.
func (n *night) summary() {
	n.say("part %s took %.0f min", n.part.Name, n.part.Ended.Sub(n.part.Began).Minutes())
	for _, l := range n.layers {
		if r := n.part.Layers[l.name]; r != nil {
			n.say("  %-28s %5.1f min  %s, %d findings", l.name, r.Seconds/60, formatCounts(r.Counts), len(r.Findings))
			for _, samples := range r.Samples {
				n.summaryOfSamples(samples)
			}
		}
		if reason, skipped := n.part.Skipped[l.name]; skipped {
			n.say("  %-28s skipped: %s", l.name, firstLine(reason))
		}
	}
}

func (n *night) summaryOfSamples(samples []growth.Sample) {
	lines := growth.Lines(samples)
	for _, q := range growth.Quantities {
		if line, ok := lines[q.Name]; ok {
			n.say("    %-20s %8.1f %-4s an hour %s", q.Name, line.Mean, q.Unit, line)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
