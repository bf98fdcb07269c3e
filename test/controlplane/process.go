package controlplane

import (
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

// stopGrace is how long a process may take to end after SIGTERM. A
// kube-apiserver that lost its etcd would take minutes.
const stopGrace = 10 * time.Second

// errExited says that a process ended on its own.
var errExited = errors.New("exited")

// process is one child. Its output goes to a file, not through this process,
// so that a child can outlive it.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the child was waited for; err is valid then
	err     error
}

// launch starts the binary at path with its log in dir. A child dies with this
// process, where the system can do that, unless it is to outlive it.
func launch(path, dir string, outlive bool, args ...string) (*process, error) {
	name := filepath.Base(path)
	p := &process{name: name, logPath: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(p.logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
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

// until polls ready until it returns nil. It gives up when the process ends or
// ctx does, and then says what ready said last and what the log says.
func (p *process) until(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("%s %w (%v); its log ends:\n%s", p.name, errExited, p.err, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w; its log ends:\n%s", p.name, context.Cause(ctx), err, p.tail())
		}
	}
}

// portTaken reports whether the process ended because another one was faster
// to take its port.
func (p *process) portTaken() bool {
	select {
	case <-p.exited:
	default:
		return false
	}
	text, _ := os.ReadFile(p.logPath)
	return strings.Contains(string(text), "address already in use")
}

// tail returns the last lines of the log.
func (p *process) tail() string {
	const lines = 20
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// stop ends the process and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.exited:
		return
	case <-time.After(stopGrace):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}
