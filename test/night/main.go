// Command night looks for faults for hours: simulated histories by seed, generated decisions beside
// kube-scheduler, fuzzing, processes that are killed, mutations, and pods that come and go on a
// real control plane.
//
//	go run ./test/night --minutes=120
//	go run ./test/night --report
//
// A part takes two hours at most. It goes on where the parts before it ended: a folder has one file
// for each part, which is written after each step, so that a part that is killed loses the step that
// ran. SIGINT and SIGTERM end a part after what can be saved. The report merges the parts, and is
// written into docs/reliability.md.
//
// It prints what it did and ends with "night: ok", or with an error that has the number of findings.
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
	"time"

	"github.com/berthdev/berth/test/support/command"
	"github.com/berthdev/berth/test/support/controlplane"
)

func main() {
	command.Main("night", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		root, err := controlplane.ModuleRoot()
		if err != nil {
			return err
		}
		if !filepath.IsAbs(o.dir) {
			o.dir = filepath.Join(root, o.dir)
		}
		if o.report {
			return writeReport(ctx, root, o.dir, out)
		}
		return runParts(ctx, root, o, out)
	})
}

// longestPart is the length of a part: what a machine may give at a time.
const longestPart = 120

// options are the flags.
type options struct {
	dir            string
	minutes, parts int
	layers         []string
	report         bool
}

// parse reads the flags. The error has the invalid ones and what they must be.
func parse(args []string) (options, error) {
	var o options
	f := command.Flags("night")
	f.StringVar(&o.dir, "dir", "docs/reliability/night", "the folder of the parts, relative to the module")
	f.IntVar(&o.minutes, "minutes", longestPart, "how long a part takes")
	f.IntVar(&o.parts, "parts", 1, "how many parts to run, one after the other")
	f.StringSliceVar(&o.layers, "layers", nil, "run these layers only: "+strings.Join(layerNames(table), ", "))
	f.BoolVar(&o.report, "report", false, "instead: merge the parts into docs/reliability.md")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	var errs []error
	if o.minutes < 1 || o.minutes > longestPart {
		errs = append(errs, fmt.Errorf("--minutes: must be from 1 to %d, is %d", longestPart, o.minutes))
	}
	if o.parts < 1 {
		errs = append(errs, fmt.Errorf("--parts: must be at least 1, is %d", o.parts))
	}
	for _, name := range o.layers {
		if !slices.Contains(layerNames(table), name) {
			errs = append(errs, fmt.Errorf("--layers: there is no layer %q; there are %s", name, strings.Join(layerNames(table), ", ")))
		}
	}
	return o, errors.Join(errs...)
}

// runParts runs parts until all have ended or ctx does. Findings of these parts are an error.
func runParts(ctx context.Context, root string, o options, out io.Writer) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	layers := slices.DeleteFunc(slices.Clone(table), func(l layer) bool {
		return len(o.layers) > 0 && !slices.Contains(o.layers, l.name)
	})
	found := 0
	for range o.parts {
		n := &night{
			root: root, dir: o.dir, layers: layers, out: out, now: time.Now, length: time.Duration(o.minutes) * time.Minute,
			execute: &processes{root: root, work: filepath.Join(root, workFolder)},
		}
		p, err := n.run(ctx)
		if err != nil {
			return err
		}
		found += p.findings()
		if ctx.Err() != nil {
			break
		}
	}
	if found > 0 {
		return fmt.Errorf("%d findings: each is in a file of %s, with the command that repeats it", found, filepath.Join(o.dir, partsFolder))
	}
	return nil
}
