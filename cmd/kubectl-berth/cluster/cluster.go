// Package cluster connects the plugin to the API server and reads what several verbs need:
// profiles and their revisions. It also makes errors of the API server understandable.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// DefaultBerthNamespace is the namespace that config/default installs Berth into.
const DefaultBerthNamespace = "berth-system"

// clientQPS and clientBurst are the limits of kubectl's own client.
const (
	clientQPS   = 50
	clientBurst = 300
)

// Cluster is a connection to a cluster.
type Cluster struct {
	Client client.WithWatch
	// Version returns the version of the API server.
	Version func(context.Context) (*version.Info, error)
	// Namespace is the namespace of the objects that a verb is asked about; NamespaceGiven tells
	// whether the user chose it with -n.
	Namespace      string
	NamespaceGiven bool
	// BerthNamespace is the namespace that Berth runs in.
	BerthNamespace string
	// Context is the name of the context in the kubeconfig, Server the URL of the API server.
	Context, Server string
}

// Scheme has the kinds of Kubernetes, CustomResourceDefinition, and the kinds of Berth.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
})

// Flags select the cluster: kubectl's own flags, and the namespace of Berth.
type Flags struct {
	*genericclioptions.ConfigFlags
	berthNamespace string
}

// NewFlags returns the flags without values.
func NewFlags() *Flags { return &Flags{ConfigFlags: genericclioptions.NewConfigFlags(true)} }

// AddFlags registers the flags.
func (f *Flags) AddFlags(to *pflag.FlagSet) {
	f.ConfigFlags.AddFlags(to)
	to.StringVar(&f.berthNamespace, "berth-namespace", DefaultBerthNamespace, "The namespace that Berth runs in, with its Lease and its revisions")
}

// Open connects to the cluster that the flags select. All requests of the connection end when ctx
// ends.
func (f *Flags) Open(ctx context.Context) (*Cluster, error) {
	f.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.QPS, config.Burst = clientQPS, clientBurst
		config.Wrap(endingWith(ctx))
		return config
	})
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	discoveryClient, err := f.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	namespace, chosen, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(), Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Client: c, Namespace: namespace, NamespaceGiven: chosen, BerthNamespace: f.berthNamespace,
		Context: cmp.Or(*f.Context, f.kubeconfig().CurrentContext), Server: config.Host,
		Version: discovery.ToServerVersionInterfaceWithContext(discoveryClient).ServerVersionWithContext,
	}, nil
}

// Contexts returns the names of the contexts in the kubeconfig, sorted.
func Contexts(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().Contexts)) }

// Clusters returns the names of the clusters in the kubeconfig, sorted.
func Clusters(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().Clusters)) }

// Users returns the names of the users in the kubeconfig, sorted.
func Users(f *Flags) []string { return slices.Sorted(maps.Keys(f.kubeconfig().AuthInfos)) }

// kubeconfig returns the kubeconfig; an empty one if it cannot be read.
func (f *Flags) kubeconfig() clientcmdapi.Config {
	config, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return clientcmdapi.Config{}
	}
	return config
}

// messageNotInstalled is the error for a cluster without the CRDs of Berth.
const messageNotInstalled = "the CRDs of Berth are not installed in this cluster; install them with: kubectl apply --server-side -k config/crd"

// IsKindNotServed reports whether err means that the API server does not serve a kind of
// Berth.
func IsKindNotServed(err error) bool {
	if err == nil {
		return false
	}
	if noKind := (*meta.NoKindMatchError)(nil); errors.As(err, &noKind) {
		return noKind.GroupKind.Group == v1alpha1.GroupVersion.Group
	}
	// The discovery was cached before the CRDs were deleted: the API server answers that the
	// path does not exist.
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == "" && (details.Group == v1alpha1.GroupVersion.Group || len(details.Causes) > 0)
}

// UserError adds to an error of the API server what the user can do about it.
func UserError(err error) error {
	network := (*net.OpError)(nil)
	switch {
	case err == nil:
		return nil
	case IsKindNotServed(err):
		return errors.New(messageNotInstalled)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; `kubectl berth check` lists the permissions that each verb needs", err)
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot reach the API server: %w; check --context", err)
	}
	return err
}
