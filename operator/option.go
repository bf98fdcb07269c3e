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

// Option is a setting of New that no flag has. What a flag says is no Option: pass the
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

// ExtenderClient makes the client of one extender of a profile; life ends with the
// profile's generation.
type ExtenderClient func(life context.Context, profile string, c extender.Config) (fwk.Extender, error)

// newSettings returns the defaults, changed by with in their order.
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

// WithPlugins registers plugins beside those that are built in. The Option may be
// given several times.
func WithPlugins(more ...framework.Registration) Option {
	return func(s *settings) { s.plugins = append(s.plugins, more...) }
}

// WithVersion replaces the version that the build set. The hash of each profile is made
// of it: a program that embeds Berth puts the version of its own plugins in, so that a
// profile is on probation again after they changed.
func WithVersion(version string) Option {
	return func(s *settings) { s.version = version }
}

// WithRESTConfig connects to the API server as config says, instead of as --kubeconfig
// and the pod's service account do: for a program that has a configuration already.
// Requests are paced by --kube-api-qps and --kube-api-burst, whatever config says.
func WithRESTConfig(config *restclient.Config) Option {
	return func(s *settings) { s.givenConfig = config }
}

// WithWriteConfig sends what changes pods, volumes and claims, and the reads that go
// with it, as config says, and all else as before: for a proxy that records, delays or
// refuses those writes. They are sent only while this Manager holds the Lease, as ever.
func WithWriteConfig(config *restclient.Config) Option {
	return func(s *settings) { s.givenWriteConfig = config }
}

// WithLogger logs to log; without it, to controller-runtime's logger. --v is for the
// logger that the command makes and does not change log.
func WithLogger(log logr.Logger) Option {
	return func(s *settings) { s.log = log }
}

// WithMetricsRegistry registers Berth's metrics in registry, and serves that at
// /metrics; without it each Manager has a registry of its own. The command passes
// controller-runtime's, which also holds the metrics of client-go, of work queues and of
// reconcilers: these exist once in a process, whatever number of Managers it runs.
func WithMetricsRegistry(registry metrics.RegistererGatherer) Option {
	return func(s *settings) { s.metricsRegistry = registry }
}

// WithLeaseLost calls f at once when another process turns out to hold the Lease, from
// the goroutine of the election. The command exits there. Without it Run ends, as it
// also does when f returns.
func WithLeaseLost(f func()) Option {
	return func(s *settings) { s.onLeaseLost = f }
}

// WithCrashOutput calls set with the file of --crash-output-dir to which the process is
// to write what it dies of. The command passes debug.SetCrashOutput, which is a setting
// of the process; without the option nothing is written, and the reports of earlier
// processes are read all the same.
func WithCrashOutput(set func(*os.File) error) Option {
	return func(s *settings) { s.crashOutput = set }
}

// WithProbation replaces history.Probation, which is how long a revision of a profile
// must have run before it is trusted: for a program that watches its rollouts itself and
// knows sooner.
func WithProbation(d time.Duration) Option {
	return func(s *settings) { s.probation = d }
}

// WithExplanationTime reads the time of explanations from now, which paces how often
// those of one pod are written: for a program whose time is not that of the machine,
// such as one that replays what happened.
func WithExplanationTime(now func() time.Time) Option {
	return func(s *settings) { s.explanationTime = now }
}

// WithExtenderClient makes the clients of extenders by maker, where --enable-extenders
// lets profiles have any: for extenders that are reached otherwise than at the URL of
// their profile, such as through a sidecar.
func WithExtenderClient(maker ExtenderClient) Option {
	return func(s *settings) { s.extenderClient = maker }
}
