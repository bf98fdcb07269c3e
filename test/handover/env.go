// Package handover tests that one manager takes over from another: two API servers with one
// etcd, two shipped managers, each with a proxy to its own API server, one node for 110
// pods, and 300 pods of which some are deleted all the time while others are created. A
// Kind is what happens to the leader before.
//
// All versions of all objects are recorded, and checked at the end: see test/support/checker.
package handover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/history"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// NodePods is the number of pods that the only node takes, Pods the number of pods.
	NodePods, Pods = 110, 300
	// profile is the name of the profile.
	profile = "handover"
	// pollInterval is how often a process or an object is polled.
	pollInterval = 20 * time.Millisecond
	// timeout is the time that each step may take in addition to the duration of the Lease.
	timeout = time.Minute
)

// Options are the options of Start.
type Options struct {
	// Manager is the path of the manager's binary.
	Manager string
	// Lease is the duration of the Lease, in whole seconds; it is 15 s by default. All
	// other times are proportional to it.
	Lease time.Duration
	// Seed is the seed of the random times.
	Seed uint64
}

// Env is a cluster with two managers.
type Env struct {
	options  Options
	random   *rand.Rand
	cp       *controlplane.ControlPlane
	client   kubernetes.Interface
	checker  *checker.Checker
	record   *history.Recorder // that of the checker
	replicas [2]*replica
	// leaderIndex is the index of the replica that leads.
	leaderIndex int
	stream      *podStream
	dirs        [2]string // of the audit logs
	// LostLeases counts the leaders that lost the Lease without a cause from the test,
	// since the machine is too busy to renew it.
	LostLeases int
}

// Start starts the cluster: one manager leads, another one follows, and pods are created
// and deleted.
func Start(ctx context.Context, o Options) (e *Env, err error) {
	e = &Env{options: o, random: rand.New(rand.NewPCG(o.Seed, o.Seed))}
	defer func() {
		if err != nil {
			e.Stop()
			e = nil
		}
	}()
	other, err := e.startControlPlane(ctx)
	if err != nil {
		return e, err
	}
	if e.client, err = load.Client(e.cp.Config()); err != nil {
		return e, err
	}
	if err := e.createObjects(ctx); err != nil {
		return e, err
	}
	for i, config := range []*rest.Config{e.cp.Config(), other} {
		if e.replicas[i], err = e.newReplica(ctx, i, config); err != nil {
			return e, err
		}
		if err := e.startManager(ctx, e.replicas[i]); err != nil {
			return e, err
		}
		if _, err := operator.UntilProgrammed(ctx, e.cp, profile); err != nil {
			return e, err
		}
	}
	e.stream = startPodStream(e.client, e.record)
	return e, e.record.Until(ctx, func(binds []history.Bind) bool { return len(binds) > NodePods })
}

// startControlPlane starts the control plane with two API servers, and the checker. It returns
// the administrator's configuration for the second one.
func (e *Env) startControlPlane(ctx context.Context) (other *rest.Config, err error) {
	var logs [2]audit.Log
	var flags [2][]string
	for i := range logs {
		if e.dirs[i], err = os.MkdirTemp("", "berth-audit-"); err != nil {
			return nil, err
		}
		if logs[i], flags[i], err = checker.AuditFlags(e.dirs[i]); err != nil {
			return nil, err
		}
	}
	if e.cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: flags[0]}); err != nil {
		return nil, err
	}
	if other, err = e.cp.AnotherAPIServer(ctx, flags[1]...); err != nil {
		return nil, err
	}
	if e.checker, err = checker.Start(ctx, e.cp, checker.Options{Audit: logs[:], Settle: timeout}); err != nil {
		return nil, err
	}
	e.record = e.checker.Recorder()
	return other, nil
}

// createObjects creates the node and the profile, and installs Berth.
func (e *Env) createObjects(ctx context.Context) error {
	if err := e.cp.Nodes(ctx, 1, controlplane.NodeOptions{Pods: NodePods}); err != nil {
		return err
	}
	if err := operator.Install(ctx, e.cp); err != nil {
		return err
	}
	return operator.ApplyProfile(ctx, e.cp, profile, v1alpha1.SchedulingProfileSpec{})
}

