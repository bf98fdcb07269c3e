package record

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// replacement is a file that takes the place of another one when it is complete: an incomplete log
// could be mistaken for a log, and the log that was there may be the only one of its day.
type replacement struct {
	*os.File
	// path is where the file will be; empty where it is there already, since a pipe or a terminal
	// cannot be replaced.
	path string
}

// sameFile reports whether two paths are those of one file that would be replaced.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return infoA.Mode().IsRegular() && os.SameFile(infoA, infoB)
	}
	pathA, errA := filepath.Abs(a)
	pathB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && pathA == pathB
}

// replace opens the file that will take the place of another one.
func replace(path string) (*replacement, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &replacement{File: file}, err
	}
	file, err := os.Create(path + ".partial")
	return &replacement{File: file, path: path}, err
}

// finish puts the file into its place or, if err means that it is not complete, removes it. It
// returns err and its own errors.
func (r *replacement) finish(err error) error {
	closed := r.Close()
	if r.path == "" {
		return errors.Join(err, closed)
	}
	if closed == nil && (err == nil || errors.Is(err, verb.ErrFindings)) {
		renamed := os.Rename(r.Name(), r.path)
		if renamed == nil {
			return err
		}
		err = errors.Join(err, renamed)
	}
	return errors.Join(err, closed, os.Remove(r.Name()))
}
