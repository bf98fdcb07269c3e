// Package operator is Berth's command, and what it is built from. Main is the command,
// for a main.go that adds plugins:
//
//	func main() {
//		operator.Main(plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil)))
//	}
//
// New builds the same Manager inside of another program. It touches nothing that belongs
// to the process, such as loggers and signals; Main does.
package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/scheduler/framework"
)

// version is set when a release is built:
// -ldflags '-X github.com/berthdev/berth/operator.version=v1.2.3'. The hash of a
// profile is made of it, so that plugins that changed are on probation again.
var version = "dev"

// Main runs Berth as the command line says, with more plugins beside those that
// are built in, until the process is told to end. When it fails, it says why and
// exits with 1.
func Main(more ...framework.Registration) { MainWith(WithPlugins(more...)) }

// MainWith is Main with any options.
func MainWith(with ...Option) {
	err := command(os.Args[1:], with)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// command runs a Manager that has the process to itself: it handles the signals, sets
// the loggers of klog and of controller-runtime, takes controller-runtime's registry
// for its metrics, and exits at once when the Lease is lost. with may override this.
func command(args []string, with []Option) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	log := o.logger()
	ctrl.SetLogger(log)
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logLostTraces(log, o.tracing.endpoint, err) }))
	registerRequestLatency()
	readContainerMemory(os.DirFS("/")).setGoMemoryLimit(os.Getenv, log)
	ctx := ctrl.SetupSignalHandler()
	shipped := []Option{
		WithLogger(log), WithMetricsRegistry(metrics.Registry), WithLeaseLost(func() { os.Exit(1) }),
		WithCrashOutput(func(output *os.File) error { return debug.SetCrashOutput(output, debug.CrashOptions{}) }),
	}
	m, err := build(ctx, o, append(shipped, with...))
	if err != nil && ctx.Err() != nil {
		log.Info("Ended before the start", "because", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// noNamespaceError says that Berth's namespace is not there: without it there is no Lease,
// and two replicas that both schedule overcommit nodes.
type noNamespaceError struct{ namespace string }

func (e *noNamespaceError) Error() string {
	return fmt.Sprintf("--namespace: there is no namespace %q for the Lease: create it (kubectl create namespace %[1]s), "+
		"or run one process alone (--leader-elect=false)", e.namespace)
}

// electable looks for the namespace of the Lease, where a leader is elected. The error is a
// *noNamespaceError, or why it is not known whether there is one.
func checkLeaseNamespace(ctx context.Context, client clientset.Interface, o options) error {
	if !o.leaderElection.LeaderElect {
		return nil
	}
	_, err := client.CoreV1().Namespaces().Get(ctx, o.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &noNamespaceError{o.namespace}
	}
	if err != nil {
		return fmt.Errorf("looking for namespace %s: %w", o.namespace, err)
	}
	return nil
}

// protobuf returns a copy of config that speaks the cheaper encoding.
func withProtobuf(config *restclient.Config) *restclient.Config {
	config = restclient.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}
