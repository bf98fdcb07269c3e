package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
)

// pulse is how often a profile is looked at while it is waited for.
const pulse = 50 * time.Millisecond

// path is where the API server keeps the profile of that name.
func path(name string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/schedulingprofiles/" + name
}

// ApplyProfile creates the profile, or makes its spec what spec says, by
// server-side apply.
func ApplyProfile(ctx context.Context, cp *controlplane.ControlPlane, name string, spec v1alpha1.SchedulingProfileSpec) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "SchedulingProfile",
		"metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		return err
	}
	err = cp.Client().Discovery().RESTClient().Patch(types.ApplyPatchType).AbsPath(path(name)).
		Param("fieldManager", "test").Param("force", "true").Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("applying profile %s: %w", name, err)
	}
	return nil
}

// Profile reads a profile.
func Profile(ctx context.Context, cp *controlplane.ControlPlane, name string) (*v1alpha1.SchedulingProfile, error) {
	text, err := cp.Client().Discovery().RESTClient().Get().AbsPath(path(name)).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading profile %s: %w", name, err)
	}
	var profile v1alpha1.SchedulingProfile
	if err := json.Unmarshal(text, &profile); err != nil {
		return nil, fmt.Errorf("reading profile %s: %w", name, err)
	}
	return &profile, nil
}

// UntilProgrammed waits until the profile runs as written and returns it. It
// gives up when a process of cp ends, or ctx does.
func UntilProgrammed(ctx context.Context, cp *controlplane.ControlPlane, name string) (*v1alpha1.SchedulingProfile, error) {
	return UntilProfile(ctx, cp, name, "runs as written", func(p *v1alpha1.SchedulingProfile) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, "Programmed")
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
	})
}

// UntilProfile waits until the profile is there and is what done wants, which what says in
// a few words, and returns it.
func UntilProfile(ctx context.Context, cp *controlplane.ControlPlane, name, what string, done func(*v1alpha1.SchedulingProfile) bool) (*v1alpha1.SchedulingProfile, error) {
	var profile *v1alpha1.SchedulingProfile
	err := wait.PollUntilContextCancel(ctx, pulse, true, func(ctx context.Context) (bool, error) {
		if err := cp.Running(); err != nil {
			return false, err
		}
		var err error
		profile, err = Profile(ctx, cp, name)
		if apierrors.IsNotFound(err) {
			return false, nil // a manager may be about to make it
		}
		return err == nil && done(profile), err
	})
	if err != nil && ctx.Err() != nil && profile != nil {
		return nil, fmt.Errorf("waiting until profile %s %s: %w; its conditions: %+v", name, what, context.Cause(ctx), profile.Status.Conditions)
	}
	return profile, err
}
