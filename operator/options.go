package operator

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	restclient "k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// Option is a setting of New that no flag has. For a setting with a flag, pass the
// flag.
type Option func(*settings)

// settings are what the Options set.
type settings struct {
	plugins                       []framework.Registration
	version                       string
	givenConfig, givenWriteConfig *restclient.Config
	log                           logr.Logger
	metricsRegistry               metrics.RegistererGatherer
	onLeaseLost                   func()
	crashOutput                   func(*os.File) error
	probation                     time.Duration
	explanationTime               func() time.Time
	extenderClient                ExtenderClient
}

// ExtenderClient creates the client of one extender of a profile. ctx ends with the
// profile's Generation.
type ExtenderClient func(ctx context.Context, profile string, c extender.Config) (fwk.Extender, error)

// newSettings returns the defaults, changed by the options in their order.
func newSettings(with []Option) settings {
	s := settings{version: version, log: ctrl.Log, explanationTime: time.Now}
	for _, option := range with {
		option(&s)
	}
	if s.metricsRegistry == nil {
		s.metricsRegistry = prometheus.NewRegistry()
	}
	return s
}

// WithPlugins registers out-of-tree plugins beside the built-in ones. It may be given
// several times.
func WithPlugins(more ...framework.Registration) Option {
	return func(s *settings) { s.plugins = append(s.plugins, more...) }
}

// WithVersion replaces the version that the build set. It is part of every profile's
// hash: a program that embeds Berth includes the version of its own plugins, so that
// profiles are on probation again after they changed.
func WithVersion(version string) Option {
	return func(s *settings) { s.version = version }
}

// WithRESTConfig connects to the API server with config, in place of --kubeconfig and
// the pod's service account. --kube-api-qps, --kube-api-burst and
// --kube-api-compression replace its settings.
func WithRESTConfig(config *restclient.Config) Option {
	return func(s *settings) { s.givenConfig = config }
}

// WithWriteConfig sends the requests that change pods, volumes and claims, and the
// reads that belong to them, with config: for a proxy that records, delays or refuses
// those writes. As ever, they are sent only while this Manager holds the Lease.
func WithWriteConfig(config *restclient.Config) Option {
	return func(s *settings) { s.givenWriteConfig = config }
}

// WithLogger logs to log; the default is controller-runtime's logger. --v sets the
// verbosity of the command's logger and does not change log.
func WithLogger(log logr.Logger) Option {
	return func(s *settings) { s.log = log }
}

// WithMetricsRegistry registers Berth's metrics in registry, and serves registry at
// /metrics; the default is a new registry for each Manager. The command passes
// controller-runtime's registry, which also holds the metrics of client-go, of work
// queues and of reconcilers: these exist once per process, however many Managers it
// runs.
func WithMetricsRegistry(registry metrics.RegistererGatherer) Option {
	return func(s *settings) { s.metricsRegistry = registry }
}

// WithLeaseLost calls f at once when another process holds the Lease, from the
// goroutine of the leader election. The command exits in f. Run ends without the
// option, and also when f returns.
func WithLeaseLost(f func()) Option {
	return func(s *settings) { s.onLeaseLost = f }
}

// WithCrashOutput calls set with the file in --crash-output-dir that the runtime is to
// write a crash into. The command passes debug.SetCrashOutput, which is a setting of
// the process. Without the option nothing is written; the reports of earlier processes
// are read all the same.
func WithCrashOutput(set func(*os.File) error) Option {
	return func(s *settings) { s.crashOutput = set }
}

// WithProbation replaces history.Probation, which is how long a revision of a profile
// must run before it is proved: for a program that watches its rollouts itself and
// knows sooner.
func WithProbation(d time.Duration) Option {
	return func(s *settings) { s.probation = d }
}

// WithExplanationTime reads the time of explanations from now, which limits how often
// the explanation of one pod is written: for a program with its own time, such as a
// replay.
func WithExplanationTime(now func() time.Time) Option {
	return func(s *settings) { s.explanationTime = now }
}

// WithExtenderClient creates the clients of extenders with maker, when
// --enable-extenders allows profiles to have extenders: for extenders that are not
// reached at the URL in their profile, such as through a sidecar.
func WithExtenderClient(maker ExtenderClient) Option {
	return func(s *settings) { s.extenderClient = maker }
}
