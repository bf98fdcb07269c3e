// Package operator is Berth's command: its flags, its connections, and how the
// house is wired together. Whoever has plugins of their own builds a command of
// their own from it:
//
//	func main() {
//		operator.Main(plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil)))
//	}
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// version is set when a release is built:
// -ldflags '-X github.com/berthdev/berth/operator.version=v1.2.3'. The hash of a
// profile is made of it, so that plugins that changed are on probation again.
var version = "dev"

// Main runs Berth as the command line says, with more plugins beside those that
// are built in, until the process is told to end. When it fails, it says why and
// exits with 1.
func Main(more ...framework.Registration) {
	options, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	registry, registryErr := plugins.With(plugins.InTree(), more...)
	if err = cmp.Or(err, registryErr); err == nil {
		err = run(ctrl.SetupSignalHandler(), options, registry)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// run puts the house together and runs it until ctx ends.
func run(ctx context.Context, o options, registry framework.Registry) error {
	h, err := connect(ctx, o, registry)
	if err != nil {
		return err
	}
	memoryLimit(os.DirFS("/")).limitRuntime(os.Getenv, h.log)
	defer h.finish()
	if err := h.manage(); err != nil {
		return err
	}
	if err := h.schedule(); err != nil {
		return err
	}
	if err := h.serve(ctx); err != nil {
		return err
	}
	h.log.Info("Starting", "version", version, "leaderElection", h.elect.LeaderElect)
	return h.mgr.Start(ctx)
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// electable says whether a leader can be elected: the Lease needs a namespace.
func electable(ctx context.Context, client clientset.Interface, o options, log logr.Logger) (bool, error) {
	if !o.elect.LeaderElect {
		return false, nil
	}
	_, err := client.CoreV1().Namespaces().Get(ctx, o.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		log.Info("The namespace does not exist: no leader is elected, and history is kept in memory. Run one replica only", "namespace", o.namespace)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for namespace %s: %w", o.namespace, err)
	}
	return true, nil
}

// protobuf returns a copy of config that speaks the cheaper encoding.
func protobuf(config *restclient.Config) *restclient.Config {
	config = restclient.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}
