package crashes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// pollInterval is how often the API server or a process is polled.
	pollInterval = 50 * time.Millisecond
	// keeper is a profile that always exists, so that no default profile is created.
	keeper = "keeper"
	// defaultProfile is created while there is no profile.
	defaultProfile = "crashes-default"
	// low and high are PriorityClasses.
	low, high = "crashes-low", "crashes-high"
)

// StepTimeout is the timeout of one step of a scenario.
var StepTimeout = time.Minute

// Suite is a control plane with two replicas of the manager, which are killed. It runs one
// cell at a time.
type Suite struct {
	// Lost counts the processes that lost the Lease without a cause from the suite, since the
	// machine is too busy to renew it.
	Lost int
	// Decided is what the checker has decided so far.
	Decided Decided

	cp    *controlplane.ControlPlane
	admin client.Client
	// audit is the audit log of the API server, of the manager's requests.
	audit audit.Log
	// binary is the shipped manager.
	binary string
	// folder has all files of the suite. steps is the folder in it by which a test and the plugin
	// Stepper communicate.
	folder, steps string
	replicas      [2]*replica
	// withPlugins says that the processes are the suite's own binary, with Stepper.
	withPlugins bool
	// trigger sees the writes of the scenario that runs; nil between scenarios.
	trigger atomic.Pointer[trigger]
	// cells is the number of scenarios that were run, for names.
	cells int
}

// replica is a manager with a proxy of its own.
type replica struct {
	proxy      *faultproxy.Proxy
	kubeconfig string
	// manager is the process that was started last; it may have ended.
	manager atomic.Pointer[operator.Manager]
	// leased is when the process last wrote the Lease.
	leased atomic.Int64
	// expected says that the suite ends the process.
	expected atomic.Bool
}

// running reports whether the process has not ended.
func (r *replica) running() bool {
	m := r.manager.Load()
	if m == nil {
		return false
	}
	select {
	case <-m.Ended():
		return false
	default:
		return true
	}
}

// Start starts the control plane, without a manager.
func Start(ctx context.Context) (s *Suite, err error) {
	s = &Suite{}
	defer func() {
		if err != nil {
			s.Stop()
			s = nil
		}
	}()
	if s.binary, err = operator.Build(ctx); err != nil {
		return s, err
	}
	logged, err := s.createFolder()
	if err != nil {
		return s, err
	}
	const gates = "--feature-gates=GenericWorkload=true"
	s.cp, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true, ControllerManagerArgs: []string{gates},
		Controllers: []string{"persistentvolume-binder-controller", "resourceclaim-controller", "serviceaccount-controller"},
		APIServerArgs: append(logged,
			gates, "--runtime-config=scheduling.k8s.io/v1beta1=true",
			// No controller runs that would remove the taint from nodes that are not ready, or
			// the finalizers of volumes and of PodGroups.
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodGroupProtection,StorageObjectInUseProtection",
		),
	})
	if err != nil {
		return s, err
	}
	if err := operator.Install(ctx, s.cp); err != nil {
		return s, err
	}
	config := s.cp.Config()
	config.QPS = -1
	if s.admin, err = client.New(config, client.Options{Scheme: operator.Scheme()}); err != nil {
		return s, err
	}
	for i := range s.replicas {
		if s.replicas[i], err = s.newReplica(ctx, i); err != nil {
			return s, err
		}
	}
	return s, s.createCommon(ctx)
}

// createFolder creates the suite's folder. It returns the flags of an API server that writes the
// audit log.
func (s *Suite) createFolder() (flags []string, err error) {
	if s.folder, err = os.MkdirTemp("", "berth-crashes-"); err != nil {
		return nil, err
	}
	s.steps = filepath.Join(s.folder, "steps")
	if err := os.Mkdir(s.steps, 0o700); err != nil {
		return nil, err
	}
	s.audit, flags, err = checker.AuditFlags(s.folder)
	return flags, err
}

// createCommon creates what all scenarios share.
func (s *Suite) createCommon(ctx context.Context) error {
	for name, value := range map[string]int32{low: 1, high: 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if err := s.admin.Create(ctx, class); err != nil {
			return err
		}
	}
	return operator.ApplyProfile(ctx, s.cp, keeper, v1alpha1.SchedulingProfileSpec{})
}

func (s *Suite) newReplica(ctx context.Context, i int) (*replica, error) {
	account, err := operator.AccountConfig(ctx, s.cp)
	if err != nil {
		return nil, err
	}
	r := &replica{}
	if r.proxy, err = faultproxy.Start(rest.CopyConfig(account)); err != nil {
		return nil, err
	}
	r.proxy.SetAllFaults(func(w faultproxy.Write) *faultproxy.Fault { return s.decide(r, w) })
	r.kubeconfig, err = s.cp.WriteKubeconfig(fmt.Sprint("replica-", i), r.proxy.Config(account))
	return r, err
}

