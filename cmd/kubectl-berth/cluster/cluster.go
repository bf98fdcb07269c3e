// Package cluster connects the plugin to the API server and reads what several verbs need:
// profiles and their revisions. It also makes errors of the API server understandable.
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

// Open connects to the cluster that the flags select.
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
