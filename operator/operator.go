// Package operator assembles Berth's manager. Main is the command, for a main.go that
// registers out-of-tree plugins:
//
//	func main() {
//		operator.Main(plugins.Register("Coscheduling", coscheduling.New, (*coscheduling.Plugin)(nil), (*coscheduling.Args)(nil)))
//	}
//
// New creates the same Manager inside another program. It changes nothing that belongs
// to the process, such as loggers and signal handlers; Main does.
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

// version is set by release builds: -ldflags '-X
// github.com/berthdev/berth/operator.version=v1.2.3'. It is part of every profile's
// hash, so that profiles are on probation again after plugins changed.
var version = "dev"

// Main runs Berth as the command line says, with out-of-tree plugins beside the
// built-in ones, until SIGTERM or SIGINT. On an error it prints the error and exits
// with 1.
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

// command runs a Manager that owns the process: it handles signals, sets the loggers of
// klog and controller-runtime, uses controller-runtime's registry for metrics, and
// exits at once when the Lease is lost. The options in with override this.
func command(args []string, with []Option) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	log := newLogger(os.Stderr, o.verbosity)
	ctrl.SetLogger(log)
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logLostTraces(log, o.tracing.endpoint, err) }))
	registerRequestLatency()
	setGCPercent(os.Getenv)
	readContainerMemory(os.DirFS("/")).setGoMemoryLimit(os.Getenv, log)
	ctx := ctrl.SetupSignalHandler()
	shipped := []Option{
		WithLogger(log), WithMetricsRegistry(metrics.Registry), WithLeaseLost(func() { os.Exit(1) }),
		WithCrashOutput(func(output *os.File) error { return debug.SetCrashOutput(output, debug.CrashOptions{}) }),
	}
	m, err := build(ctx, o, append(shipped, with...))
	if err != nil && ctx.Err() != nil {
		log.Info("Stopped before the start", "error", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// noNamespaceError says that Berth's namespace does not exist. Without it there is no
// Lease, and two replicas that both schedule would overcommit nodes.
type noNamespaceError struct{ namespace string }

func (e *noNamespaceError) Error() string {
	return fmt.Sprintf("--namespace: there is no namespace %q for the Lease: create it (kubectl create namespace %[1]s), "+
		"or run one process alone (--leader-elect=false)", e.namespace)
}

// checkLeaseNamespace checks that the Lease's namespace exists, if a leader is elected.
// The error is a *noNamespaceError, or the error of the check.
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

// withProtobuf returns a copy of config that uses protobuf, which costs less than JSON.
func withProtobuf(config *restclient.Config) *restclient.Config {
	config = restclient.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}
