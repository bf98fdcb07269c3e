package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM. A kube-apiserver without etcd
// would take minutes.
const stopGrace = 10 * time.Second

// Process is a child process. Its output goes to a file, so that it can outlive this process.
type Process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	// ready is nil once a server answers; nil for a process that is none.
	ready  func(context.Context) error
	exited chan struct{} // closed when the child has ended; err is valid then
	err    error
}

// launch starts the binary at path with its log in dir. Unless outlive is set, the child is
// killed when this process ends, where the system can do that.
func launch(path, dir string, outlive bool, args ...string) (*Process, error) {
	name := filepath.Base(path)
	log, err := createLog(dir, name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{name: name, logPath: log.Name(), cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = childAttributes(outlive)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// createLog creates NAME.log in dir, or NAME-2.log and so on, since a component may be started
// again.
func createLog(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name+".log")
	for i := 2; ; i++ {
		log, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return log, err
		}
		path = filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, i))
	}
}

// readyLimit bounds one call of ready: a call that hangs must not hide that the process ended.
const readyLimit = 5 * time.Second

// Until polls ready until it returns nil. It gives up when the process or ctx ends; the error
// has the last error of ready and the end of the log.
func (p *Process) Until(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, readyLimit)
		err := ready(one)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w; its log ends:\n%s", p.name, context.Cause(ctx), err, p.tail())
		}
	}
}

// ended returns an error with the end of the log when the process has ended.
func (p *Process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s exited (%v); its log ends:\n%s", p.name, p.err, p.tail())
	default:
		return nil
	}
}

// portTaken says whether the process ended because another one took its port first.
func (p *Process) portTaken() bool {
	if p.ended() == nil {
		return false
	}
	text, _ := os.ReadFile(p.logPath)
	return strings.Contains(string(text), "address already in use")
}

// tail returns the last lines of the log.
func (p *Process) tail() string {
	const lines = 20
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns the path of the process's log.
func (p *Process) Log() string { return p.logPath }

// Kill kills the process, as a crash would, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.exited
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.exited }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// stop ends the process, with SIGKILL after stopGrace, and waits for its end.
func (p *Process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.exited:
		return
	case <-time.After(stopGrace):
	}
	p.Kill()
}

// terminate sends SIGTERM and waits for the end of the process, without a limit but ctx.
func (p *Process) terminate(ctx context.Context) (code int, err error) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		p.Kill()
		return 0, fmt.Errorf("%s was asked to end and did not: %w; its log ends:\n%s", p.name, context.Cause(ctx), p.tail())
	}
}
