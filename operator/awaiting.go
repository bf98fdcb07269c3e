package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/scheduler/eventhandlers"
)

const (
	// answerPause is how long an API server that does not answer is left alone.
	answerRetryInterval = 2 * time.Second
	// answerTimeout is for how long it may think about the first question.
	answerTimeout = 10 * time.Second
	// logInterval is how often the log says that it does not.
	waitingLogInterval = time.Minute
)

// learned is what the API server has to say before anything is built.
type serverInfo struct {
	devices *eventhandlers.DeviceClasses
	storage eventhandlers.Storage
}

// learn asks the API server what it serves, and whether a leader can be elected. While
// it does not answer, or refuses, as one does that has just started, learn waits: the
// process lives and is not ready. It returns an error when there is no namespace for the
// Lease, or when ctx ends first.
func (m *Manager) waitForAPIServer(ctx context.Context) (err error) {
	unanswered := func() error { return errAPIServerUnanswered }
	if m.probeServer, err = startProbeServer(m.probeAddress, probeChecks{ready: map[string]func() error{"api-server": unanswered}}); err != nil {
		return err
	}
	var logged time.Time
	for {
		if err = m.queryAPIServer(ctx); err == nil {
			logKubernetesVersion(m.clients.watches.Discovery(), m.log)
			return nil
		}
		if errors.As(err, new(*noNamespaceError)) {
			return err
		}
		if time.Since(logged) >= waitingLogInterval {
			logged = time.Now()
			m.log.Info("Waiting for the API server", "host", m.config.Host, "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w: %w", ctx.Err(), err)
		case <-time.After(answerRetryInterval):
		}
	}
}

// inquire asks everything once.
func (m *Manager) queryAPIServer(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err = checkLeaseNamespace(ctx, m.clients.watches, m.options); err != nil {
		return err
	}
	if m.serverInfo.devices, err = eventhandlers.NewDeviceClasses(m.clients.watches.Discovery()); err != nil {
		return fmt.Errorf("looking for DeviceClasses: %w", err)
	}
	if m.serverInfo.storage, err = eventhandlers.NewStorage(m.clients.watches.Discovery()); err != nil {
		return fmt.Errorf("looking for the kinds of storage: %w", err)
	}
	return nil
}

// errUnanswered says why this process is not ready. The log says more: requests of the
// probes are not authenticated.
var errAPIServerUnanswered = errors.New("the API server does not answer, or refuses, what is asked at the start; the log says what")
