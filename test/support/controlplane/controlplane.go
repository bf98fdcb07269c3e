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
	// startLimit bounds the start of the whole set; on a busy machine with
	// two cores it was seen to take half a minute.
	startLimit = 3 * time.Minute
	// portTries is how often etcd and kube-apiserver are started when another
	// process took a port between its choice and its use.
	portTries = 5
)

// Options say what runs beside etcd and kube-apiserver. The zero value is
// these two alone, in a temporary folder.
type Options struct {
	// Dir keeps data, logs and kubeconfigs after Stop; where it is empty, a
	// temporary folder is used, which Stop removes.
	Dir string
	// ControllerManager runs kube-controller-manager with all controllers.
	ControllerManager bool
	// Controllers are those that it runs, as its flag names them; empty: all.
	Controllers []string
	// KWOK runs kwok, which plays the kubelet of every node.
	KWOK bool
	// Scheduler runs upstream's kube-scheduler, for comparison.
	Scheduler bool
	// SchedulerConfig is a KubeSchedulerConfiguration file for Scheduler,
	// which must name its kubeconfig; empty for the default profile.
	SchedulerConfig string
	// KWOKOnlyFake makes kwok play the kubelet of the nodes that Nodes creates and
	// of no other, so that a real kubelet can run beside it.
	KWOKOnlyFake bool
	// ControllerManagerArgs are appended to kube-controller-manager's flags and win
	// over them.
	ControllerManagerArgs []string
	// APIServerAddress is the host and the port where kube-apiserver listens; empty:
	// a free port of 127.0.0.1.
	APIServerAddress string
	// APIServerArgs are appended to kube-apiserver's flags and win over them.
	APIServerArgs []string
	// Outlive keeps the processes running when this one ends without Stop.
	Outlive bool
}

// ControlPlane is a control plane that runs. Its methods are safe for
// concurrent use; none may be called after Stop but Stop.
type ControlPlane struct {
	dir       string
	temporary bool
	options   Options
	binaries  Binaries
	creds     credentials
	etcd      string // its URL for clients
	admin     *rest.Config
	api       *Process // the first API server
	client    kubernetes.Interface
	stop      sync.Once

	mu        sync.Mutex
	processes []*Process // in the order of their start
}

// Start returns when everything asked for is ready. ctx bounds the start
// alone: what runs goes on until Stop. The error of a component that does not
// start holds the end of its log.
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
		cp.stopProcesses()
		if !taken || try == portTries {
			return err
		}
	}
	if err := writeKubeconfig(cp.Kubeconfig(), cp.admin); err != nil {
		return err
	}
	return cp.startBeside(ctx)
}

// start runs one component of the control plane.
func (cp *ControlPlane) start(name string, args ...string) (*Process, error) {
	path, err := cp.binaries.Path(name)
	if err != nil {
		return nil, err
	}
	return cp.Run(path, args...)
}

// Run starts the binary at path as one more process of this control plane: its
// log is in Dir, Running watches it, and Stop ends it before those started
// earlier.
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

// End ends one process that Run started, as Stop would, and forgets it: its end
// is no fault that Running speaks of.
func (cp *ControlPlane) End(p *Process) {
	cp.mu.Lock()
	cp.processes = slices.DeleteFunc(cp.processes, func(q *Process) bool { return q == p })
	cp.mu.Unlock()
	p.stop()
}

// Ask is End for who wants to know how the process ends that is asked to, and
// leaves it its time: it returns the exit code, or an error when ctx ends first.
func (cp *ControlPlane) Ask(ctx context.Context, p *Process) (code int, err error) {
	cp.mu.Lock()
	cp.processes = slices.DeleteFunc(cp.processes, func(q *Process) bool { return q == p })
	cp.mu.Unlock()
	return p.ask(ctx)
}

// Process returns the newest process of that name that runs, such as
// "kube-apiserver"; nil when there is none.
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

// Dir returns the folder of data, logs and kubeconfigs.
func (cp *ControlPlane) Dir() string { return cp.dir }

// PIDs returns the processes' ids, the last one started first: the order in
// which to end them.
func (cp *ControlPlane) PIDs() []int {
	var pids []int
	for _, p := range slices.Backward(cp.running()) {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Running returns an error that names the components that ended on their own,
// with the ends of their logs; nil when all run.
func (cp *ControlPlane) Running() error {
	var errs []error
	for _, p := range cp.running() {
		errs = append(errs, p.ended())
	}
	return errors.Join(errs...)
}

// Signal sends all processes a signal, such as one that stops or continues them.
func (cp *ControlPlane) Signal(s syscall.Signal) error {
	var errs []error
	for _, p := range cp.running() {
		errs = append(errs, p.Signal(s))
	}
	return errors.Join(errs...)
}

// Stop ends all processes, etcd last, and removes a temporary folder. It may
// be called more than once.
func (cp *ControlPlane) Stop() {
	cp.stop.Do(func() {
		cp.stopProcesses()
		if cp.temporary {
			_ = os.RemoveAll(cp.dir) // what stays is in the system's temporary folder
		}
	})
}

func (cp *ControlPlane) stopProcesses() {
	for _, p := range slices.Backward(cp.running()) {
		p.stop()
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes = nil
}
