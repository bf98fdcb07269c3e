package handover

import (
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/handover/history"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// Places are those of the one node, Pods how many pods there are at a time.
	Places, Pods = 110, 300
	// profile names who schedules them.
	profile = "handover"
	// pulse is how often a process or an object is looked at.
	pulse = 20 * time.Millisecond
	// patience is what anything may take beside what leases take.
	patience = time.Minute
)

// Options shape a Stage.
type Options struct {
	// Manager is the path of the manager's binary.
	Manager string
	// Lease is how long a Lease lasts that nobody renews, in whole seconds. All
	// else is scaled by it: shipped are 15 s.
	Lease time.Duration
	// Seed decides about when things happen.
	Seed uint64
	// Say tells what happens; nil: nobody.
	Say func(format string, args ...any)
}

// Stage is what handovers happen on.
type Stage struct {
	options Options
	dice    *rand.Rand
	cp      *controlplane.ControlPlane
	client  kubernetes.Interface
	record  *history.Record
	seats   [2]*seat
	// leader is which seat leads.
	leader int
	crowd  *crowd
	// Unasked is how often a leader lost its Lease that nobody did anything to:
	// where a machine is too busy to renew it.
	Unasked int
}

// Start sets the stage: one manager leads, another one stands by, and pods come
// and go.
func Start(ctx context.Context, o Options) (s *Stage, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	s = &Stage{options: o, dice: rand.New(rand.NewPCG(o.Seed, o.Seed))}
	defer func() {
		if err != nil {
			s.Stop()
			s = nil
		}
	}()
	if s.cp, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return s, err
	}
	other, err := s.cp.AnotherAPIServer(ctx)
	if err != nil {
		return s, err
	}
	if s.client, err = load.Client(s.cp.Config()); err != nil {
		return s, err
	}
	if err := s.furnish(ctx); err != nil {
		return s, err
	}
	for i, config := range []*rest.Config{s.cp.Config(), other} {
		if s.seats[i], err = s.newSeat(ctx, i, config); err != nil {
			return s, err
		}
		if err := s.enter(ctx, s.seats[i]); err != nil {
			return s, err
		}
		if _, err := operator.UntilProgrammed(ctx, s.cp, profile); err != nil {
			return s, err
		}
	}
	if s.record, err = history.Start(ctx, s.client); err != nil {
		return s, err
	}
	s.crowd = gather(s.client, s.record)
	return s, s.record.Until(ctx, func(binds []history.Bind) bool { return len(binds) > Places })
}

// furnish makes what is there before a manager is.
func (s *Stage) furnish(ctx context.Context) error {
	if err := s.cp.Nodes(ctx, 1, controlplane.NodeOptions{Pods: Places}); err != nil {
		return err
	}
	if err := operator.Install(ctx, s.cp); err != nil {
		return err
	}
	return operator.ApplyProfile(ctx, s.cp, profile, v1alpha1.SchedulingProfileSpec{})
}

// Stop ends all.
func (s *Stage) Stop() {
	if s.crowd != nil {
		_ = s.crowd.stop() // who asks has asked
	}
	if s.record != nil {
		s.record.Stop()
	}
	for _, seat := range s.seats {
		if seat != nil {
			seat.proxy.Stop()
		}
	}
	if s.cp != nil {
		s.cp.Stop()
	}
}

// steady puts managers where some ended by themselves.
func (s *Stage) steady(ctx context.Context) error {
	for i, seat := range s.seats {
		select {
		case <-seat.manager.Ended():
		default:
			continue
		}
		s.cp.End(seat.manager.Process)
		if i == s.leader {
			s.Unasked++
			s.leader = 1 - i
		}
		if err := s.enter(ctx, seat); err != nil {
			return err
		}
	}
	return nil
}

// Check lets the crowd come to rest, and replays all that happened.
func (s *Stage) Check(ctx context.Context) (verdict history.Verdict, err error) {
	if err := s.crowd.stop(); err != nil {
		return verdict, err
	}
	if err := s.runs(ctx); err != nil {
		return verdict, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		changes, err := s.record.Changes()
		verdict = history.Check(changes, profile)
		return len(verdict.Unsettled) == 0, err
	})
	if err != nil && ctx.Err() != nil {
		return verdict, nil // who is unsettled still is part of the verdict
	}
	return verdict, err
}

// runs says whether the profile still runs as written: its revision is on probation
// all the time, and managers that are killed are no evidence against it.
func (s *Stage) runs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := operator.UntilProgrammed(ctx, s.cp, profile)
	return err
}

// leaseName is the Lease's, in operator.Namespace.
const leaseName = "berth-manager"

// steal writes another identity into the Lease.
func (s *Stage) steal(ctx context.Context) error {
	leases := s.client.CoordinationV1().Leases(operator.Namespace)
	return wait.PollUntilContextTimeout(ctx, pulse, patience, true, func(ctx context.Context) (bool, error) {
		lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		thief := "a thief"
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &thief, &now, &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err == nil, nil // the leader renews it meanwhile
	})
}
