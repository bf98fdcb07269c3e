package operator

import (
	"cmp"
	"context"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/berth/test/support/controlplane"
)

// asManager, in the environment of a suite's binary, makes it the manager and not its
// tests. It is the path of the kubeconfig of the manager's account.
const asManager = "BERTH_TEST_IS_MANAGER"

// IsManager reports whether this process was started by StartSelf.
func IsManager() bool { return os.Getenv(asManager) != "" }

// Main is the TestMain of a suite whose binary is a manager as well, with plugins that
// the tests need: manager is its main function, and what is tested is built as the
// tests are.
func Main(tests interface{ Run() int }, manager func()) {
	if IsManager() {
		manager()
		return
	}
	os.Exit(tests.Run())
}

// SelfEnvironment is what makes a process of the suite's binary the manager: a variable
// of its environment as NAME=value. kubeconfig is that of its account; empty for one that
// only parses its flags.
func SelfEnvironment(kubeconfig string) string { return asManager + "=" + cmp.Or(kubeconfig, "none") }

// SelfConfig returns the configuration of the manager's account, for a process that
// StartSelf started.
func SelfConfig() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", os.Getenv(asManager))
}

// StartSelf is Start for the manager that Main was given.
func StartSelf(ctx context.Context, cp *controlplane.ControlPlane, flags ...string) (*Manager, error) {
	return StartSelfIn(ctx, cp, nil, flags...)
}

// StartSelfIn is StartSelf with more environment, each as NAME=value.
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
