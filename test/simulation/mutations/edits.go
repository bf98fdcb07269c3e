package main

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// editFiles are the edits: edits/scheduler/queue.txt has those of the package scheduler/queue.
//
// Each begins with @@ and the name of a file. The lines after it are as in a diff: a line
// that begins with a space or - is in the file, one with - is removed, one with + is added.
// Indentation does not count. The lines with a space or - are the anchor: they stand in the
// file one after the other, and exactly once. A line that begins with # is a comment.
//
//	@@ requeue.go
//	-if hold := q.quarantineHold(p, rules); hold.Reason != "" {
//	+if hold := q.quarantineHold(p, rules); hold.Reason != "" && !mutation.NeverQuarantined {
//
// mutation.NeverQuarantined is true in a process that was started with
// BERTH_MUTATION=NeverQuarantined. One edit may be of several mutations, and one mutation may
// need several edits. All edits of a file are made at once.
//
//go:embed edits
var editFiles embed.FS

// plantedFiles are the edits of planted faults, in the same form. They are an overlay of their
// own, since they may change what mutations change.
//
//go:embed planted
var plantedFiles embed.FS

// edit is a place of one file that mutations change.
type edit struct {
	// file is the path of the file below the module's root, from where the edit is written.
	file, from string
	lines      []editLine
}

// editLine is a line without its indentation. op is a space, - or +.
type editLine struct {
	op   byte
	text string
}

// rareSwitch is the function of the switches that is true in one of n calls: see switchSource.
const rareSwitch = "Rare"

var selector = regexp.MustCompile(`\bmutation\.([A-Z]\w*)`)

// mutations are the names of the mutations of an edit.
func (e edit) mutations() []string {
	var names []string
	for _, l := range e.lines {
		if l.op == '+' {
			for _, match := range selector.FindAllStringSubmatch(l.text, -1) {
				if match[1] != rareSwitch {
					names = append(names, match[1])
				}
			}
		}
	}
	return names
}

// readEdits reads the edits of all packages, in the order of files. The folder is at the root
// of files.
func readEdits(files fs.FS, folder string) ([]edit, error) {
	var all []edit
	err := fs.WalkDir(files, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".txt" {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		edits, err := parseEdits(strings.TrimSuffix(strings.TrimPrefix(name, folder+"/"), ".txt"), name, string(text))
		all = append(all, edits...)
		return err
	})
	return all, err
}

// parseEdits returns the edits of a package that a file has.
func parseEdits(pkg, name, text string) ([]edit, error) {
	var all []edit
	for i, line := range strings.Split(text, "\n") {
		from := fmt.Sprintf("%s:%d", name, i+1)
		if file, is := strings.CutPrefix(line, "@@ "); is {
			all = append(all, edit{file: path.Join(pkg, file), from: from})
			continue
		}
		if strings.HasPrefix(line, "#") || line == "" && len(all) == 0 {
			continue
		}
		if line == "" {
			line = " " // a blank line of the file, unless the edit ends here
		}
		if !strings.Contains(" -+", line[:1]) {
			return nil, fmt.Errorf("%s: %q begins with none of @@, space, -, + and #", from, line)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s: a line before the first @@", from)
		}
		e := &all[len(all)-1]
		e.lines = append(e.lines, editLine{line[0], strings.TrimSpace(line[1:])})
	}
	for i := range all {
		e := &all[i]
		for n := len(e.lines); n > 0 && e.lines[n-1] == (editLine{op: ' '}); n-- {
			e.lines = e.lines[:n-1]
		}
		if len(e.anchor()) == 0 {
			return nil, fmt.Errorf("%s: the edit has no anchor", e.from)
		}
	}
	return all, nil
}

// anchor are the lines that the edit expects in the file.
func (e edit) anchor() []string {
	var lines []string
	for _, l := range e.lines {
		if l.op != '+' {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// find returns the index of the only place in lines that has the anchor.
func (e edit) find(lines []string) (int, error) {
	anchor, at, matches := e.anchor(), 0, 0
	for i := 0; i+len(anchor) <= len(lines); i++ {
		if slices.EqualFunc(lines[i:i+len(anchor)], anchor, func(line, want string) bool { return strings.TrimSpace(line) == want }) {
			at, matches = i, matches+1
		}
	}
	if matches != 1 {
		return 0, fmt.Errorf("%s: the anchor is %d times in %s, want once", e.from, matches, e.file)
	}
	return at, nil
}

// apply makes all edits of one file. Two edits must not change the same place.
func apply(source string, edits []edit) (string, error) {
	lines := strings.Split(source, "\n")
	removed, added := map[int]bool{}, map[int][]string{}
	for _, e := range edits {
		at, err := e.find(lines)
		if err != nil {
			return "", err
		}
		adds := map[int][]string{}
		for _, l := range e.lines {
			switch {
			case l.op == '+':
				adds[at] = append(adds[at], l.text)
				continue
			case l.op == '-' && removed[at]:
				return "", fmt.Errorf("%s: another edit removes %q: make one of both", e.from, l.text)
			case l.op == '-':
				removed[at] = true
			}
			at++
		}
		for at, texts := range adds {
			if added[at] != nil {
				return "", fmt.Errorf("%s: another edit adds a line where this one adds %q: make one of both", e.from, texts[0])
			}
			added[at] = texts
		}
	}
	var result []string
	for i, line := range lines {
		result = append(result, added[i]...)
		if !removed[i] {
			result = append(result, line)
		}
	}
	return strings.Join(append(result, added[len(lines)]...), "\n"), nil
}
