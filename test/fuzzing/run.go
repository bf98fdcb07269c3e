package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Results of a target.
const (
	// resultPassed: no input failed.
	resultPassed = "passed"
	// resultFound: an input failed, which is in the file that finding names, unless it is a
	// seed.
	resultFound = "found"
	// resultBroken: the target did not run, such as one that does not compile.
	resultBroken = "broken"
)

// result is how a target ended.
type result struct {
	Target string `json:"target"`
	// Seconds is how long it ran, with the time to compile it.
	Seconds float64 `json:"seconds"`
	// Executions is how many inputs were run, New how many of them reached new code, and
	// Corpus how many inputs there are now.
	Executions int64  `json:"executions"`
	New        int64  `json:"new"`
	Corpus     int64  `json:"corpus"`
	Result     string `json:"result"`
	// Finding is the file of the input that failed, relative to the root.
	Finding string `json:"finding,omitempty"`
}

// graceTime is how long a target may take to end after it was interrupted.
const graceTime = 20 * time.Second

// run runs a target and prints what it prints if it fails.
func (t target) run(ctx context.Context, root string, o options, out io.Writer) result {
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+o.each.String(), "-fuzzminimizetime=5s", "-parallel="+strconv.Itoa(o.parallel), ".")
	cmd.Dir = filepath.Join(root, filepath.FromSlash(t.folder))
	// go test starts the target, which starts its workers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = graceTime
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	begin := time.Now()
	ended := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(out, err)
		return result{Target: t.String(), Result: resultBroken}
	}
	go func() {
		err := cmd.Wait()
		_ = writer.Close() // the end of the output; it never fails
		ended <- err
	}()
	p := readProgress(reader, out)
	err := <-ended
	r := result{Target: t.String(), Seconds: time.Since(begin).Round(time.Second / 10).Seconds(), Executions: p.executions, New: p.fresh, Corpus: p.corpus, Result: resultPassed}
	switch {
	case err == nil:
	case p.failed:
		r.Result = resultFound
		if p.finding != "" {
			r.Finding = t.folder + "/" + p.finding
		}
	default:
		r.Result = resultBroken
	}
	return r
}

// progress is what go test prints of a target.
type progress struct {
	executions, fresh, corpus int64
	// failed says that an input failed, and finding is its file, relative to the package.
	failed  bool
	finding string
}

var (
	executionsPattern = regexp.MustCompile(`^fuzz: elapsed: .*, execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)`)
	findingPattern    = regexp.MustCompile(`^\s*Failing input written to (\S+)`)
)

// readProgress reads the output of a target to its end. It copies all but the lines of the
// progress to out.
func readProgress(in io.Reader, out io.Writer) progress {
	var p progress
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		switch match := executionsPattern.FindStringSubmatch(line); {
		case match != nil:
			p.executions, p.fresh, p.corpus = number(match[1]), number(match[2]), number(match[3])
		case strings.HasPrefix(line, "fuzz: "), strings.HasPrefix(line, "ok "), line == "PASS\n", line == "":
		default:
			fmt.Fprint(out, line)
			p.failed = p.failed || strings.HasPrefix(line, "--- FAIL: Fuzz")
			if match := findingPattern.FindStringSubmatch(line); match != nil {
				p.finding = match[1]
			}
		}
		if err != nil {
			return p
		}
	}
}

// number returns the number of a text of digits.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}
