package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// processes is the executor of real commands.
type processes struct {
	root string
	// work is the folder of programs and results, and of the corpus of guided histories.
	work  string
	built map[program]string // path
}

// programsFolder has what is built, within the folder that nobody keeps.
const programsFolder = "programs"

// grace is how long a command may take to end after SIGTERM: the soak checks its pods and stops a
// control plane.
const grace = 3 * time.Minute

// build builds a program once for each part, from the sources as they are.
func (p *processes) build(ctx context.Context, what program) (string, error) {
	alike := what // one binary has all tests of a package
	if what.test != "" {
		alike.test = "all"
	}
	path, done := p.built[alike]
	if !done {
		path = filepath.Join(p.work, programsFolder, strings.ReplaceAll(filepath.Join(what.dir, what.pkg), string(filepath.Separator), "-"))
		args := []string{"build", "-buildvcs=false", "-o", path}
		if what.test != "" {
			path += ".test"
			args = []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", path}
		}
		pkg := "./" + filepath.ToSlash(what.pkg)
		if err := p.goTool(ctx, what.dir, append(args, pkg)...); err != nil {
			return "", err
		}
		if p.built == nil {
			p.built = map[program]string{}
		}
		p.built[alike] = path
	}
	if what.test == "" {
		return path, nil
	}
	return path, hasTest(ctx, path, what.test)
}

func (p *processes) goTool(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = filepath.Join(p.root, dir), append(os.Environ(), "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}

// hasTest returns an error if a test binary has no test of that name.
func hasTest(ctx context.Context, path, test string) error {
	output, err := exec.CommandContext(ctx, path, "-test.list", "^"+test+"$").Output()
	if err != nil {
		return fmt.Errorf("listing the tests of %s: %w", path, err)
	}
	if !bytes.Contains(output, []byte(test+"\n")) {
		return fmt.Errorf("%s has no test %s", path, test)
	}
	return nil
}

// run runs a command in a process group of its own: what the command has started ends with it. The
// output goes to memory: it is kept where something was found.
func (p *processes) run(ctx context.Context, s step) (o outcome) {
	result := filepath.Join(p.work, programsFolder, "result.json")
	_ = os.Remove(result) // that of an earlier step
	places := strings.NewReplacer(resultFile, result, corpusFolder, filepath.Join(p.work, "corpus"))
	var args []string
	for _, arg := range s.args {
		args = append(args, places.Replace(arg))
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.limit, errTooLong)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(limited, s.path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(p.root, s.dir), &output, &output
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	began := time.Now()
	o.err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an error means that nothing is left
	}
	o.took, o.output, o.ended = time.Since(began), output.Bytes(), ctx.Err() != nil
	if o.err != nil && errors.Is(context.Cause(limited), errTooLong) {
		o.err = fmt.Errorf("%w: %s", errTooLong, s.limit)
		o.output = append(o.output, "\n"+o.err.Error()...)
	}
	o.result, _ = os.ReadFile(result) // nil for a command that wrote none
	return o
}

var errTooLong = errors.New("the command did not end in time")
