package operator

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	berth "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/controlplane"
)

// InProcess is a Manager that runs in the process of a test.
type InProcess struct {
	*berth.Manager
	// Stop ends it, waits until it has ended, and returns the result of Run. Further calls
	// return the same.
	Stop func() error
	// Ended is closed when Run has returned.
	Ended <-chan struct{}
}

// flags are those by which a Manager of a test differs from the shipped one: it listens on no
// address, and creates no profile.
var flags = []string{
	"--namespace=" + Namespace, "--default-profile=", "--metrics-bind-address=0", "--health-probe-bind-address=0",
}

// ShortLease are flags of a Manager that leads soon after another one was killed.
var ShortLease = []string{
	"--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=300ms",
}

// SteadyLease are flags of a Manager that does not lose its Lease by a stall of a second or two, and
// that another one follows in seconds when it is killed.
var SteadyLease = []string{
	"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=300ms",
}

// Run builds the shipped Manager and runs it in this process until Stop, with the account of
// config. It does not wait until the Manager leads. args are additional flags, with are
// additional options.
func Run(config *rest.Config, args []string, with ...berth.Option) (*InProcess, error) {
	ctx, stop := context.WithCancel(context.Background())
	m, err := berth.New(ctx, slices.Concat(flags, args), append([]berth.Option{berth.WithRESTConfig(config)}, with...)...)
	if err != nil {
		stop()
		return nil, err
	}
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		result = m.Run(ctx)
	}()
	return &InProcess{Manager: m, Ended: ended, Stop: sync.OnceValue(func() error {
		stop()
		<-ended
		return result
	})}, nil
}

// asManager is a variable in the environment of a suite's binary that makes it run the manager
// instead of its tests. Its value is the path of the kubeconfig of the manager's account.
const asManager = "BERTH_TEST_IS_MANAGER"

// IsManager says whether this process was started by StartSelf.
func IsManager() bool { return os.Getenv(asManager) != "" }

// Main is the TestMain of a suite whose binary is also a manager, with plugins for the tests:
// manager is its main function.
func Main(tests interface{ Run() int }, manager func()) {
	if IsManager() {
		manager()
		return
	}
	os.Exit(tests.Run())
}

// SelfEnvironment returns the variable, as NAME=value, that makes a process of the suite's
// binary the manager. kubeconfig is that of its account; empty for one that only parses its
// flags.
func SelfEnvironment(kubeconfig string) string { return asManager + "=" + cmp.Or(kubeconfig, "none") }

// SelfConfig returns the configuration of the manager's account, in a process that StartSelf
// started.
func SelfConfig() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", os.Getenv(asManager))
}

// StartSelf is Start for the manager of Main.
func StartSelf(ctx context.Context, cp *controlplane.ControlPlane, flags ...string) (*Manager, error) {
	return StartSelfIn(ctx, cp, nil, flags...)
}

// StartSelfIn is StartSelf with additional environment, each as NAME=value.
func StartSelfIn(ctx context.Context, cp *controlplane.ControlPlane, environment []string, flags ...string) (*Manager, error) {
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, Namespace, Account)
	if err != nil {
		return nil, err
	}
	for _, variable := range append(environment, SelfEnvironment(kubeconfig)) {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		defer os.Unsetenv(name)
	}
	return StartWith(cp, os.Args[0], kubeconfig, flags...)
}
