// Package logs reads whole logs for tests, and shortens those that fail.
package logs

import (
	"errors"
	"io"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// ReadAll reads a whole log.
func ReadAll(r io.Reader) ([]log.Op, error) {
	reader := log.NewReader(r)
	var ops []log.Op
	for {
		op, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return ops, nil
		}
		if err != nil {
			return ops, err
		}
		ops = append(ops, op)
	}
}
