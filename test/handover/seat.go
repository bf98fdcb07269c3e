package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/operator"
)

// seat is where one manager runs at a time, with its way to an API server.
type seat struct {
	proxy      *faultproxy.Proxy
	kubeconfig string
	manager    *operator.Manager
}

func (s *Stage) newSeat(ctx context.Context, i int, config *rest.Config) (*seat, error) {
	account, err := s.cp.ServiceAccountConfig(ctx, operator.Namespace, operator.Account)
	if err != nil {
		return nil, err
	}
	config.BearerToken = account.BearerToken
	proxy, err := faultproxy.Start(config)
	if err != nil {
		return nil, err
	}
	path, err := s.cp.WriteKubeconfig(fmt.Sprintf("seat-%d", i), proxy.Config(config))
	return &seat{proxy: proxy, kubeconfig: path}, err
}

// enter starts a manager at a seat, and waits until it is ready.
func (s *Stage) enter(ctx context.Context, seat *seat) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("a manager does not get ready"))
	defer cancel()
	seat.manager, err = operator.StartWith(s.cp, s.options.Manager, seat.kubeconfig,
		"--leader-elect-lease-duration="+s.options.Lease.String(),
		"--leader-elect-renew-deadline="+(s.options.Lease*2/3).String(),
		"--leader-elect-retry-period="+(s.options.Lease/15).String())
	if err != nil {
		return err
	}
	return seat.manager.Until(ctx, seat.manager.Ready)
}

// leads and stands are the seats of who leads and who stands by.
func (s *Stage) leads() *seat { return s.seats[s.leader] }

func (s *Stage) stands() *seat { return s.seats[1-s.leader] }

// ended waits until the manager at a seat has ended, by itself.
func (s *Stage) ended(ctx context.Context, seat *seat, within time.Duration) error {
	select {
	case <-seat.manager.Ended():
		s.cp.End(seat.manager.Process)
		return nil
	case <-time.After(within):
		return fmt.Errorf("the earlier leader is still there after %s; its log is %s", within, seat.manager.Log())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
