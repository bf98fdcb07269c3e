// Package cluster is the plugin's way to the API server, and what several verbs
// ask there: profiles, their revisions, and errors in words that help.
package cluster

import (
	"context"
	"sync"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// DefaultBerth is the namespace where config/default puts Berth.
const DefaultBerthNamespace = "berth-system"

// So many requests a second, and so many at once, are kubectl's own.
const (
	clientQPS   = 50
	clientBurst = 300
)

// Cluster is a cluster that can be asked.
type Cluster struct {
	Client client.WithWatch
	// Version asks the API server for its own.
	Version func(context.Context) (*version.Info, error)
	// Namespace is where pods are looked for; Chosen says that the user gave it
	// with -n.
	Namespace      string
	NamespaceGiven bool
	// Berth is Berth's own namespace.
	BerthNamespace string
}

// Scheme knows Kubernetes' kinds, CustomResourceDefinitions, and ours.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
})

// Flags say which cluster: kubectl's own, and Berth's namespace.
type Flags struct {
	*genericclioptions.ConfigFlags
	berthNamespace string
}

// NewFlags returns flags that are not set.
func NewFlags() *Flags { return &Flags{ConfigFlags: genericclioptions.NewConfigFlags(true)} }

// AddFlags registers the flags.
func (f *Flags) AddFlags(to *pflag.FlagSet) {
	f.ConfigFlags.AddFlags(to)
	to.StringVar(&f.berthNamespace, "berth-namespace", DefaultBerthNamespace, "Berth's own namespace, where its Lease and the revisions are")
}

// Open reaches the cluster that the flags name.
func (f *Flags) Open() (*Cluster, error) {
	f.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.QPS, config.Burst = clientQPS, clientBurst
		return config
	})
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	discovery, err := f.ToDiscoveryClient()
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
		Version: func(context.Context) (*version.Info, error) { return discovery.ServerVersion() },
	}, nil
}
