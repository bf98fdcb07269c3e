package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"github.com/berthdev/berth/config"
	"github.com/berthdev/berth/scheduler/devices"
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
	// deviceKinds are the kinds of resource.k8s.io/v1 that it serves.
	deviceKinds devices.Served
	storage     eventhandlers.Storage
	podGroups   eventhandlers.PodGroups
	// hadLeader says that there was a leader before. It is queried without leader election only:
	// with it, another process may lead until this one creates the Lease.
	hadLeader bool
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
	if m.serverInfo.deviceKinds, err = devices.Discover(m.clients.watches.Discovery()); err != nil {
		return fmt.Errorf("looking for the kinds of devices: %w", err)
	}
	if m.serverInfo.storage, err = eventhandlers.NewStorage(m.clients.watches.Discovery()); err != nil {
		return fmt.Errorf("looking for the kinds of storage: %w", err)
	}
	if m.serverInfo.podGroups, err = eventhandlers.NewPodGroups(m.clients.watches.Discovery()); err != nil {
		return fmt.Errorf("looking for the kinds of PodGroups: %w", err)
	}
	m.serverInfo.hadLeader = !m.leaderElection.LeaderElect && m.clients.hadLeader(ctx, m.options)
	return nil
}

// errAPIServerUnanswered is why /readyz fails. Only the log has the cause, since
// anybody may read the probes.
var errAPIServerUnanswered = errors.New("the API server does not answer, or refuses, the queries at startup; the log gives the error")

// workloadsGroupVersion is where Kubernetes 1.35 serves Workloads, which a pod's
// spec.workloadRef names. Kubernetes 1.36 has spec.schedulingGroup instead, and
// client-go 1.37 drops the older field.
const workloadsGroupVersion = "scheduling.k8s.io/v1alpha1"

// logKubernetesVersion logs the version of the API server. It warns about one that is
// older than Berth supports, and about one whose pods can have a field that Berth does
// not see. Berth runs all the same; other code reports connection errors.
func logKubernetesVersion(server discovery.DiscoveryInterface, log logr.Logger) {
	version, err := server.ServerVersion()
	if err != nil {
		log.Info("The version of the API server is unknown", "error", err.Error())
		return
	}
	log.Info("Connected to the API server", "version", version.GitVersion)
	if parsed, err := utilversion.ParseGeneric(version.GitVersion); err == nil && parsed.LessThan(utilversion.MustParseGeneric(config.MinKubeVersion)) {
		log.Info("The API server is older than Berth supports: upgrade the cluster", "version", version.GitVersion, "oldest", config.MinKubeVersion)
	}
	list, err := server.ServerResourcesForGroupVersion(workloadsGroupVersion)
	if err != nil {
		return // nearly no cluster serves it
	}
	for _, r := range list.APIResources {
		if r.Name == "workloads" {
			log.Info("The API server serves Workloads of Kubernetes 1.35, and Berth does not see which pods name one: "+
				"pods with spec.workloadRef are scheduled one by one; give them schedulingGates or another scheduler", "groupVersion", workloadsGroupVersion)
		}
	}
}
