// Package controlplane runs a real Kubernetes control plane without containers: etcd and
// kube-apiserver, and optionally kube-controller-manager, kube-scheduler and KWOK, as child
// processes on 127.0.0.1. Authorization is Node and RBAC. The binaries come from
// tools/build.sh, which `make controlplane` runs.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true, KWOK: true})
//	if err != nil { … }
//	defer cp.Stop()
//	err = cp.Nodes(ctx, 50, controlplane.NodeOptions{})
//
// Without ControllerManager no controller creates service accounts, so the admission plugin
// that requires one for every pod is off, and the content of deleted namespaces stays.
package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// startLimit bounds the start of all components; on a busy machine with two cores it took
	// half a minute.
	startLimit = 3 * time.Minute
	// portTries is how often etcd and kube-apiserver are started again when another process
	// took a port between its choice and its use.
	portTries = 5
)

// Options say which components run beside etcd and kube-apiserver. The zero value runs these
// two alone, in a temporary folder.
type Options struct {
	// Dir has data, logs and kubeconfigs also after Stop; where it is empty, a temporary
	// folder is used, which Stop removes.
	Dir string
	// EtcdData is the data folder of the etcd of an earlier control plane, which is copied;
	// empty: etcd starts without data.
	EtcdData string
	// EtcdArgs are appended to etcd's flags and override them.
	EtcdArgs []string
	// ControllerManager runs kube-controller-manager with all controllers.
	ControllerManager bool
	// Controllers are the names of the controllers to run; empty: all.
	Controllers []string
	// KWOK runs kwok, which does the work of the kubelet of every node.
	KWOK bool
	// Scheduler runs kube-scheduler, for comparison.
	Scheduler bool
	// SchedulerConfig is a KubeSchedulerConfiguration file for Scheduler, which must name its
	// kubeconfig; empty for the default profile.
	SchedulerConfig string
	// KWOKOnlyFake restricts kwok to the nodes that Nodes creates, so that a real kubelet can
	// run beside it.
	KWOKOnlyFake bool
	// ControllerManagerArgs are appended to kube-controller-manager's flags and override them.
	ControllerManagerArgs []string
	// APIServerAddress is the host and port of kube-apiserver; empty: a free port of
	// 127.0.0.1.
	APIServerAddress string
	// APIServerArgs are appended to kube-apiserver's flags and override them.
	APIServerArgs []string
	// Outlive keeps the processes running when this process ends without Stop.
	Outlive bool
}

// ControlPlane is a running control plane. Its methods are safe for concurrent use; after Stop
// only Stop may be called.
type ControlPlane struct {
	dir       string
	temporary bool
	options   Options
	binaries  Binaries
	creds     credentials
	etcd      string // the URL for clients
	admin     *rest.Config
	api       *Process // the first API server
	client    kubernetes.Interface
	stop      sync.Once

	mu        sync.Mutex
	processes []*Process // in the order of their start
}

// Start returns when all components are ready. ctx bounds the start alone: the processes run
// until Stop. The error of a component that does not start has the end of its log.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	binaries, err := Assets(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cp := &ControlPlane{dir: options.Dir, temporary: options.Dir == "", options: options, binaries: binaries}
	if cp.temporary {
		cp.dir, err = os.MkdirTemp("", "berth-controlplane-")
	} else {
		err = os.MkdirAll(cp.dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	if err := cp.startAll(ctx); err != nil {
		cp.Stop()
		return nil, err
	}
	return cp, nil
}

func (cp *ControlPlane) startAll(ctx context.Context) error {
	var err error
	if cp.creds, err = newCredentials(cp.dir); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := cp.startAPI(ctx)
		if err == nil {
			break
		}
		taken := slices.ContainsFunc(cp.running(), (*Process).portTaken)
		cp.endProcesses((*Process).stop)
		if !taken || try == portTries {
			return err
		}
	}
	if err := writeKubeconfig(cp.Kubeconfig(), cp.admin); err != nil {
		return err
	}
	return cp.startOptional(ctx)
}

// start runs a component of the control plane.
func (cp *ControlPlane) start(name string, args ...string) (*Process, error) {
	path, err := cp.binaries.Path(name)
	if err != nil {
		return nil, err
	}
	return cp.Run(path, args...)
}

// Run starts the binary at path as a process of this control plane: its log is in Dir, Running
// checks it, and Stop ends it before those that were started earlier.
func (cp *ControlPlane) Run(path string, args ...string) (*Process, error) {
	p, err := launch(path, cp.dir, cp.options.Outlive, args...)
	if err != nil {
		return nil, err
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes = append(cp.processes, p)
	return p, nil
}

// End ends one process, as Stop would; Running does not check it any more.
func (cp *ControlPlane) End(p *Process) {
	cp.mu.Lock()
	cp.processes = slices.DeleteFunc(cp.processes, func(q *Process) bool { return q == p })
	cp.mu.Unlock()
	p.stop()
}

// Terminate sends SIGTERM to a process and waits until it has ended: it returns the exit code, or an
// error when ctx ends first.
func (cp *ControlPlane) Terminate(ctx context.Context, p *Process) (code int, err error) {
	cp.mu.Lock()
	cp.processes = slices.DeleteFunc(cp.processes, func(q *Process) bool { return q == p })
	cp.mu.Unlock()
	return p.terminate(ctx)
}

// Process returns the newest running process of that name, such as "kube-apiserver"; nil when
// there is none.
func (cp *ControlPlane) Process(name string) *Process {
	for _, p := range slices.Backward(cp.running()) {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (cp *ControlPlane) running() []*Process {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return slices.Clone(cp.processes)
}

// Config returns the administrator's configuration, without a client-side rate
// limit. The caller may change it.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.admin) }

// Client returns the administrator's typed client.
func (cp *ControlPlane) Client() kubernetes.Interface { return cp.client }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (cp *ControlPlane) Kubeconfig() string { return filepath.Join(cp.dir, "admin.kubeconfig") }

// Etcd returns the URL of etcd for clients, which need no certificate.
func (cp *ControlPlane) Etcd() string { return cp.etcd }

// Dir returns the folder of data, logs and kubeconfigs.
func (cp *ControlPlane) Dir() string { return cp.dir }

// PIDs returns the ids of the processes, last started first: the order in which to end them.
func (cp *ControlPlane) PIDs() []int {
	var pids []int
	for _, p := range slices.Backward(cp.running()) {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Running returns an error that names the components that ended unexpectedly, with the ends of
// their logs; nil when all run.
func (cp *ControlPlane) Running() error {
	var errs []error
	for _, p := range cp.running() {
		errs = append(errs, p.ended())
	}
	return errors.Join(errs...)
}

// Signal sends a signal to all processes.
func (cp *ControlPlane) Signal(s syscall.Signal) error {
	var errs []error
	for _, p := range cp.running() {
		errs = append(errs, p.Signal(s))
	}
	return errors.Join(errs...)
}

// Stop ends all processes, etcd last, and removes a temporary folder. The processes of a
// temporary folder are killed, since nothing is kept: a kube-apiserver takes seconds to end
// otherwise. It may be called more than once.
func (cp *ControlPlane) Stop() {
	cp.stop.Do(func() {
		if !cp.temporary {
			cp.endProcesses((*Process).stop)
			return
		}
		cp.endProcesses((*Process).Kill)
		_ = os.RemoveAll(cp.dir) // it is in the system's temporary folder
	})
}

// endProcesses ends all processes, those that were started last first.
func (cp *ControlPlane) endProcesses(end func(*Process)) {
	for _, p := range slices.Backward(cp.running()) {
		end(p)
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes = nil
}
