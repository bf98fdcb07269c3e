package house

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/controlplane"
	"github.com/berthdev/berth/test/operator"
)

// Scheme knows Kubernetes' kinds and ours.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
})

var (
	// Patient is the election of a house that has no rival.
	Patient = ctrl.Options{RetryPeriod: ptr.To(time.Second)}
	// Hasty is the election of a house that takes over soon.
	Hasty = ctrl.Options{
		LeaseDuration: ptr.To(2 * time.Second), RenewDeadline: ptr.To(1500 * time.Millisecond), RetryPeriod: ptr.To(300 * time.Millisecond),
	}
)

// Cluster starts a control plane on which Berth is installed and does not run.
// args are more flags of its API server.
func Cluster(ctx context.Context, args ...string) (*controlplane.ControlPlane, error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{APIServerArgs: append([]string{
		// Nodes come as they are written: nobody is here to find them ready.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// Pods can need a feature of their node, which 1.35 has off.
		"--feature-gates=NodeDeclaredFeatures=true,RestartAllContainersOnContainerExits=true",
	}, args...)})
	if err != nil {
		return nil, err
	}
	if err := operator.Install(ctx, cp); err != nil {
		cp.Stop()
		return nil, err
	}
	return cp, nil
}

// Account is a configuration with the rights of the manager's ServiceAccount
// and no others.
func Account(ctx context.Context, cp *controlplane.ControlPlane) (*rest.Config, error) {
	return cp.ServiceAccountConfig(ctx, operator.Namespace, operator.Account)
}
