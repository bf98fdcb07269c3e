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

// defaultProfileCreator creates the default profile while the cluster has no profile.
type defaultProfileCreator struct {
	name string
	// profiles reads from the cache, live from the API server; creator writes.
	profiles, live client.Reader
	creator        client.Writer
	clock          clock.Clock
}

// defaultProfilePollInterval is how often it checks whether there are profiles.
const defaultProfilePollInterval = 5 * time.Second

// NeedLeaderElection returns true: only the leader writes.
func (c *defaultProfileCreator) NeedLeaderElection() bool { return true }

// Start checks until ctx ends. After an error it tries again at the next check.
func (c *defaultProfileCreator) Start(ctx context.Context) error {
	for {
		if err := c.createIfNone(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The default profile could not be created", "schedulingProfile", c.name)
		}
		timer := c.clock.NewTimer(defaultProfilePollInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// createIfNone creates the profile when neither the cache nor the API server has one.
func (c *defaultProfileCreator) createIfNone(ctx context.Context) error {
	for _, reader := range []client.Reader{c.profiles, c.live} {
		var profiles v1alpha1.SchedulingProfileList
		if err := request(ctx, func(ctx context.Context) error { return reader.List(ctx, &profiles) }); err != nil || len(profiles.Items) > 0 {
			return err
		}
	}
	profile := &v1alpha1.SchedulingProfile{}
	profile.Name = c.name
	err := request(ctx, func(ctx context.Context) error { return c.creator.Create(ctx, profile) })
	if err == nil {
		log.FromContext(ctx).Info("Created a SchedulingProfile, since the cluster had none", "schedulingProfile", c.name)
	}
	return client.IgnoreAlreadyExists(err)
}
