// Package procs reads from /proc what processes cost, and what the machine is.
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

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every platform of Go.
const tick = 10 * time.Millisecond

// Usage is CPU time by the name of the process.
type Usage map[string]time.Duration

// Procs are the measured processes.
type Procs map[string]int // name → id

// Read returns the CPU time so far.
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

// cpuTime returns user and system time of a line of /proc/PID/stat (proc(5), fields 14 and
// 15). The second field, the command in brackets, may contain anything.
func cpuTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is not a line of /proc/PID/stat", stat)
	}
	sum := time.Duration(0)
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a line of /proc/PID/stat: %w", stat, err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// Minus returns what was used since an earlier reading; a process that is not in it is counted
// from 0.
func (u Usage) Minus(earlier Usage) Usage {
	since := maps.Clone(u)
	for name := range since {
		since[name] -= earlier[name]
	}
	return since
}

// Peak returns the maximal resident memory of a process, in MiB.
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
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}

// IO returns how many bytes a process has read and written by system calls, sockets included.
func IO(pid int) (read, written int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("bytes of process %d (is this Linux?): %w", pid, err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\n", &read, &written); err != nil {
		return 0, 0, fmt.Errorf("/proc/%d/io: %w", pid, err)
	}
	return read, written, nil
}

// Settle waits until the process of that name hardly uses the CPU for a second, and made
// returns the same number: then a scheduler has also written its Events and records. It
// returns the CPU times until then.
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
