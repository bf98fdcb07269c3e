//go:build !linux

package faults

import "errors"

// limitFiles needs Linux.
func limitFiles(int, uint64) (uint64, error) { return 0, errors.ErrUnsupported }
