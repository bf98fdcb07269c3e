package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/scheduler/eventhandlers"
)

const (
	// answerRetryInterval is the time between queries of an API server that does not
	// answer.
	answerRetryInterval = 2 * time.Second
	// answerTimeout is how long one round of queries may take.
	answerTimeout = 10 * time.Second
	// waitingLogInterval is how often the log says that the API server does not answer.
	waitingLogInterval = time.Minute
)

// serverInfo is what the API server serves, which is queried before anything is built.
type serverInfo struct {
	devices *eventhandlers.DeviceClasses
	storage eventhandlers.Storage
}

// waitForAPIServer queries what the API server serves, and whether a leader can be
// elected. While the API server does not answer, or refuses, as one does that has just
// started, it waits: the process is live and not ready. It returns an error when the
// Lease's namespace does not exist, or when ctx ends first.
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

// queryAPIServer makes one round of queries.
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

// errAPIServerUnanswered is why /readyz fails. Only the log has the cause, since
// anybody may read the probes.
var errAPIServerUnanswered = errors.New("the API server does not answer, or refuses, the queries at startup; the log gives the error")
