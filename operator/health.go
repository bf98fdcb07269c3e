package operator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/berthdev/berth/api/v1alpha1"
)

// crdPause is how long the API server is left alone between two looks for
// Berth's own resources.
const crdPollInterval = 2 * time.Second

// served waits until the API server serves Berth's own resources, and starts
// their controllers then. Until that moment the process is not ready, but it
// lives: somebody may apply the CRDs at any time.
type crdWaiter struct {
	discovery discovery.DiscoveryInterface
	log       logr.Logger
	onServed  func() error
	served    atomic.Bool
}

// NeedLeaderElection says that followers wait, too.
func (s *crdWaiter) NeedLeaderElection() bool { return false }

// Start returns once the controllers were started, or ctx ended.
func (s *crdWaiter) Start(ctx context.Context) error {
	for told := false; ; told = true {
		missing, err := s.missing()
		if err == nil && missing == "" {
			if err := s.onServed(); err != nil {
				return err
			}
			s.served.Store(true)
			return nil
		}
		if !told {
			s.log.Info("Waiting for Berth's own resources; apply config/crd", "missing", missing, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(crdPollInterval):
		}
	}
}

// missing names a resource that is not served yet.
func (s *crdWaiter) missing() (string, error) {
	list, err := s.discovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return v1alpha1.GroupVersion.String(), nil
	}
	if err != nil {
		return "", err
	}
	have := map[string]bool{}
	for _, r := range list.APIResources {
		have[r.Name] = true
	}
	for _, want := range []string{"schedulingprofiles", "pluginconfigs"} {
		if !have[want] {
			return want, nil
		}
	}
	return "", nil
}

func (s *crdWaiter) ready() error {
	if !s.served.Load() {
		return errors.New("the API server does not serve " + v1alpha1.GroupVersion.String() + " yet; apply config/crd")
	}
	return nil
}
