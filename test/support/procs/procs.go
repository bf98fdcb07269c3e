// Package procs reads from /proc what processes cost: CPU time and memory.
package procs

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every platform
// that Go runs on.
const tick = 10 * time.Millisecond

// Usage is CPU time by the name of the process.
type Usage map[string]time.Duration

// Procs are the processes whose CPU time is told apart.
type Procs map[string]int // name → id

// Read returns what they have used so far.
func (p Procs) Read() (Usage, error) {
	u := Usage{}
	for name, pid := range p {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return nil, fmt.Errorf("CPU time of %s (is this Linux?): %w", name, err)
		}
		if u[name], err = cpuTime(string(text)); err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", name, err)
		}
	}
	return u, nil
}

// cpuTime adds up user and system time of a line of /proc/PID/stat (proc(5),
// fields 14 and 15). The second field, the command in brackets, may hold
// anything.
func cpuTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is no line of /proc/PID/stat", stat)
	}
	sum := time.Duration(0)
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no line of /proc/PID/stat: %w", stat, err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// Minus is what was used since an earlier reading; who was not there then
// started at nothing.
func (u Usage) Minus(earlier Usage) Usage {
	since := maps.Clone(u)
	for name := range since {
		since[name] -= earlier[name]
	}
	return since
}

// Peak returns the most memory that a process had resident, in MiB.
func Peak(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d (is this Linux?): %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(f[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status does not tell VmHWM", pid)
}

// Settle waits until the process of that name hardly uses the CPU for a second,
// and what it makes, as counted by made, gets no more: what a scheduler still
// has to do beside binding, its events and records, is done then. It returns
// what all had used by then.
func (p Procs) Settle(ctx context.Context, name string, made func(context.Context) (int, error)) (Usage, error) {
	const look, quiet, idle = 250 * time.Millisecond, 4, 2 * tick
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	before := -1
	last, err := p.Read()
	if err != nil {
		return nil, err
	}
	for calm := 0; calm < quiet; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s goes on using the CPU: %w", name, context.Cause(ctx))
		}
		n, err := made(ctx)
		if err != nil {
			return nil, err
		}
		now, err := p.Read()
		if err != nil {
			return nil, err
		}
		calm++
		if now[name]-last[name] > idle || n != before {
			calm = 0
		}
		last, before = now, n
	}
	return last, nil
}
