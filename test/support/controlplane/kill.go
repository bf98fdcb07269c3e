package controlplane

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// Kill kills a process, as a crash would; Running does not check it any more. The returned
// function starts it again with the same arguments, on what it left on disk, and waits until an
// etcd or an API server is ready; its ctx bounds the start alone.
func (cp *ControlPlane) Kill(p *Process) (again func(ctx context.Context) (*Process, error)) {
	cp.mu.Lock()
	cp.processes = slices.DeleteFunc(cp.processes, func(q *Process) bool { return q == p })
	cp.mu.Unlock()
	p.Kill()
	return func(ctx context.Context) (*Process, error) {
		ctx, cancel := context.WithTimeout(ctx, startLimit)
		defer cancel()
		next, err := cp.Run(p.cmd.Path, p.cmd.Args[1:]...)
		if err != nil {
			return nil, err
		}
		next.ready = p.ready
		if cp.api == p {
			cp.api = next
		}
		if next.ready == nil {
			return next, nil
		}
		return next, next.Until(ctx, next.ready)
	}
}

// Pulse stops a process and lets it continue, again and again, so that it runs for on of each
// on+off, until end is called. end returns when the process runs.
func (p *Process) Pulse(on, off time.Duration) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = p.Signal(syscall.SIGSTOP) // an error means that it has ended
			stopped := pause(off, stop)
			_ = p.Signal(syscall.SIGCONT)
			if stopped || pause(on, stop) {
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// pause waits for d, and returns true when stop is closed first.
func pause(d time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-stop:
		return true
	}
}
