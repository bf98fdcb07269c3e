package operator

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
)

// Scheme knows the kinds of Kubernetes and of Berth.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
})

// untainted is a flag of the API server with which nodes come as they are written:
// nobody is here to find them ready.
const untainted = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"

// Cluster starts a control plane on which Berth is installed and does not run.
// args are more flags of its API server.
func Cluster(ctx context.Context, args ...string) (*controlplane.ControlPlane, error) {
	return installed(ctx, controlplane.Options{APIServerArgs: append([]string{
		untainted,
		// Pods can need a feature of their node, which 1.35 has off.
		"--feature-gates=NodeDeclaredFeatures=true,RestartAllContainersOnContainerExits=true",
	}, args...)})
}

// ClusterForPlugins is Cluster for a manager with more plugins: a controller gives their
// rights to berth-plugin-role.
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

// AccountConfig returns a configuration with the rights of the manager's
// ServiceAccount and no others.
func AccountConfig(ctx context.Context, cp *controlplane.ControlPlane) (*rest.Config, error) {
	return cp.ServiceAccountConfig(ctx, Namespace, Account)
}