// decide returns the fault of a write of a replica.
func (s *Suite) decide(r *replica, w faultproxy.Write) *faultproxy.Fault {
	is := requestOf(w)
	if is.resource == "leases" {
		r.leased.Store(time.Now().UnixNano())
	}
	if t := s.trigger.Load(); t != nil {
		return t.decide(r, is)
	}
	return nil
}

// Stop stops everything.
func (s *Suite) Stop() {
	if s.cp != nil {
		s.cp.Stop()
	}
	for _, r := range s.replicas {
		if r != nil {
			r.proxy.Stop()
		}
	}
	_ = os.RemoveAll(s.folder) // it is in the system's temporary folder
}

// start starts the process of a replica, and does not wait until it is ready.
func (s *Suite) start(r *replica) error {
	if before := r.manager.Load(); before != nil {
		s.cp.End(before.Process)
	}
	binary := s.binary
	if s.withPlugins {
		binary = os.Args[0]
		for _, variable := range []string{operator.SelfEnvironment(r.kubeconfig), stepsVariable + "=" + s.steps} {
			name, value, _ := strings.Cut(variable, "=")
			if err := os.Setenv(name, value); err != nil {
				return err
			}
			defer os.Unsetenv(name)
		}
	}
	m, err := operator.StartWith(s.cp, binary, r.kubeconfig, append([]string{"--default-profile=" + defaultProfile}, operator.ShortLease...)...)
	if err != nil {
		return err
	}
	r.expected.Store(false)
	r.manager.Store(m)
	return nil
}

// end kills the process of a replica, as a crash would.
func (s *Suite) end(r *replica) {
	r.expected.Store(true)
	if m := r.manager.Load(); m != nil {
		m.Kill()
	}
}

// ensure makes the number of processes one, or two with a standby, of the given binary.
func (s *Suite) ensure(ctx context.Context, plugins, standby bool) error {
	if plugins != s.withPlugins {
		s.endAll()
		s.withPlugins = plugins
	}
	alive := s.alive()
	if !standby && len(alive) > 1 {
		s.end(s.follower())
	}
	for _, r := range s.replicas {
		if len(alive) >= 1 && !standby || r.running() {
			continue
		}
		if err := s.start(r); err != nil {
			return err
		}
		alive = append(alive, r)
	}
	for _, r := range s.alive() {
		ctx, cancel := context.WithTimeout(ctx, StepTimeout)
		defer cancel()
		if err := r.manager.Load().Until(ctx, r.manager.Load().Ready); err != nil {
			return err
		}
	}
	return nil
}

func (s *Suite) endAll() {
	for _, r := range s.replicas {
		s.end(r)
	}
}

func (s *Suite) alive() (alive []*replica) {
	for _, r := range s.replicas {
		if r.running() {
			alive = append(alive, r)
		}
	}
	return alive
}

// leader returns the replica that wrote the Lease last.
func (s *Suite) leader() *replica {
	if s.replicas[0].leased.Load() > s.replicas[1].leased.Load() {
		return s.replicas[0]
	}
	return s.replicas[1]
}

func (s *Suite) follower() *replica {
	if s.leader() == s.replicas[0] {
		return s.replicas[1]
	}
	return s.replicas[0]
}

// leads waits until a process leads that has written the Lease after a time.
func (s *Suite) leads(ctx context.Context, after time.Time) error {
	return until(ctx, "a process that leads", func(context.Context) error {
		if r := s.leader(); !r.running() || r.leased.Load() <= after.UnixNano() {
			return errors.New("no process has written the Lease")
		}
		return nil
	})
}

// until polls until do returns nil. The error has its last error.
func until(ctx context.Context, what string, do func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, StepTimeout, true, func(ctx context.Context) (bool, error) {
		if err := do(ctx); err != nil {
			if ctx.Err() == nil || last == nil {
				last = err
			}
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, last)
	}
	return nil
}

// keepLogs copies the logs of the processes into a folder.
func (s *Suite) keepLogs(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var errs []error
	for i, r := range s.replicas {
		if m := r.manager.Load(); m != nil {
			text, err := os.ReadFile(m.Log())
			errs = append(errs, err, os.WriteFile(filepath.Join(folder, fmt.Sprintf("replica-%d.log", i)), text, 0o600))
		}
	}
	return errors.Join(errs...)
}

// podName returns the key of a pod.
func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
