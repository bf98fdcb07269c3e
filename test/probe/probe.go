// Package probe is a plugin for tests: it stands at every extension point,
// writes down what it is asked, and answers what the test tells it to.
package probe

import (
	"fmt"
	"slices"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"
)

// Journal is what probes were asked, in order. It is safe for concurrent use.
type CallLog struct {
	mu    sync.Mutex
	lines []string
}

// Note adds a line.
func (j *CallLog) Add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// Take returns the lines so far and begins anew.
func (j *CallLog) Take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// Lines returns the lines so far.
func (j *CallLog) Lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// Answer is what a probe does at one extension point.
type StatusFunc func() *fwk.Status

// Reject answers that the pod does not fit.
func Reject(reason string) StatusFunc {
	return func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason) }
}

// Unresolvable answers that the pod does not fit, whoever leaves.
func Unresolvable(reason string) StatusFunc {
	return func() *fwk.Status { return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason) }
}

// Pending answers that the pod has to wait for something.
func Pending(reason string) StatusFunc {
	return func() *fwk.Status { return fwk.NewStatus(fwk.Pending, reason) }
}

// Skip answers that there is nothing to do.
func Skip() *fwk.Status { return fwk.NewStatus(fwk.Skip) }

// Wait answers that the pod is to wait.
func Wait() *fwk.Status { return fwk.NewStatus(fwk.Wait) }

// Fail answers with an error.
func Fail(err error) StatusFunc { return func() *fwk.Status { return fwk.AsStatus(err) } }

// Panic panics.
func Panic() *fwk.Status { panic("the probe panics") }
