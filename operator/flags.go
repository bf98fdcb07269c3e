package operator

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler/framework"
)

// leaseName is the name of the leader's Lease, in Berth's namespace.
const leaseName = "berth-manager"

// options are the flags.
type options struct {
	kubeconfig   string
	namespace    string
	metrics      metricsOptions
	tracing      tracingOptions
	probeAddress string
	pprofAddress string
	// crashDir is the folder of crash reports; empty when none are kept.
	crashDir       string
	qps            float32
	burst          int
	compression    bool
	verbosity      int8
	leaderElection leaderElection
	// watchdogTimeout is how long the loop may be at one step. shutdownTimeout is how
	// long a graceful shutdown may take.
	watchdogTimeout, shutdownTimeout time.Duration

	// cacheSize bounds the equivalence caches of all profiles together; zero for the
	// default of containerMemory.equivalenceCacheSize.
	cacheSize resource.QuantityValue

	enableExtenders      bool
	enableExtenderWrites bool

	defaultProfile  string
	otherSchedulers []string
	// otherSchedulersSet says that the flag --other-schedulers was set.
	// otherSchedulerLease is the value of --other-scheduler-lease.
	otherSchedulersSet  bool
	otherSchedulerLease string
}

// leaderElection are the flags of the leader election.
type leaderElection struct {
	LeaderElect   bool
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// parseFlags parses and validates the flags. An error names the flag.
func parseFlags(args []string) (options, error) {
	o := options{}
	f := o.flags()
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.tracing.rateSet = f.Changed(rateFlag)
	o.otherSchedulersSet = f.Changed("other-schedulers")
	if !f.Changed("namespace") {
		o.namespace = ownNamespace()
	}
	return o, cmp.Or(o.validate(f.Args()), o.metrics.validate(), o.tracing.validate())
}

// Flags returns the flags of the command, with their defaults.
func Flags() *pflag.FlagSet { return new(options).flags() }

func (o *options) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig of the API server; without it, the configuration of a pod in the cluster")
	f.StringVar(&o.namespace, "namespace", "", "Berth's namespace, which holds its Lease; the default is the pod's namespace, and berth-system outside a cluster")
	o.metrics.flags(f)
	o.tracing.flags(f)
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "where /livez and /readyz are served, and /healthz, which is /livez; 0 for nowhere")
	f.StringVar(&o.pprofAddress, "pprof-bind-address", "0", "where /debug/pprof is served; 0 for nowhere")
	f.StringVar(&o.crashDir, "crash-output-dir", "", "a folder that outlives the process, such as an emptyDir, for the runtime's report of a crash: the next process reads there which plugins were on the stack; empty for none")
	f.Float32Var(&o.qps, "kube-api-qps", -1, "requests a second to the API server; -1 leaves the limit to the server's priority and fairness")
	f.IntVar(&o.burst, "kube-api-burst", 0, "requests above --kube-api-qps at once")
	f.BoolVar(&o.compression, "kube-api-compression", false, "have the API server compress lists and watches, which spares the network and costs CPU in both processes")
	f.Int8VarP(&o.verbosity, "v", "v", 0, "verbosity: 0 swaps, 1 each decision, 4 and above nodes")
	f.StringVar(&o.defaultProfile, "default-profile", "berth", "the SchedulingProfile that is created while the cluster has none; empty for none")
	f.BoolVar(&o.enableExtenders, "enable-extenders", false, "allow profiles to call HTTP extenders to filter and to prioritize")
	f.BoolVar(&o.enableExtenderWrites, "enable-extender-writes", false, "also allow extenders to choose victims and to bind pods; needs --enable-extenders")
	f.StringSliceVar(&o.otherSchedulers, "other-schedulers", []string{"default-scheduler"}, "names that other schedulers serve: their pods are not reported as unserved, and, where this flag is set, a SchedulingProfile of such a name is rejected")
	f.StringVar(&o.otherSchedulerLease, "other-scheduler-lease", "", "the Lease of the scheduler that serves default-scheduler, as NAMESPACE/NAME, such as kube-system/kube-scheduler: a profile of that name runs once this process has observed no change of the Lease for its duration, and for 15 seconds at least; none: no other scheduler serves that name. Without it such a profile runs only with the annotation berth.dev/take-over")
	f.BoolVar(&o.leaderElection.LeaderElect, "leader-elect", true, "schedule only while holding the Lease, so that other replicas can stand by")
	f.DurationVar(&o.leaderElection.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a Lease that is not renewed keeps others out, in whole seconds")
	f.DurationVar(&o.leaderElection.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew before it gives up")
	f.DurationVar(&o.leaderElection.RetryPeriod, "leader-elect-retry-period", time.Second, "the time between attempts to acquire or renew the Lease")
	f.DurationVar(&o.watchdogTimeout, "watchdog-timeout", time.Minute, "how long one step of the scheduling loop may take before /livez fails; 0 for no limit")
	f.DurationVar(&o.shutdownTimeout, "graceful-shutdown-timeout", 30*time.Second, "how long the process may take to end: bindings under way are completed, Events and explanations are written, and the Lease is released; less than the pod's terminationGracePeriodSeconds")
	f.Var(&o.cacheSize, "equivalence-cache-size", "how much memory the equivalence caches of all profiles may use together, such as 512Mi; 0 for a quarter of the container's memory limit, and 512Mi where there is none")
	return f
}

func (o options) validate(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q: only flags are taken", args[0])
	case o.enableExtenderWrites && !o.enableExtenders:
		return fmt.Errorf("--enable-extender-writes: needs --enable-extenders")
	case o.namespace == "":
		return fmt.Errorf("--namespace: must not be empty")
	case o.defaultProfile != "" && len(validation.IsDNS1123Subdomain(o.defaultProfile)) > 0, len(o.defaultProfile) > 63:
		return fmt.Errorf("--default-profile: must be a DNS subdomain of at most 63 characters, or empty, is %q", o.defaultProfile)
	case o.otherSchedulerLease != "" && o.otherSchedulerLease != noLease && o.otherSchedulerOptions().Lease == nil:
		return fmt.Errorf("--other-scheduler-lease: must be NAMESPACE/NAME, none, or empty, is %q", o.otherSchedulerLease)
	case o.verbosity < 0:
		return fmt.Errorf("--v: must not be negative, is %d", o.verbosity)
	case o.watchdogTimeout != 0 && o.watchdogTimeout <= framework.CallTimeout:
		return fmt.Errorf("--watchdog-timeout: must exceed %v, after which the loop itself leaves a plugin behind, or be 0, is %v", framework.CallTimeout, o.watchdogTimeout)
	case !o.cacheSize.IsZero() && o.cacheSize.Cmp(minCacheSize) < 0:
		return fmt.Errorf("--equivalence-cache-size: must be at least %s, or 0, is %s", &minCacheSize, &o.cacheSize)
	case o.shutdownTimeout < minShutdownTimeout:
		return fmt.Errorf("--graceful-shutdown-timeout: must be at least %v, is %v", minShutdownTimeout, o.shutdownTimeout)
	case o.qps == 0:
		return fmt.Errorf("--kube-api-qps: must be positive, or -1 for no limit, is 0")
	case o.qps > 0 && o.burst < 1:
		return fmt.Errorf("--kube-api-burst: must be at least 1 with --kube-api-qps %v", o.qps)
	}
	return cmp.Or(o.leaderElection.validate(), validateAddress("metrics-bind-address", o.metrics.address),
		validateAddress("health-probe-bind-address", o.probeAddress), validateAddress("pprof-bind-address", o.pprofAddress))
}

