package operator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"

	"github.com/berthdev/berth/api/v1alpha1"
)

// crdPollInterval is the time between two checks whether the API server serves Berth's
// CRDs.
const crdPollInterval = 2 * time.Second

// crdWaiter waits until the API server serves Berth's CRDs, and then starts their
// controllers. Until then the process is live and not ready: the CRDs may be applied at
// any time.
type crdWaiter struct {
	discovery discovery.DiscoveryInterface
	// mapper is what the controllers ask for their kinds. It may reach another API server
	// than discovery does, which does not serve the CRDs yet.
	mapper   meta.RESTMapper
	log      logr.Logger
	onServed func() error
	served   atomic.Bool
	// mu is held while onServed runs. stopped is set when the manager is to stop.
	mu      sync.Mutex
	stopped bool
}

// NeedLeaderElection returns false: followers wait too.
func (w *crdWaiter) NeedLeaderElection() bool { return false }

// Start returns once the controllers are started or ctx ended.
func (w *crdWaiter) Start(ctx context.Context) error {
	for logged := false; ; logged = true {
		missing, err := w.missing()
		if err == nil && missing == "" {
			return w.startControllers()
		}
		if !logged {
			w.log.Info("Waiting for Berth's CRDs; apply config/crd", "missing", missing, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(crdPollInterval):
		}
	}
}

func (w *crdWaiter) startControllers() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil
	}
	if err := w.onServed(); err != nil {
		return err
	}
	w.served.Store(true)
	return nil
}

// stop waits until no controllers are being started, and lets none be started after
// that. It is called before controller-runtime's manager is stopped: while a group of
// runnables stops, its Add and its goroutines can wait for each other for ever
// (controller-runtime 0.25).
func (w *crdWaiter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// missing returns the name of a resource that is not served, or of a kind that mapper does
// not know; empty when there is none. Controllers that start before would end the process.
func (w *crdWaiter) missing() (string, error) {
	list, err := w.discovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return v1alpha1.GroupVersion.String(), nil
	}
	if err != nil {
		return "", err
	}
	served := map[string]bool{}
	for _, r := range list.APIResources {
		served[r.Name] = true
	}
	for _, name := range []string{"schedulingprofiles", "pluginconfigs"} {
		if !served[name] {
			return name, nil
		}
	}
	for _, kind := range []string{"SchedulingProfile", "PluginConfig"} {
		if _, err := w.mapper.RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version); err != nil {
			return kind, err
		}
	}
	return "", nil
}

func (w *crdWaiter) ready() error {
	if !w.served.Load() {
		return errors.New("the API server does not serve " + v1alpha1.GroupVersion.String() + " yet; apply config/crd")
	}
	return nil
}
