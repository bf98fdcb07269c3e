package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// recordSeconds is how long a CPU profile of Berth is: long enough for a
// thousand samples of two cores.
const recordSeconds = 5

// record takes a CPU profile of Berth, when --profiles asks for it, from when
// the manager is ready. The caller calls stop, which waits for it.
func (t *trial) record(ctx context.Context) (stop func() error) {
	if t.options.profiles == "" || t.side.name != berth {
		return func() error { return nil }
	}
	path := filepath.Join(t.options.profiles, fmt.Sprintf("berth-%s-%s-%d.pprof", t.shape.name, t.load, t.round))
	manager, done := t.manager, make(chan error, 1)
	go func() {
		err := manager.Until(ctx, manager.Ready)
		if err == nil {
			err = manager.CPUProfile(ctx, recordSeconds, path)
		}
		done <- err
	}()
	return func() error { return <-done }
}