// nowhere is the address of a server that is not started.
const nowhere = "0"

// validateAddress returns an error for an address on which nothing can be served. controller-runtime
// would take an empty one for an address of its own.
func validateAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil && address != nowhere {
		return fmt.Errorf("--%s: must be HOST:PORT, :PORT, or %s for nowhere, is %q", flag, nowhere, address)
	}
	return nil
}

// validate returns an error for periods with which two processes could lead at once, and for
// those that client-go refuses.
func (e leaderElection) validate() error {
	// A Lease has its duration in whole seconds, and others count these.
	lasts := e.LeaseDuration.Truncate(time.Second)
	switch {
	case !e.LeaderElect:
		return nil
	case lasts <= e.RenewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration: must exceed --leader-elect-renew-deadline (%v) in whole seconds, is %v", e.RenewDeadline, e.LeaseDuration)
	case e.RetryPeriod <= 0:
		return fmt.Errorf("--leader-elect-retry-period: must be positive, is %v", e.RetryPeriod)
	case float64(e.RenewDeadline) <= leaderelection.JitterFactor*float64(e.RetryPeriod):
		return fmt.Errorf("--leader-elect-renew-deadline: must exceed %v times --leader-elect-retry-period (%v), is %v", leaderelection.JitterFactor, e.RetryPeriod, e.RenewDeadline)
	}
	return nil
}

// noLease is the value of --other-scheduler-lease that says that no other scheduler
// serves default-scheduler.
const noLease = "none"

// otherSchedulerOptions returns what the flags say about other schedulers.
func (o options) otherSchedulerOptions() controllers.OtherSchedulers {
	others := controllers.OtherSchedulers{Names: o.otherSchedulers, Explicit: o.otherSchedulersSet, None: o.otherSchedulerLease == noLease}
	namespace, name, ok := strings.Cut(o.otherSchedulerLease, "/")
	if ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0 {
		others.Lease = &types.NamespacedName{Namespace: namespace, Name: name}
	}
	return others
}

// ownNamespace returns the namespace of the pod; berth-system outside a cluster.
func ownNamespace() string {
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if name := strings.TrimSpace(string(data)); err == nil && name != "" {
		return name
	}
	return "berth-system"
}

// restConfig returns a copy of given; when that is nil, the configuration of
// --kubeconfig or of the pod's service account.
func (o options) restConfig(given *restclient.Config) (*restclient.Config, error) {
	if given != nil {
		return o.withClientFlags(given), nil
	}
	restConfig, err := restclient.InClusterConfig()
	if o.kubeconfig != "" {
		restConfig, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("no way to reach the API server (is --kubeconfig right?): %w", err)
	}
	return o.withClientFlags(restConfig), nil
}

// withClientFlags returns a copy of restConfig with the rate limits and the compression of the
// flags.
func (o options) withClientFlags(restConfig *restclient.Config) *restclient.Config {
	restConfig = restclient.CopyConfig(restConfig)
	restConfig.QPS, restConfig.Burst, restConfig.DisableCompression = o.qps, o.burst, !o.compression
	return restConfig
}

func (o options) managerOptions(scheme *runtime.Scheme, log logr.Logger, end *shutdown) ctrl.Options {
	return ctrl.Options{
		Scheme: scheme, Logger: log,
		Metrics:                o.metrics.server(),
		HealthProbeBindAddress: nowhere, // see probeServer
		PprofBindAddress:       o.pprofAddress,
		LeaderElection:         o.leaderElection.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: o.namespace,
		// What runs after the release writes Events only.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(end.managerTimeout()),
		// Controller-runtime rejects a second controller of the same name in a process, and a
		// process may run several Managers.
		Controller:    config.Controller{SkipNameValidation: ptr.To(true)},
		LeaseDuration: &o.leaderElection.LeaseDuration, RenewDeadline: &o.leaderElection.RenewDeadline, RetryPeriod: &o.leaderElection.RetryPeriod,
	}
}
