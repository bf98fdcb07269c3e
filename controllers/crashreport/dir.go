// Package crashreport keeps what the Go runtime writes when a process crashes, in a
// folder that outlives the process. It reads from there why earlier processes crashed
// and which plugins were on their stacks.
package crashreport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxSize is how much of a report is read and kept, in bytes. The runtime writes
	// the goroutine that crashed first.
	maxSize = 64 * 1024
	// maxReports is how many reports are read, and how many recorded ones are kept for
	// people to read.
	maxReports = 3

	// pendingPrefix begins the file name of a report, recordedPrefix that of a report
	// whose crash was recorded.
	pendingPrefix, recordedPrefix = "crash-", "noted-"
	extension                     = ".txt"
)

// Dir is a folder of reports.
type Dir struct {
	path    string
	ownName string
	// Reports are the reports of earlier processes, the newest first.
	Reports []Report
}

// Open reads the reports of earlier processes in a folder, and creates a file there for
// this process. The runtime is to write into output when this process crashes; the
// caller closes output. The error joins all that could not be read, removed or created;
// d and output hold what could.
func Open(path, process string) (d *Dir, output *os.File, err error) {
	d = &Dir{path: path, ownName: pendingPrefix + process + extension}
	errs := []error{d.readReports(), d.removeOld()}
	output, err = os.OpenFile(filepath.Join(path, d.ownName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		errs = append(errs, fmt.Errorf("creating the file for the output of a crash: %w", err))
	}
	return d, output, errors.Join(errs...)
}

// readReports reads the reports of earlier processes. The file of a process that did
// not crash is empty, and is removed.
func (d *Dir) readReports() error {
	files, err := d.list(pendingPrefix)
	errs := []error{err}
	for _, f := range files {
		switch {
		case f.size == 0 || len(d.Reports) == maxReports:
			errs = append(errs, os.Remove(f.path))
		default:
			text, err := readHead(f.path)
			errs = append(errs, err)
			r := parse(text)
			r.Process, r.Time = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f.path), pendingPrefix), extension), f.time
			d.Reports = append(d.Reports, r)
		}
	}
	return errors.Join(errs...)
}

// readHead returns the first maxSize bytes of a file, and truncates the file to them.
func readHead(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSize))
	info, statErr := file.Stat()
	if statErr == nil && info.Size() > maxSize {
		statErr = file.Truncate(maxSize)
	}
	return string(text), errors.Join(err, statErr)
}

// MarkRecorded renames the reports, so that no later process reads them again.
func (d *Dir) MarkRecorded() error {
	var errs []error
	for _, r := range d.Reports {
		from, to := filepath.Join(d.path, pendingPrefix+r.Process+extension), filepath.Join(d.path, recordedPrefix+r.Process+extension)
		errs = append(errs, os.Rename(from, to))
	}
	return errors.Join(append(errs, d.removeOld())...)
}

// removeOld removes the oldest recorded reports where there are too many.
func (d *Dir) removeOld() error {
	files, err := d.list(recordedPrefix)
	errs := []error{err}
	for _, f := range files[min(len(files), maxReports):] {
		errs = append(errs, os.Remove(f.path))
	}
	return errors.Join(errs...)
}

// reportFile is a file in the folder.
type reportFile struct {
	path string
	size int64
	time time.Time
}

// list returns the regular files whose names begin with prefix, the newest first.
func (d *Dir) list(prefix string) ([]reportFile, error) {
	paths, err := filepath.Glob(filepath.Join(d.path, prefix+"*"+extension))
	errs := []error{err}
	var files []reportFile
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			errs = append(errs, err)
			continue
		}
		files = append(files, reportFile{path, info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b reportFile) int { return b.time.Compare(a.time) })
	return files, errors.Join(errs...)
}
