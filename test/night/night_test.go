package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake is an executor on a clock of its own. Each step takes as long as its count, in seconds.
type fake struct {
	clock time.Time
	steps []step
	// do says what becomes of the i-th step; nil: all succeed.
	do func(i int) outcome
	// missing are the programs that cannot be built.
	missing []string
}

// now lets some time pass, as everything does.
func (f *fake) now() time.Time {
	f.clock = f.clock.Add(time.Microsecond)
	return f.clock
}

func (f *fake) build(_ context.Context, p program) (string, error) {
	if slices.Contains(f.missing, p.pkg) {
		return "", errors.New("has no test")
	}
	f.clock = f.clock.Add(time.Second)
	return p.pkg, nil
}

func (f *fake) run(ctx context.Context, s step) outcome {
	f.steps = append(f.steps, s)
	took := time.Duration(s.count) * time.Second
	f.clock = f.clock.Add(took)
	if f.do != nil {
		o := f.do(len(f.steps) - 1)
		o.took, o.ended = took, o.ended || ctx.Err() != nil
		return o
	}
	return outcome{took: took}
}

// layerOf returns a layer whose steps do ten units.
func layerOf(name string, share float64) layer {
	return layer{
		name: name, unit: "seeds", goal: 100, independent: true, share: share, turn: time.Minute, least: 10 * time.Second,
		program: program{pkg: name}, first: 1,
		step: func(at position, left time.Duration) (step, bool) {
			return step{from: at.next, next: at.next + 10, count: 10, args: []string{text(at.next)}}, left >= 10*time.Second
		},
		read: func(s step, o outcome) reading {
			if o.err != nil || o.ended {
				return reading{}
			}
			return reading{counts: map[string]uint64{"seeds": s.count}}
		},
	}
}

// run runs a part of these minutes in a folder.
func (f *fake) part(t *testing.T, dir string, minutes int, layers ...layer) *part {
	t.Helper()
	return f.partUntil(t, t.Context(), dir, minutes, layers...)
}

func (f *fake) partUntil(t *testing.T, ctx context.Context, dir string, minutes int, layers ...layer) *part {
	t.Helper()
	if f.clock.IsZero() {
		f.clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	n := &night{root: dir, dir: dir, layers: layers, length: time.Duration(minutes) * time.Minute, out: io.Discard, now: f.now, execute: f}
	p, err := n.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Minute)
	return p
}

// ranges returns the ranges that were played of a layer, in order.
func (f *fake) ranges(name string) (played []string) {
	for _, s := range f.steps {
		if s.path == name {
			played = append(played, fmt.Sprintf("%d-%d", s.from, s.next-1))
		}
	}
	return played
}

