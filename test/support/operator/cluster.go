package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
)

// Scheme has the kinds of Kubernetes and of Berth.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
})

// untainted is a flag of the API server that leaves new nodes without taints: no controller
// runs that would remove them.
const untainted = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"

// Cluster starts a control plane on which Berth is installed and does not run. args are
// additional flags of its API server.
func Cluster(ctx context.Context, args ...string) (*controlplane.ControlPlane, error) {
	return installed(ctx, controlplane.Options{APIServerArgs: append([]string{
		untainted,
		// Pods can require a feature of their node, which 1.35 has off.
		"--feature-gates=NodeDeclaredFeatures=true,RestartAllContainersOnContainerExits=true",
	}, args...)})
}

// ClusterForPlugins is Cluster for a manager with out-of-tree plugins: a controller aggregates
// their permissions into berth-plugin-role.
func ClusterForPlugins(ctx context.Context) (*controlplane.ControlPlane, error) {
	return installed(ctx, controlplane.Options{
		ControllerManager: true,
		Controllers:       []string{"clusterrole-aggregation-controller", "serviceaccount-controller"},
		APIServerArgs:     []string{untainted},
	})
}

func installed(ctx context.Context, options controlplane.Options) (*controlplane.ControlPlane, error) {
	cp, err := controlplane.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := Install(ctx, cp); err != nil {
		cp.Stop()
		return nil, err
	}
	return cp, nil
}

// AccountConfig returns a configuration with the permissions of the manager's ServiceAccount.
func AccountConfig(ctx context.Context, cp *controlplane.ControlPlane) (*rest.Config, error) {
	return cp.ServiceAccountConfig(ctx, Namespace, Account)
}

// pollInterval is how often a profile is read while it is waited for.
const pollInterval = 50 * time.Millisecond

// path is the path of a profile at the API server.
func path(name string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/schedulingprofiles/" + name
}

// ApplyProfile creates the profile, or updates its spec, by server-side apply.
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

// UntilProgrammed waits until the profile is Programmed for its generation, and returns it. It
// gives up when a process of cp ends, or ctx does.
func UntilProgrammed(ctx context.Context, cp *controlplane.ControlPlane, name string) (*v1alpha1.SchedulingProfile, error) {
	return UntilProfile(ctx, cp, name, "runs as written", IsProgrammed)
}

// IsProgrammed reports whether a profile is Programmed for its generation.
func IsProgrammed(p *v1alpha1.SchedulingProfile) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
}

// UntilProfile waits until the profile exists and done is true, and returns it. what describes
// done in errors.
func UntilProfile(ctx context.Context, cp *controlplane.ControlPlane, name, what string, done func(*v1alpha1.SchedulingProfile) bool) (*v1alpha1.SchedulingProfile, error) {
	var profile *v1alpha1.SchedulingProfile
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := cp.Running(); err != nil {
			return false, err
		}
		var err error
		profile, err = Profile(ctx, cp, name)
		if apierrors.IsNotFound(err) {
			return false, nil // a manager may be about to create it
		}
		return err == nil && done(profile), err
	})
	if err != nil && ctx.Err() != nil && profile != nil {
		return nil, fmt.Errorf("waiting until profile %s %s: %w; its conditions: %+v", name, what, context.Cause(ctx), profile.Status.Conditions)
	}
	return profile, err
}
