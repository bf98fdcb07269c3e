package controllers

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
)

// +kubebuilder:rbac:groups=berth.dev,resources=schedulingprofiles,verbs=create

// provider creates the default profile while the cluster has none at all.
type defaultProfileCreator struct {
	name string
	// profiles is the cache, live the API server; creator writes.
	profiles, live client.Reader
	creator        client.Writer
	clock          clock.Clock
}

// providerPause is how often the cluster is looked at for profiles.
const defaultProfilePollInterval = 5 * time.Second

// NeedLeaderElection keeps followers from writing.
func (p *defaultProfileCreator) NeedLeaderElection() bool { return true }

// Start looks until ctx ends. What fails is tried again at the next look.
func (p *defaultProfileCreator) Start(ctx context.Context) error {
	for {
		if err := p.createIfNone(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The default profile could not be created", "schedulingProfile", p.name)
		}
		timer := p.clock.NewTimer(defaultProfilePollInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// look creates the profile when neither the cache nor the API server knows any.
func (p *defaultProfileCreator) createIfNone(ctx context.Context) error {
	for _, reader := range []client.Reader{p.profiles, p.live} {
		var profiles v1alpha1.SchedulingProfileList
		if err := reader.List(ctx, &profiles); err != nil || len(profiles.Items) > 0 {
			return err
		}
	}
	profile := &v1alpha1.SchedulingProfile{}
	profile.Name = p.name
	err := p.creator.Create(ctx, profile)
	if err == nil {
		log.FromContext(ctx).Info("The cluster had no SchedulingProfile: one was created", "schedulingProfile", p.name)
	}
	return client.IgnoreAlreadyExists(err)
}