func TestAPartGoesOnWhereTheLastOneEnded(t *testing.T) {
	f, dir := &fake{}, t.TempDir()
	f.part(t, dir, 1, layerOf("a", 1))
	f.part(t, dir, 1, layerOf("a", 1))
	if diff := cmp.Diff([]string{"1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61-70", "71-80", "81-90", "91-100"}, f.ranges("a")); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	parts, err := readParts(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := merge(parts)
	if a := m.layers["a"]; a.counts["seeds"] != 100 || a.first != 1 || a.next != 101 || m.parts != 2 || m.killed != 0 {
		t.Errorf("%+v of %+v", a, m)
	}
}

// A process that is killed writes nothing more: what its file has is what the steps before it did.
func TestAPartThatIsKilledLosesTheStepThatRan(t *testing.T) {
	f, dir := &fake{}, t.TempDir()
	f.do = func(i int) outcome {
		if i == 2 {
			panic("killed")
		}
		return outcome{}
	}
	func() {
		defer func() { _ = recover() }()
		f.part(t, dir, 2, layerOf("a", 1))
	}()
	f.do = nil
	f.clock = f.clock.Add(time.Hour)
	f.part(t, dir, 1, layerOf("a", 1))
	want := []string{"1-10", "11-20", "21-30", "21-30", "31-40", "41-50", "51-60", "61-70"}
	if diff := cmp.Diff(want, f.ranges("a")); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	parts, err := readParts(dir)
	if err != nil || len(parts) != 2 || parts[0].Complete || !parts[1].Complete {
		t.Fatalf("%d parts and %v: the first was killed, the second was not", len(parts), err)
	}
	if m := merge(parts); m.layers["a"].counts["seeds"] != 70 || m.killed != 1 {
		t.Errorf("%d seeds in parts of which %d were killed, want 70 and 1", m.layers["a"].counts["seeds"], m.killed)
	}
}

func TestAPartThatIsAskedToEndSavesWhatItDid(t *testing.T) {
	for sentence, c := range map[string]struct {
		result []byte
		want   uint64
	}{
		"a step that says nothing counts for nothing":     {nil, 20},
		"a step with a result counts, and is begun again": {[]byte("{}"), 23},
	} {
		t.Run(sentence, func(t *testing.T) {
			f, dir := &fake{}, t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			f.do = func(i int) outcome {
				if i == 2 {
					cancel()
					return outcome{result: c.result, err: errors.New("terminated")}
				}
				return outcome{}
			}
			l := layerOf("a", 1)
			l.read = func(s step, o outcome) reading {
				if o.result != nil {
					return reading{counts: map[string]uint64{"seeds": 3}}
				}
				return reading{counts: map[string]uint64{"seeds": s.count}}
			}
			p := f.partUntil(t, ctx, dir, 2, l)
			if next := p.Layers["a"].Next; next != 21 {
				t.Errorf("the next part begins at %d, want 21, where the step began that was ended", next)
			}
			if r := p.Layers["a"]; r.Counts["seeds"] != c.want || !p.Complete || len(r.Findings) > 0 {
				t.Errorf("%+v of %+v, want %d seeds and no finding", r, p, c.want)
			}
		})
	}
}

// Over all parts each layer gets its share, whatever the length of a part.
func TestLayersGetTheirShares(t *testing.T) {
	for _, minutes := range []int{1, 4, 16} {
		f, dir := &fake{}, t.TempDir()
		for range 16 / minutes {
			f.part(t, dir, minutes, layerOf("a", 3), layerOf("b", 1))
		}
		a, b := len(f.ranges("a")), len(f.ranges("b"))
		if share := float64(a) / float64(a+b); share < 0.70 || share > 0.80 {
			t.Errorf("parts of %d minutes: %d steps of a and %d of b, want three quarters of a", minutes, a, b)
		}
	}
}

// A slope needs time: a short part has few such turns, and not many that say nothing.
func TestATurnIsAsLongAsItIsWorth(t *testing.T) {
	a := layerOf("a", 1)
	a.turn, a.worth = 4*time.Minute, 3*time.Minute
	n := &night{layers: []layer{a, layerOf("b", 9)}}
	for length, want := range map[time.Duration]time.Duration{10 * time.Minute: 3 * time.Minute, 35 * time.Minute: 3*time.Minute + 30*time.Second, time.Hour: 4 * time.Minute} {
		if n.length = length; n.turnOf(a) != want {
			t.Errorf("a part of %s has turns of %s, want %s", length, n.turnOf(a), want)
		}
	}
}

func TestALayerThatCannotRunIsSkippedWithAReason(t *testing.T) {
	f, dir := &fake{missing: []string{"b"}}, t.TempDir()
	c, d := layerOf("c", 1), layerOf("d", 1)
	c.needs = "test/nothing"
	d.step = func(position, time.Duration) (step, bool) { return step{}, false }
	p := f.part(t, dir, 1, layerOf("a", 1), layerOf("b", 1), c, d)
	want := map[string]string{"b": "has no test", "c": "the sources have no test/nothing", "d": "no step fits into the 1 min that are left"}
	if diff := cmp.Diff(want, p.Skipped); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if len(f.ranges("a")) < 4 {
		t.Errorf("the other layer played %v", f.ranges("a"))
	}
}

// A failure is a finding with its output. After a few of one layer the others go on.
func TestFailuresAreFindings(t *testing.T) {
	f, dir := &fake{}, t.TempDir()
	f.do = func(i int) outcome {
		if f.steps[i].path == "a" {
			return outcome{err: errors.New("exit status 1"), output: []byte("panic: a pod is lost\n")}
		}
		return outcome{}
	}
	p := f.part(t, dir, 5, layerOf("a", 1), layerOf("b", 1))
	if n := len(p.Layers["a"].Findings); n != findingsLimit || p.findings() != n {
		t.Fatalf("%d findings, want %d", n, findingsLimit)
	}
	first := p.Layers["a"].Findings[0]
	log, err := os.ReadFile(filepath.Join(dir, first.Log))
	if err != nil || string(log) != "panic: a pod is lost\n" || first.What != "panic: a pod is lost" {
		t.Errorf("%+v, %q, %v", first, log, err)
	}
	if len(f.ranges("b")) < 15 {
		t.Errorf("the other layer played %v", f.ranges("b"))
	}
}

func TestTwoPartsDoNotRunInOneFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); err == nil || !strings.Contains(err.Error(), "another part is running in this folder") {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	again, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestInvalidFlagsAreRejected(t *testing.T) {
	for sentence, c := range map[string]struct{ flag, want string }{
		"a part that is too long":     {"--minutes=121", "--minutes: must be from 1 to 120, is 121"},
		"no part":                     {"--parts=0", "--parts: must be at least 1, is 0"},
		"a layer that does not exist": {"--layers=soak,sleep", `--layers: there is no layer "sleep"; there are simulation, `},
	} {
		t.Run(sentence, func(t *testing.T) {
			if _, err := parse([]string{c.flag}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Its turn is as long as its step takes at least, and some time passes before the step begins.
func TestALayerWithASmallShareHasATurn(t *testing.T) {
	f := &fake{}
	p := f.part(t, t.TempDir(), 30, layerOf("a", 1), layerOf("b", 10000))
	if r := p.Layers["a"]; r == nil || r.Counts["seeds"] != 10 {
		t.Errorf("the layer did %+v, skipped: %q; want one step", r, p.Skipped)
	}
}
