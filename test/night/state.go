package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/berthdev/berth/test/support/growth"
)

// partsFolder has the files of the parts, logsFolder the output of the steps in which something was
// found, within the folder of all parts. workFolder, relative to the module, has what nobody keeps.
const partsFolder, logsFolder, workFolder = "parts", "logs", "bin/night"

// part is what one run did.
type part struct {
	// Name is that of its file, from the time at which it began.
	Name string `json:"name"`
	// Commit is the last one that changed what is tested; Dirty says that there were further changes.
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty,omitempty"`
	Machine string `json:"machine"`
	// Began and Ended are the times of the part; Ended is that of its last step so far.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	// Complete says that the part ended by itself, or was asked to.
	Complete bool `json:"complete"`
	// LoadBefore and LoadAfter are the load averages of the machine.
	LoadBefore string             `json:"loadBefore"`
	LoadAfter  string             `json:"loadAfter,omitempty"`
	Layers     map[string]*record `json:"layers"`
	// Skipped has the layers that did not run, and why.
	Skipped map[string]string `json:"skipped,omitempty"`
}

// record is what one layer did in a part.
type record struct {
	// Command is that of the last step.
	Command string `json:"command"`
	Steps   int    `json:"steps"`
	// Seconds include the time of builds, Working only that of steps.
	Seconds float64 `json:"seconds"`
	Working float64 `json:"workingSeconds"`
	// Counts are by what was counted, such as seeds.
	Counts map[string]uint64 `json:"counts"`
	// First is where the part began, and Next where the next step begins: a seed, or an index.
	First    uint64    `json:"first"`
	Next     uint64    `json:"next"`
	Findings []finding `json:"findings,omitempty"`
	// Samples are those of each run of a manager.
	Samples [][]growth.Sample `json:"samples,omitempty"`
}

// finding is something that must not happen.
type finding struct {
	// What is a sentence, Seed what repeats it, such as a seed or the name of a mutation.
	What string `json:"what"`
	Seed string `json:"seed,omitempty"`
	// Log is a file with all of the output, relative to the folder of all parts.
	Log string `json:"log"`
	// Repeat is a command that shows it again.
	Repeat string `json:"repeat,omitempty"`
}

func (p *part) findings() (n int) {
	for _, r := range p.Layers {
		n += len(r.Findings)
	}
	return n
}

// save writes the part. A reader sees the file before or after, and nothing in between.
func (p *part) save(dir string) error {
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, partsFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file := filepath.Join(folder, p.Name+".json")
	draft := file + ".new"
	if err := writeSynced(draft, text); err != nil {
		return err
	}
	return os.Rename(draft, file)
}

// writeSynced writes a file to the disk.
func writeSynced(path string, text []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// readParts returns the parts of a folder, in the order in which they began.
func readParts(dir string) ([]*part, error) {
	files, err := filepath.Glob(filepath.Join(dir, partsFolder, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*part
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p := &part{}
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *part) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// position is how far a layer has come in all parts so far.
type position struct {
	// next is where the next step begins.
	next uint64
	// spent is the time so far, and rate how much of its unit the layer did in a second of the last
	// part that counted some; 0: unknown.
	spent time.Duration
	rate  float64
}

// positions returns those of all layers that ever ran, by name.
func positions(parts []*part, layers []layer) map[string]position {
	all := map[string]position{}
	for _, l := range layers {
		at := position{next: l.first}
		for _, p := range parts {
			r := p.Layers[l.name]
			if r == nil {
				continue
			}
			at.next = max(at.next, r.Next)
			at.spent += time.Duration(r.Seconds * float64(time.Second))
			if n := r.Counts[l.unit]; n > 0 && r.Working > 0 {
				at.rate = float64(n) / r.Working
			}
		}
		all[l.name] = at
	}
	return all
}

// lock takes the lock of a folder: two parts at a time would play the same seeds. The lock ends with
// the process.
func lock(path string) (unlock func(), err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another part is running in this folder")
	}
	if err != nil {
		_ = file.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { _ = file.Close() }, nil
}