// Stop stops everything.
func (e *Env) Stop() {
	if e.stream != nil {
		_ = e.stream.stop() // Check has returned the error
	}
	if e.checker != nil {
		e.checker.Stop()
	}
	for _, r := range e.replicas {
		if r != nil {
			r.proxy.Stop()
		}
	}
	if e.cp != nil {
		e.cp.Stop()
	}
	for _, dir := range e.dirs {
		_ = os.RemoveAll(dir) // "" where there is none
	}
}

// restartEnded restarts managers that have ended by themselves.
func (e *Env) restartEnded(ctx context.Context) error {
	for i, r := range e.replicas {
		select {
		case <-r.manager.Ended():
		default:
			continue
		}
		e.cp.End(r.manager.Process)
		if i == e.leaderIndex {
			e.LostLeases++
			e.leaderIndex = 1 - i
		}
		if err := e.startManager(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Check stops the stream of pods, waits until no pod is unsettled, and checks the history.
func (e *Env) Check(ctx context.Context) (checker.Report, error) {
	if err := e.stream.stop(); err != nil {
		return checker.Report{}, err
	}
	if err := e.expectRuns(ctx); err != nil {
		return checker.Report{}, err
	}
	return e.checker.End(ctx)
}

// expectRuns returns an error if the profile does not run as written: killed managers are
// no evidence against a revision on probation.
func (e *Env) expectRuns(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := operator.UntilProgrammed(ctx, e.cp, profile)
	return err
}

// leaseName is the name of the Lease in operator.Namespace.
const leaseName = "berth-manager"

// takeLease writes another holder into the Lease.
func (e *Env) takeLease(ctx context.Context) error {
	leases := e.client.CoordinationV1().Leases(operator.Namespace)
	return wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		holder := "another"
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &holder, &now, &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err == nil, nil // the leader renews it meanwhile
	})
}

// replica is one of the two managers, with a proxy to its own API server.
type replica struct {
	proxy      *faultproxy.Proxy
	kubeconfig string
	manager    *operator.Manager
}

func (e *Env) newReplica(ctx context.Context, i int, config *rest.Config) (*replica, error) {
	account, err := e.cp.ServiceAccountConfig(ctx, operator.Namespace, operator.Account)
	if err != nil {
		return nil, err
	}
	config.BearerToken = account.BearerToken
	proxy, err := faultproxy.Start(config)
	if err != nil {
		return nil, err
	}
	path, err := e.cp.WriteKubeconfig(fmt.Sprintf("replica-%d", i), proxy.Config(config))
	return &replica{proxy: proxy, kubeconfig: path}, err
}

// startManager starts the manager of a replica and waits until it is ready.
func (e *Env) startManager(ctx context.Context, r *replica) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("a manager does not become ready"))
	defer cancel()
	r.manager, err = operator.StartWith(e.cp, e.options.Manager, r.kubeconfig,
		"--leader-elect-lease-duration="+e.options.Lease.String(),
		"--leader-elect-renew-deadline="+(e.options.Lease*2/3).String(),
		"--leader-elect-retry-period="+(e.options.Lease/15).String())
	if err != nil {
		return err
	}
	return r.manager.Until(ctx, r.manager.Ready)
}

// leader and follower return the replicas by their role.
func (e *Env) leader() *replica { return e.replicas[e.leaderIndex] }

func (e *Env) follower() *replica { return e.replicas[1-e.leaderIndex] }

// expectEnded waits until the manager of a replica has ended by itself.
func (e *Env) expectEnded(ctx context.Context, r *replica, within time.Duration) error {
	select {
	case <-r.manager.Ended():
		e.cp.End(r.manager.Process)
		return nil
	case <-time.After(within):
		return fmt.Errorf("the earlier leader still runs after %s; its log is %s", within, r.manager.Log())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
