// Package probe is a test plugin that implements every extension point, records its
// calls, and returns what the test sets.
package probe

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// CallLog records the calls of test plugins in order. It is safe for concurrent use.
type CallLog struct {
	mu    sync.Mutex
	lines []string
}

// Add adds a line.
func (j *CallLog) Add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// Take returns the lines since the last Take.
func (j *CallLog) Take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// Lines returns the lines since the last Take, and keeps them.
func (j *CallLog) Lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// StatusFunc returns the status of the plugin at one extension point.
type StatusFunc func() *fwk.Status

// Reject returns Unschedulable.
func Reject(reason string) StatusFunc {
	return func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason) }
}

// Unresolvable returns UnschedulableAndUnresolvable.
func Unresolvable(reason string) StatusFunc {
	return func() *fwk.Status { return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason) }
}

// Pending returns Pending.
func Pending(reason string) StatusFunc {
	return func() *fwk.Status { return fwk.NewStatus(fwk.Pending, reason) }
}

// Skip returns Skip.
func Skip() *fwk.Status { return fwk.NewStatus(fwk.Skip) }

// Wait returns Wait.
func Wait() *fwk.Status { return fwk.NewStatus(fwk.Wait) }

// Fail returns an error.
func Fail(err error) StatusFunc { return func() *fwk.Status { return fwk.AsStatus(err) } }

// Panic panics.
func Panic() *fwk.Status { panic("the probe panics") }

// Goexit ends the goroutine.
func Goexit() *fwk.Status {
	goruntime.Goexit()
	return nil
}

// Registry registers the plugins under their names. A plugin whose status for "New" is
// not a success cannot be built.
func Registry(probes ...*Plugin) framework.Registry {
	registry := framework.Registry{}
	for _, p := range probes {
		registry[p.PluginName] = framework.Registration{
			Name: p.PluginName,
			New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				if statusFunc := p.Statuses["New"]; statusFunc != nil {
					if s := statusFunc(); !s.IsSuccess() {
						return nil, s.AsError()
					}
				}
				return p, nil
			},
			Points: framework.Points,
		}
	}
	return registry
}

// Chains enables the plugins at every extension point except without, in the given
// order and with weight 1. The first plugin sorts the queue.
func Chains(probes []*Plugin, without ...framework.Point) framework.Chains {
	chains := framework.Chains{}
	for _, point := range framework.Points {
		if slices.Contains(without, point) {
			continue
		}
		for _, p := range probes {
			chains[point] = append(chains[point], framework.Entry{Name: p.PluginName, Weight: 1})
		}
	}
	if sorts := chains[framework.QueueSort]; len(sorts) > 1 {
		chains[framework.QueueSort] = sorts[:1]
	}
	return chains
}
